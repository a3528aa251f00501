//! What may be typed after `add`: its options, whose docs are the manual, and the command.

use std::ffi::OsString;
use std::path::PathBuf;

/// Add a job to the queue
///
/// One argument is a shell command and goes unchanged to bash -c. Two or more arguments, or any after --,
/// are a program and its exact arguments, without a shell. Options of add stand before the command: from its
/// first word on, all belongs to it. The job gets the environment and the folder of this moment.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus add \"python train.py --model gpt2\"
  nexus add --gpus 2 --time 4h python train.py --lr 3
  nexus add --conda torch python train.py
  nexus add --gpus 0 \"tar czf data.tgz data && rm -r data\"")]
pub struct AddArgs {
    /// A name, for name:x
    #[arg(long)]
    pub name: Option<String>,
    /// A project, for project:x
    #[arg(long)]
    pub project: Option<String>,
    /// How many GPUs it needs, or the part of one, as in 2, 0.5; 0 for a job on the CPU [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub gpus: Option<String>,
    /// Shares a GPU: how much of its memory it needs, as in 8G, or auto for what earlier runs reached
    #[arg(long, value_name = "SIZE|auto")]
    pub vram: Option<String>,
    /// How many CPUs it needs [default: 1 for a CPU job, else 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub cpus: Option<u16>,
    /// How much memory of the machine it needs, as in 16G
    #[arg(long, value_name = "SIZE")]
    pub ram: Option<String>,
    /// GPUs whose name contains this, as in A100
    #[arg(long, value_name = "NAME")]
    pub gpu_model: Option<String>,
    /// GPUs it may use, as in 0-3,5
    #[arg(long, value_name = "GPUS")]
    pub on: Vec<String>,
    /// Machines of this class may run it [default: default]
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Only this machine may run it; local is the service's own
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Runs it on the service's host, with a machine held for it as a whole; {MACHINE} is that one's address
    #[arg(long)]
    pub driver: bool,
    /// Lower runs first, may be negative
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Ends it after this time, as in 90s, 30m, 4h, 2d
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Sends a signal before the time limit, as in USR1@120s
    #[arg(long, value_name = "SIGNAL@TIME")]
    pub signal: Option<String>,
    /// Time between TERM and KILL when it is ended [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub grace: Option<String>,
    /// How often it is tried again when it fails
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub retries: u32,
    /// Tries it again after this failure too: timeout
    #[arg(long, value_name = "FAILURE")]
    pub retry_on: Vec<String>,
    /// Starts it when these jobs have completed; if one does not, it fails
    #[arg(long, value_name = "ID")]
    pub after: Vec<String>,
    /// Starts it when these jobs have ended in any way
    #[arg(long, value_name = "ID")]
    pub after_any: Vec<String>,
    /// Refuses it if an identical job is queued, runs or has completed
    #[arg(long)]
    pub unique: bool,
    /// Sets a variable for it
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Sets the variables of a file with lines NAME=value
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Takes this whole environment along to other machines, which have their own otherwise
    #[arg(long)]
    pub export_env: bool,
    /// Runs it in this conda environment, a name or a folder; by conda, mamba or micromamba
    #[arg(long, value_name = "ENV")]
    pub conda: Option<String>,
    /// Runs it in this virtual environment of Python
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// The folder it runs in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Runs it in a copy of this folder as it is now, sent to whichever machine runs it; without what .gitignore names
    #[arg(long, value_name = "DIR")]
    pub sync: Option<PathBuf>,
    /// A further copy of its output, appended to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Copies what it leaves behind into a folder of its own in this one, once it has succeeded (nexus help results)
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Takes a value from its output: the last match of the pattern's first group, as in 'loss=loss: ([0-9.]+)'
    #[arg(long, value_name = "NAME=REGEX")]
    pub extract: Vec<String>,
    /// A tag, for tag:x
    #[arg(long)]
    pub tag: Vec<String>,
    /// How many copies are queued
    #[arg(short = 'x', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub copies: u32,
    /// Keeps it from starting until nexus release
    #[arg(long)]
    pub hold: bool,
    /// Tells of its end, however it ends, by what [notify] of the configuration names (nexus help notify)
    #[arg(long)]
    pub notify: bool,
    /// Lets it have paused GPUs too
    #[arg(long)]
    pub force: bool,
    /// Tells the command its GPUs by number in this argument of its own, as in --gpu-arg=--cuda; all GPUs are visible
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub gpu_arg: Option<String>,
    /// Shows it in a session of GNU screen too: screen -r nexus_job_ID; closing that ends the job
    #[arg(long)]
    pub screen: bool,
    /// Gives it pipes instead of a terminal
    #[arg(long)]
    pub no_tty: bool,
    /// Says where it would start, and queues nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Prints the jobs as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints the id alone
    #[arg(long, short)]
    pub quiet: bool,
    /// A shell command in quotes, or a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Whether `--` stood before the command, which makes up the last `words` of what was typed.
pub fn is_escaped(raw: &[OsString], words: usize) -> bool {
    raw.len().checked_sub(words + 1).is_some_and(|before| raw[before] == "--")
}
