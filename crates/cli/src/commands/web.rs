//! `nexus web`: the page's address.

use std::io::Write;
use std::process::Stdio;

use jiff::Zoned;
use nexus_api::web::{Web, WebOn};
use nexus_node::run_file;

use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;
use crate::render;

/// Print a link to the web page
///
/// The page is served on this machine alone, from the first nexus web on and after every restart, until nexus web
/// --off. The link lets one browser in, once, within ten minutes. An open tab stays in; a browser that is closed for longer
/// than web.session (12 hours) needs a new link. From another machine: ssh -L 4004:127.0.0.1:4004 HOST, then open the link
/// there. Programs send the token in web.token of nexus's folder: Authorization: Bearer TOKEN.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus web
  nexus web --port 8080
  nexus web browsers
  nexus web revoke 3fa91c
  nexus web --off"
)]
pub struct WebArgs {
    #[command(subcommand)]
    pub verb: Option<WebVerb>,
    /// The port, remembered; 0 takes any that is free [default: web.port, which is 4004]
    #[arg(long, value_name = "N", conflicts_with = "off")]
    pub port: Option<u16>,
    /// Opens no browser
    #[arg(long)]
    pub no_open: bool,
    /// Serves the page at an address where OTHERS reach it: without encryption, and whoever gets in runs commands as you
    #[arg(long, value_name = "ADDRESS", conflicts_with = "off")]
    pub expose: Option<String>,
    /// Serves no page any more; browsers that were let in are out, web.token has a new token
    #[arg(long)]
    pub off: bool,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum WebVerb {
    Browsers(BrowsersArgs),
    Revoke(RevokeArgs),
}

/// List the browsers that were let in
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus web browsers")]
pub struct BrowsersArgs {
    /// Prints them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Let browsers in no more, and close what they have open
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus web revoke 3fa91c
  nexus web revoke --all")]
pub struct RevokeArgs {
    /// As nexus web browsers lists them
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
}

pub async fn run(args: WebArgs, app: &App) -> Result<ExitCode, CliError> {
    match &args.verb {
        Some(WebVerb::Browsers(args)) => return browsers(args, app).await,
        Some(WebVerb::Revoke(args)) => return revoke(args, app).await,
        None => {}
    }
    let client = app.started().await?;
    if args.off {
        let was_on = client.web().await?.address.is_some();
        let web = client.web_off().await?;
        match (args.json, was_on) {
            (true, _) => app.ui.json(&web)?,
            (false, true) => app.ui.say("the web page is off, and nobody is let in"),
            (false, false) => app.ui.say("the web page was off already"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let web = client.web_on(&WebOn { port: args.port, expose: args.expose.clone() }).await?;
    match (args.json, &web.link) {
        (true, _) => app.ui.json(&web)?,
        (false, Some(link)) => app.ui.data(&format!("{link}\n"))?,
        (false, None) => {}
    }
    if web.exposed {
        app.ui.warn(&exposed(&web));
    } else if !args.json && app.ui.err_is_terminal() {
        let port = web.address.as_deref().and_then(|at| at.rsplit(':').next()).unwrap_or_default();
        app.ui.say("the link works once, within ten minutes");
        app.ui.say(&format!("from another machine: ssh -L {port}:127.0.0.1:{port} {}, then open it there", login()));
    }
    if let Some(link) = web.link.as_ref().filter(|_| !args.no_open && has_display()) {
        open(link, app);
    }
    Ok(ExitCode::SUCCESS)
}

async fn browsers(args: &BrowsersArgs, app: &App) -> Result<ExitCode, CliError> {
    let browsers = app.started().await?.browsers().await?;
    match (args.json, browsers.is_empty()) {
        (true, _) => app.ui.json(&browsers)?,
        (false, true) => app.ui.say("no browser is let in: nexus web prints a link"),
        (false, false) => app.ui.data(&render::browsers::browsers(&browsers, &Zoned::now(), app.ui.paint()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(args: &RevokeArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.started().await?;
    let ids = match args.all {
        true => client.browsers().await?.into_iter().map(|browser| browser.id).collect(),
        false => args.ids.clone(),
    };
    for id in &ids {
        client.revoke_browser(id).await?;
        app.ui.say(&format!("browser {id} is let in no more"));
    }
    if ids.is_empty() {
        app.ui.say("no browser was let in");
    }
    Ok(ExitCode::SUCCESS)
}

fn exposed(web: &Web) -> String {
    let at = web.address.as_deref().unwrap_or_default();
    format!(
        "OTHERS REACH THIS PAGE, at {at}, AND NOTHING IS ENCRYPTED.\n\
         Whoever reads along on the network can take the link and what the page is sent, and run commands as you.\n\
         nexus web --off ends it; nexus web --expose 127.0.0.1 takes it back to this machine, and\n\
         ssh -L 4004:127.0.0.1:4004 {} brings it safely to another.",
        login()
    )
}

/// As one would type it to ssh.
fn login() -> String {
    let host = nexus_node::home::hostname();
    match std::env::var("USER").ok().filter(|user| !user.is_empty()) {
        Some(user) => format!("{user}@{host}"),
        None => host,
    }
}

/// Whether a browser opened from here would be seen.
fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// By a file that leads to it: the arguments of a program can be read by others, and the link is a key.
fn open(link: &str, app: &App) {
    let file = app.home.dir.join("web-open.html");
    let text =
        format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">nexus</a>\n");
    let made = run_file::create(&file);
    let opened = made.and_then(|mut made| made.write_all(text.as_bytes())).and_then(|()| {
        std::process::Command::new("xdg-open")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    if opened.is_err() {
        app.ui.note("no browser could be opened; the link is above");
    }
}
