//! `config.toml`: what it may say, and what holds when it says nothing.

mod gpus;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::problem::Problem;
use nexus_core::policy::Policy;
use serde::Deserialize;

pub use gpus::{GpuConfig, GpuUse, Shares, Visible};

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub log_dir: Option<PathBuf>,
    /// The queue as text; none = `jobs.txt` in the home.
    pub jobs_file: Option<PathBuf>,
    pub shell: String,
    pub grace: Duration,
    pub tty: bool,
    pub policy: Policy,
    pub gpus: GpuConfig,
    pub log_max_size: u64,
    pub log_keep: u32,
}

/// The file as it is made at first use: every key, each at its default.
pub const TEMPLATE: &str = r#"# nexus configuration. Every key is shown with its default; take the # away to change one.
# nexus restart puts changes into force; running jobs go on.

[paths]
# log_dir = "~/.nexus/logs"       # where jobs leave their output
# jobs_file = "~/.nexus/jobs.txt" # the queue as text; lines added there become jobs

[jobs]
# shell = "bash"                  # runs a job's command; sh where it is missing
# grace = "10s"                   # between TERM and KILL
# tty = true                      # jobs see a terminal, so progress bars work
# retry_wait = "5s"               # before the first retry; doubles with each
# retry_wait_max = "10m"
# start_attempts = 5              # starts that the machine may fail before the job fails

[log]
# max_size = "50MB"               # of service.log, then it is rotated
# keep = 5                        # rotated files kept
"#;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    paths: Paths,
    jobs: Jobs,
    log: Log,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Paths {
    log_dir: Option<String>,
    jobs_file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Jobs {
    shell: Option<String>,
    grace: Option<Span>,
    tty: Option<bool>,
    retry_wait: Option<Span>,
    retry_wait_max: Option<Span>,
    start_attempts: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Log {
    max_size: Option<Size>,
    keep: Option<u32>,
}

/// A duration with its unit: `10s`, `5m`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Span(Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        let wrong = || format!("{text:?} is no duration: write 10s, 5m or 2h");
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = text[..split].parse().map_err(|_| wrong())?;
        let unit = match text[split..].trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86400,
            _ => return Err(wrong()),
        };
        Ok(Span(Duration::from_secs(number.checked_mul(unit).ok_or_else(wrong)?)))
    }
}

/// A size with its unit: `50MB`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Size(u64);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        let wrong = || format!("{text:?} is no size: write 50MB or 1GB");
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = text[..split].parse().map_err(|_| wrong())?;
        let unit = match text[split..].trim().to_ascii_uppercase().as_str() {
            "K" | "KB" => 1 << 10,
            "M" | "MB" => 1 << 20,
            "G" | "GB" => 1 << 30,
            _ => return Err(wrong()),
        };
        Ok(Size(number.checked_mul(unit).ok_or_else(wrong)?))
    }
}

impl Default for Config {
    fn default() -> Config {
        from_file(File::default(), None)
    }
}

/// Reads the file, making it first where there is none.
pub fn load(path: &Path, user_home: Option<&Path>) -> Result<Config, Problem> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            make(path).map_err(|error| Problem::HomeUnusable {
                path: path.display().to_string(),
                error: error.to_string(),
            })?;
            TEMPLATE.to_string()
        }
        Err(error) => return Err(bad(path, None, error.to_string())),
    };
    parse(&text, path, user_home)
}

fn make(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(TEMPLATE.as_bytes())
}

fn parse(text: &str, path: &Path, user_home: Option<&Path>) -> Result<Config, Problem> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() as u64 + 1);
        bad(path, line, with_nearest(error.message()))
    })?;
    Ok(from_file(file, user_home))
}

fn from_file(file: File, user_home: Option<&Path>) -> Config {
    let usual = Policy::default();
    Config {
        log_dir: file.paths.log_dir.map(|dir| expand_home(&dir, user_home)),
        jobs_file: file.paths.jobs_file.map(|path| expand_home(&path, user_home)),
        shell: file.jobs.shell.unwrap_or_else(|| "bash".into()),
        grace: file.jobs.grace.map_or(Duration::from_secs(10), |span| span.0),
        tty: file.jobs.tty.unwrap_or(true),
        policy: Policy {
            retry_wait: file.jobs.retry_wait.map_or(usual.retry_wait, |span| span.0),
            retry_wait_max: file.jobs.retry_wait_max.map_or(usual.retry_wait_max, |span| span.0),
            start_attempts: file.jobs.start_attempts.unwrap_or(usual.start_attempts),
        },
        gpus: GpuConfig::default(),
        log_max_size: file.log.max_size.map_or(50 << 20, |size| size.0),
        log_keep: file.log.keep.unwrap_or(5),
    }
}

fn bad(path: &Path, line: Option<u64>, error: String) -> Problem {
    Problem::BadConfig { path: path.display().to_string(), line, error }
}

fn expand_home(dir: &str, user_home: Option<&Path>) -> PathBuf {
    match (dir.strip_prefix("~/"), user_home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(dir),
    }
}

const KEYS: &[&str] = &[
    "paths",
    "jobs",
    "log",
    "log_dir",
    "jobs_file",
    "shell",
    "grace",
    "tty",
    "retry_wait",
    "retry_wait_max",
    "start_attempts",
    "max_size",
    "keep",
];

/// For an unknown key, names the known one that looks most like it.
fn with_nearest(message: &str) -> String {
    let message = message.trim();
    let Some(wrong) = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) else {
        return message.to_string();
    };
    let nearest = KEYS.iter().map(|key| (distance(wrong, key), key)).min();
    match nearest {
        Some((distance, key)) if distance <= 3 => format!("there is no key {wrong}; did you mean {key}?"),
        _ => format!("there is no key {wrong}"),
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Problem> {
        parse(text, Path::new("config.toml"), Some(Path::new("/home/ann")))
    }

    #[test]
    fn the_template_says_the_defaults() {
        assert_eq!(read(TEMPLATE).unwrap(), Config::default());
        let all: String = TEMPLATE.lines().map(|line| line.trim_start_matches("# ").to_string() + "\n").collect();
        let without_talk: String =
            all.lines().filter(|l| l.contains('=') || l.starts_with('[')).map(|l| format!("{l}\n")).collect();
        let expected = Config {
            log_dir: Some("/home/ann/.nexus/logs".into()),
            jobs_file: Some("/home/ann/.nexus/jobs.txt".into()),
            ..Config::default()
        };
        assert_eq!(read(&without_talk).unwrap(), expected);
    }

    #[test]
    fn a_wrong_key_is_named_with_its_line_and_the_nearest() {
        let Err(Problem::BadConfig { line, error, .. }) = read("[jobs]\n\ngrce = \"3s\"\n") else { panic!() };
        assert_eq!((line, error.as_str()), (Some(3), "there is no key grce; did you mean grace?"));
    }

    #[test]
    fn a_wrong_type_is_named_with_its_line() {
        let Err(Problem::BadConfig { line, error, .. }) = read("[jobs]\ngrace = \"soon\"\n") else { panic!() };
        assert_eq!(line, Some(2));
        assert!(error.contains("is no duration"), "{error}");
    }
}
