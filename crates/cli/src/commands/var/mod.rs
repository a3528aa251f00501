//! `nexus var`: values that commands name. None is ever typed as an argument, and none is shown.

mod value;

use jiff::Zoned;
use nexus_api::variables::{SetVariable, check_name};

use crate::app::App;
use crate::error::{CliError, Refused, Usage};
use crate::process::ExitCode;
use crate::render;

/// Keep values that commands name as {TOKEN}
///
/// {TOKEN} in a command, or in the value of --env, is replaced by the variable's value when the job starts. Listings,
/// logs of the service and records show the name alone.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_value_name = "COMMAND",
    after_help = "\
Examples:
  nexus var set TOKEN
  nexus var set TOKEN < token.txt
  nexus add --env TOKEN={TOKEN} \"python train.py\"
  nexus var ls
  nexus var unset TOKEN"
)]
pub struct VarArgs {
    #[command(subcommand)]
    pub verb: VarVerb,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub enum VarVerb {
    Ls(LsArgs),
    Set(SetArgs),
    Unset(UnsetArgs),
}

/// Show the variables: their names, and how many jobs need them
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus var ls")]
pub struct LsArgs {
    /// Prints them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Set a variable to a value that is typed, or piped
///
/// On a terminal the value is asked for and not shown. Elsewhere it is what comes on standard input, without its last
/// newline.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "nexus var set <NAME>",
    after_help = "\
Examples:
  nexus var set TOKEN
  printf %s \"$TOKEN\" | nexus var set TOKEN
  nexus var set TOKEN < token.txt"
)]
pub struct SetArgs {
    /// Letters, digits and _
    // All words are taken, so that no error repeats a value that somebody typed here.
    #[arg(value_name = "NAME", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Take a variable back
///
/// Its value stays until the last job that needs it has ended.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus var unset TOKEN")]
pub struct UnsetArgs {
    /// As nexus var ls shows it
    #[arg(value_name = "NAME")]
    pub name: String,
}

pub async fn run(args: VarArgs, app: &App) -> Result<ExitCode, CliError> {
    match args.verb {
        VarVerb::Ls(args) => list(args, app).await?,
        VarVerb::Set(args) => set(args, app).await?,
        VarVerb::Unset(args) => unset(args, app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: LsArgs, app: &App) -> Result<(), CliError> {
    let variables = app.reader().variables().await?;
    if args.json {
        return app.ui.json(&variables);
    }
    if variables.is_empty() {
        app.ui.say("no variable is set: nexus var set TOKEN sets one");
    }
    app.ui.data(&render::variables::variables(&variables, &Zoned::now(), app.ui.out_is_terminal(), app.ui.paint()))
}

async fn set(args: SetArgs, app: &App) -> Result<(), CliError> {
    let name = name_of(&args.words).map_err(|usage| usage.of("var set"))?;
    let bad = |want| CliError::from(Refused { error: format!("{name} is not set"), why: Some(want), hint: None });
    let value = value::read(name, &app.ui)?;
    nexus_api::variables::check_value(&value).map_err(bad)?;
    app.started().await?.set_variable(name, &SetVariable { value }).await?;
    app.ui.say(&format!("{name} is set: {{{name}}} in a command stands for it"));
    Ok(())
}

/// The name among the words, if it is alone.
fn name_of(words: &[String]) -> Result<&str, Usage> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let name = first.split('=').next().unwrap_or_default();
    let is_name = check_name(name).is_ok();
    if words.len() > 1 || first.contains('=') {
        let shown = if is_name { name } else { "NAME" };
        return Err(Usage::new(
            "a value is not taken from the command line, where others can see it; nothing was set",
            format!("nexus var set {shown} asks for it, or takes it from a pipe"),
        ));
    }
    check_name(name).map_err(|want| Usage::new(format!("{name} cannot be a variable"), format!("it needs {want}")))?;
    Ok(name)
}

async fn unset(args: UnsetArgs, app: &App) -> Result<(), CliError> {
    let variable = app.started().await?.unset_variable(&args.name).await?;
    let left = match variable.jobs {
        0 => "its value is deleted".to_string(),
        1 => "its value is deleted when the job that needs it has ended".to_string(),
        jobs => format!("its value is deleted when the {jobs} jobs that need it have ended"),
    };
    app.ui.say(&format!("{} is not set any more; {left}", variable.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_the_command_line_is_refused_and_not_repeated() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            name_of(&words).map(String::from)
        };
        assert_eq!(read(&["TOKEN"]).as_deref(), Ok("TOKEN"));
        for words in [&["TOKEN=s3cret"][..], &["TOKEN", "s3cret"], &["TOKEN", "--value", "s3cret"], &["s-3cret=s3cret"]]
        {
            let told = read(words).unwrap_err();
            assert!(!format!("{told:?}").contains("3cret"), "{told:?}");
        }
        assert!(read(&["1A"]).unwrap_err().error.contains("1A cannot be a variable"));
        assert!(read(&["MACHINE"]).is_err());
    }
}
