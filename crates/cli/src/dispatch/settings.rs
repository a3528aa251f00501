//! What the dispatcher goes by: options as they were typed, over what a `config.yaml` says.

use std::path::{Path, PathBuf};

use nexus_api::amount::Vram;

use super::config::{self, Config};
use crate::error::{CliError, Refused, Usage};
use crate::job_file::is_plain;
use crate::values;

const HEADING: &str = "Many commands (dispatcher)";
const USUAL_LOG_DIR: &str = "job_logs";
const USUAL_JOBS_FILE: &str = "jobs.jsonl";

#[derive(Clone, Debug, Default, clap::Args)]
pub struct DispatchArgs {
    /// Runs each line of a file as a job, and stays until all have ended
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub commands_file: Option<PathBuf>,
    /// A config.yaml with gpu_ids, min_free_mem_mb, poll_interval, commands_file, log_dir, jobs_file; options go over it
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub config: Option<PathBuf>,
    /// GPUs that the commands may use, as in 0,1 [default: all]
    #[arg(long, value_name = "GPUS", help_heading = HEADING)]
    pub gpu_ids: Option<String>,
    /// Lets the commands share GPUs: memory in MiB that must be free for each [default: a GPU for each alone]
    #[arg(long, value_name = "N", help_heading = HEADING, allow_negative_numbers = true)]
    pub min_free_mem_mb: Option<String>,
    /// Needless, since changes are seen at once: seconds between two looks
    #[arg(long, value_name = "SECONDS", help_heading = HEADING, allow_negative_numbers = true)]
    pub poll_interval: Option<String>,
    /// Gets a log of each run, job_YYYYMMDD_HHMMSS.log [default: ./job_logs]
    #[arg(long, value_name = "DIR", help_heading = HEADING)]
    pub log_dir: Option<PathBuf>,
    /// Says what became of each job; with the same one it goes on where it was [default: ./jobs.jsonl]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub jobs_file: Option<PathBuf>,
    /// Shows the jobs of the jobs file, a line for each, or with --json as an array
    #[arg(long, help_heading = HEADING)]
    pub status: bool,
}

/// What of the dispatcher was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    Run,
    Status,
}

impl DispatchArgs {
    pub fn asked(&self) -> Result<Asked, Usage> {
        let only_for_runs = [
            ("--commands-file", self.commands_file.is_some()),
            ("--gpu-ids", self.gpu_ids.is_some()),
            ("--min-free-mem-mb", self.min_free_mem_mb.is_some()),
            ("--poll-interval", self.poll_interval.is_some()),
            ("--log-dir", self.log_dir.is_some()),
        ];
        let typed = only_for_runs.iter().find(|(_, given)| *given).map(|(option, _)| *option);
        let for_both = self.jobs_file.as_ref().map(|_| "--jobs-file");
        match (self.status, self.commands_file.is_some() || self.config.is_some(), typed.or(for_both)) {
            (true, ..) => match typed {
                None => Ok(Asked::Status),
                Some(option) => Err(Usage::new(
                    format!("--status shows what is there, and {option} says nothing about that"),
                    "nexus run --status --jobs-file FILE",
                )),
            },
            (false, true, _) => Ok(Asked::Run),
            (false, false, None) => Ok(Asked::Nothing),
            (false, false, Some(option)) => {
                Err(Usage::new(format!("{option} is for a file of commands"), "nexus run --commands-file FILE …"))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub commands_file: PathBuf,
    pub gpu_ids: Option<Vec<u16>>,
    /// Of each GPU; none for GPUs of their own.
    pub vram: Option<Vram>,
    pub log_dir: PathBuf,
    pub jobs_file: PathBuf,
}

impl Settings {
    /// Relative paths, those of the file too, count from the folder this was typed in.
    pub fn of(args: &DispatchArgs, cwd: &Path) -> Result<Settings, CliError> {
        let said = said_by_file(args)?;
        let usage = |usage: Usage| usage.of("run");
        if let Some(text) = args.poll_interval.as_ref().filter(|text| !config::is_interval(text)) {
            let error = format!("--poll-interval {text} is no number of seconds above 0");
            return Err(usage(Usage::new(error, "--poll-interval 30, or none: changes are seen at once")));
        }
        let gpu_ids = args.gpu_ids.as_ref().map(|list| values::gpu_list("--gpu-ids", list)).transpose();
        let mib = args.min_free_mem_mb.as_deref().map(mebibytes).transpose().map_err(usage)?;
        let Some(commands_file) = args.commands_file.clone().or(said.commands_file.as_deref().map(from_home)) else {
            let file = args.config.as_deref().unwrap_or(Path::new("config.yaml")).display().to_string();
            let error = format!("{file} does not say commands_file, and no --commands-file was typed");
            return Err(usage(Usage::new(error, format!("nexus run --config {file} --commands-file FILE"))));
        };
        let log_dir = args.log_dir.clone().or(said.log_dir.as_deref().map(from_home));
        Ok(Settings {
            commands_file: cwd.join(commands_file),
            gpu_ids: gpu_ids.map_err(usage)?.or(said.gpu_ids.clone()),
            vram: mib.or(said.min_free_mem_mb).map(Vram::Mib),
            log_dir: absolute(&cwd.join(log_dir.unwrap_or(USUAL_LOG_DIR.into()))),
            jobs_file: jobs_file(args, &said, cwd),
        })
    }

    /// The file of jobs alone, for a look at it.
    pub fn jobs_file(args: &DispatchArgs, cwd: &Path) -> Result<PathBuf, CliError> {
        Ok(jobs_file(args, &said_by_file(args)?, cwd))
    }
}

fn jobs_file(args: &DispatchArgs, said: &Config, cwd: &Path) -> PathBuf {
    let named = args.jobs_file.clone().or(said.jobs_file.as_deref().map(from_home));
    cwd.join(named.unwrap_or(USUAL_JOBS_FILE.into()))
}

#[expect(clippy::disallowed_methods, reason = "is_plain refuses what is no file")]
fn said_by_file(args: &DispatchArgs) -> Result<Config, CliError> {
    let Some(path) = &args.config else { return Ok(Config::default()) };
    let shown = path.display();
    is_plain(path, "--config")?;
    let text = std::fs::read_to_string(path).map_err(CliError::io(format!("--config {shown} cannot be read")))?;
    config::read(&text).map_err(|wrong| {
        let error = format!("{shown}, line {}: {}", wrong.line, wrong.error);
        Refused { error, why: Some("nothing was queued".into()), hint: None }.into()
    })
}

fn mebibytes(text: &str) -> Result<u32, Usage> {
    text.parse().ok().filter(|mib| *mib > 0).ok_or_else(|| {
        Usage::new(
            format!("--min-free-mem-mb {text} is no number of MiB above 0"),
            "--min-free-mem-mb 8000, or none for a GPU for each command alone",
        )
    })
}

/// No shell has looked at what stands in a file: `~/` is the user's home there too.
fn from_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => text.into(),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> DispatchArgs {
        use clap::Parser;
        #[derive(Parser)]
        struct Typed {
            #[command(flatten)]
            args: DispatchArgs,
        }
        Typed::parse_from([&["run"], words].concat()).args
    }

    #[test]
    fn what_was_asked_for() {
        for (words, asked) in [
            (&[][..], Ok(Asked::Nothing)),
            (&["--commands-file", "f"], Ok(Asked::Run)),
            (&["--config", "c"], Ok(Asked::Run)),
            (&["--status"], Ok(Asked::Status)),
            (&["--status", "--config", "c", "--jobs-file", "j"], Ok(Asked::Status)),
            (&["--status", "--commands-file", "f"], Err("--commands-file")),
            (&["--jobs-file", "j"], Err("--jobs-file")),
            (&["--gpu-ids", "0"], Err("--gpu-ids")),
        ] {
            match (args(words).asked(), asked) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{words:?}"),
                (Err(usage), Err(option)) => assert!(usage.error.contains(option), "{words:?}: {usage:?}"),
                (found, _) => panic!("{words:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn options_go_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        std::fs::write(&file, "gpu_ids: 0\nmin_free_mem_mb: 5\ncommands_file: a\nlog_dir: l\njobs_file: /j\n").unwrap();
        let file = file.to_str().unwrap();
        let of = |words: &[&str]| Settings::of(&args(&[&["--config", file], words].concat()), Path::new("/w"));
        let expected = Settings {
            commands_file: "/w/a".into(),
            gpu_ids: Some(vec![0]),
            vram: Some(Vram::Mib(5)),
            log_dir: "/w/l".into(),
            jobs_file: "/j".into(),
        };
        assert_eq!(of(&[]).unwrap(), expected);
        let typed = ["--commands-file", "b", "--gpu-ids", "1,2", "--min-free-mem-mb", "7", "--log-dir", "./m"];
        let expected = Settings {
            commands_file: "/w/b".into(),
            gpu_ids: Some(vec![1, 2]),
            vram: Some(Vram::Mib(7)),
            log_dir: "/w/m".into(),
            ..expected
        };
        assert_eq!(of(&typed).unwrap(), expected);
        for bad in
            [["--gpu-ids", "x"], ["--min-free-mem-mb", "0"], ["--min-free-mem-mb", "8G"], ["--poll-interval", "0"]]
        {
            assert_eq!(of(&bad).unwrap_err().exit_code(), 2, "{bad:?}");
        }
        let alone = Settings::of(&args(&["--commands-file", "a"]), Path::new("/w")).unwrap();
        assert_eq!((alone.log_dir, alone.jobs_file), ("/w/job_logs".into(), "/w/jobs.jsonl".into()));
    }
}
