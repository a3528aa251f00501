//! `nexus node`: this process becomes a node on its standard input and output. Typed by nobody: a service starts it over
//! ssh on another machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_node::line::serve::{self, ServeOptions};

use crate::error::{Told, code};
use crate::process::ExitCode;
use crate::ui::Ui;

#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// Where it lives: ~/.nexus/nodes/<service id>
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    pub home: Option<PathBuf>,
    /// Look at no GPUs: the service makes some up
    #[arg(long)]
    pub simulate_gpus: bool,
    /// Submit to Slurm instead of running here: options in JSON
    #[arg(long, value_name = "JSON", hide = true)]
    pub slurm: Option<String>,
    /// Milliseconds between looks at the GPUs, until the service says otherwise
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub poll: Option<u64>,
    /// Only tell whether this program is the one with this SHA-256
    #[arg(long, value_name = "HASH")]
    pub check: Option<String>,
}

pub fn run(args: NodeArgs, ui: &Ui) -> ExitCode {
    if let Some(wanted) = &args.check {
        return check(wanted, ui);
    }
    let usual = ServeOptions::new(args.home.expect("asked for by its arguments"));
    let poll = args.poll.map_or(usual.poll, Duration::from_millis);
    let slurm = match args.slurm.as_deref().map(serde_json::from_str).transpose() {
        Ok(slurm) => slurm,
        Err(error) => {
            ui.failed(&Told { error: format!("--slurm cannot be read: {error}"), why: None, hint: None }, None);
            return ExitCode::from(code::USAGE);
        }
    };
    serve::main(ServeOptions { poll, simulate: args.simulate_gpus, slurm, ..usual }).into()
}

fn check(wanted: &str, ui: &Ui) -> ExitCode {
    let error = match nexus_daemon::file_digest(Path::new("/proc/self/exe")) {
        Ok(found) if found == wanted.to_ascii_lowercase() => return ExitCode::SUCCESS,
        Ok(found) => format!("this nexus is {found}, and not {wanted}"),
        Err(error) => format!("this nexus cannot read itself: {error}"),
    };
    ui.failed(&Told { error, why: None, hint: None }, None);
    ExitCode::from(code::CANNOT_BE_MET)
}
