//! `nexus __service`: this process becomes the service. Typed by nobody; see `start.rs`.

use nexus_api::paths::Home;

use crate::process::ExitCode;

#[derive(Clone, Debug, clap::Args)]
pub struct ServiceArgs {
    #[arg(long)]
    pub simulate_gpus: Option<u16>,
    #[arg(long)]
    pub adopt_home: bool,
    /// KEY=VALUE
    #[arg(long)]
    pub over: Vec<String>,
}

pub fn run(args: ServiceArgs, home: Home) -> ExitCode {
    let pair = |text: &String| text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    let options = nexus_daemon::Options {
        simulate_gpus: args.simulate_gpus,
        adopt_home: args.adopt_home,
        overrides: args.over.iter().filter_map(pair).collect(),
    };
    nexus_node::memory::share();
    nexus_daemon::run(home, options).into()
}
