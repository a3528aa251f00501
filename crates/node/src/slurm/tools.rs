//! Slurm's programs, each for a time and no longer, and no more than one question a second.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::deadline::{self, Ended, RunError};

/// A controller that is away is waited for by each program, about ten seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// Between two questions.
const GAP: Duration = Duration::from_secs(1);

/// Text of a program that goes into an error.
const LONGEST_COMPLAINT: usize = 400;

/// Variables that change what Slurm's programs do or print. Those of sbatch are how some sites set the usual account.
const OF_SLURM: [&str; 5] = ["SLURM_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_"];

/// What sbatch needs, and so jobs begin with.
const FOR_SUBMIT: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "SLURM_CONF", "LD_LIBRARY_PATH"];

pub struct Tools {
    /// Where the programs are, and what they are told, where this process's own environment does not have them.
    login_env: Vec<(String, String)>,
    asked_at: Option<Instant>,
}

impl Tools {
    /// With the environment of a login shell, if `sbatch` is not to be found without.
    pub fn find() -> Tools {
        let here = std::env::var_os("PATH").is_some_and(|path| finds(&path.to_string_lossy(), "sbatch"));
        let login_env = if here { vec![] } else { crate::login::read(LIMIT).0 };
        Tools { login_env, asked_at: None }
    }

    /// Asks something, when it is time. What it printed, or why there is no answer.
    pub fn ask(&mut self, program: &str, arguments: &[String]) -> Result<String, String> {
        if let Some(asked) = self.asked_at {
            std::thread::sleep(GAP.saturating_sub(asked.elapsed()));
        }
        let ended = self.run(program, arguments, Path::new("/"));
        self.asked_at = Some(Instant::now());
        let ended = ended.map_err(|error| silent(program, &error))?;
        // squeue ends well where it does not know the user: then nothing is no answer.
        match ended.status.success() && !ended.stderr.contains("error:") {
            true => Ok(ended.stdout),
            false => Err(format!("Slurm does not answer: {}", said(program, &ended))),
        }
    }

    /// Submits something. What this process has in its environment is not for jobs: they have that of a login. Without
    /// `--export=ALL` Slurm would look for one too, and take its time.
    pub fn submit(&self, arguments: &[String], folder: &Path) -> Result<Ended, RunError> {
        let mut command = self.command("sbatch", arguments, folder);
        let kept: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        let counts = |name: &str| name.starts_with("SBATCH_") || FOR_SUBMIT.contains(&name);
        let own = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(counts));
        let own: Vec<_> = own.chain(kept.into_iter().filter(|(name, _)| name.to_str().is_some_and(counts))).collect();
        command.env_clear().envs(own);
        deadline::run_command(command, LIMIT)
    }

    pub fn run(&self, program: &str, arguments: &[String], folder: &Path) -> Result<Ended, RunError> {
        deadline::run_command(self.command(program, arguments, folder), LIMIT)
    }

    /// What this process was started from of Slurm (a service may run in a job) does not count.
    fn command(&self, program: &str, arguments: &[String], folder: &Path) -> Command {
        let path = self.login_env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let mut command = Command::new(path.and_then(|path| find(path, program)).unwrap_or_else(|| program.into()));
        command.args(arguments).current_dir(folder);
        command.envs(self.login_env.iter().map(|(name, value)| (name, value)));
        let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let counts = |name: &str| OF_SLURM.iter().any(|start| name.starts_with(start)) && name != "SLURM_CONF";
        for name in own.filter(|name| counts(name)) {
            command.env_remove(name);
        }
        // Lists of array tasks are not cut short.
        command.env("SLURM_BITSTR_LEN", "0");
        command
    }
}

/// What a program complained of, or that it ended without a word.
pub fn said(program: &str, ended: &Ended) -> String {
    let text = if ended.stderr.trim().is_empty() { &ended.stdout } else { &ended.stderr };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.is_empty() {
        true => format!("{program} failed without a word ({})", ended.status),
        false => text.chars().take(LONGEST_COMPLAINT).collect(),
    }
}

/// That a program gave no answer, and why.
pub fn silent(program: &str, error: &RunError) -> String {
    match error {
        RunError::Start(source) if source.kind() == std::io::ErrorKind::NotFound => {
            format!("{program} is not there: is Slurm installed, and in the PATH of a login shell?")
        }
        error => format!("Slurm does not answer: {program} {}", told(error)),
    }
}

fn told(error: &RunError) -> String {
    match error {
        RunError::Start(source) if source.kind() == std::io::ErrorKind::NotFound => "is not there".into(),
        error => error.to_string(),
    }
}

fn finds(path: &str, program: &str) -> bool {
    find(path, program).is_some()
}

fn find(path: &str, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
