//! Starts the service in the background and returns when it answers.

use std::error::Error;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::service::StartReport;
use nexus_node::sockets;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::error::CliError;
use crate::unit;

/// A service says within this time that it is ready, or has failed.
const REPORT_LIMIT: Duration = Duration::from_secs(60);

/// Another service of this home may still be coming up, or going down, for this long.
const OTHER_SERVICE_LIMIT: Duration = Duration::from_secs(20);
const OTHER_SERVICE_LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    pub simulate_gpus: Option<u16>,
    pub adopt_home: bool,
    /// Keys of the configuration and what they are to be until the next start.
    pub overrides: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    Now,
    Before,
}

/// Makes sure that a service answers. `options` count only for one that is started here.
pub async fn ensure(client: &Client, home: &Home, options: &StartOptions) -> Result<Began, CliError> {
    let deadline = Instant::now() + OTHER_SERVICE_LIMIT;
    loop {
        match client.answers().await {
            Ok(true) => return Ok(Began::Before),
            // The service makes a socket of its own in that place, if the home is this user's.
            Err(CliError::Connection { source, .. }) if is_foreign(&*source) => {}
            answered => drop(answered?),
        }
        outside_of_jobs(home)?;
        // Whoever wants something of its own for this start gets a service of its own.
        if *options == StartOptions::default() && unit::is_installed(home) && unit::start(client).await {
            return Ok(Began::Now);
        }
        match spawn(options).await? {
            StartReport::Ready { .. } => return Ok(Began::Now),
            StartReport::Failed { problem } => return Err(problem.into()),
            StartReport::AlreadyRuns if Instant::now() < deadline => sleep(OTHER_SERVICE_LOOK).await,
            StartReport::AlreadyRuns => {
                return Err(not_started(format!(
                    "another service holds {} and does not answer",
                    home.lock().display()
                )));
            }
        }
    }
}

/// A service started by one of its own jobs would be a process of that job, and end with it.
fn outside_of_jobs(home: &Home) -> Result<(), CliError> {
    let run_dir = std::env::var_os("NEXUS_RUN_DIR").map(PathBuf::from);
    match run_dir.filter(|dir| dir.starts_with(&home.dir)) {
        None => Ok(()),
        Some(_) => Err(not_started("a job cannot start the service that it belongs to".into())),
    }
}

async fn spawn(options: &StartOptions) -> Result<StartReport, CliError> {
    let mut command = service_command(options);
    let doing = "the service could not be started";
    let mut child = command.spawn().map_err(CliError::io(doing))?;
    let stdout = child.stdout.take().expect("its output was piped");
    let report = read_report(OwnedFd::from(stdout)).await;
    if !matches!(report, Ok(StartReport::Ready { .. })) {
        // It is on its way out; only one that never spoke may still sit there.
        let _ = child.try_wait();
    }
    report
}

/// This very program as the service of the home: no terminal, no folder held, nothing of a job around it.
fn service_command(options: &StartOptions) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("nexus").arg("__service").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(count) = options.simulate_gpus {
        command.arg("--simulate-gpus").arg(count.to_string());
    }
    if options.adopt_home {
        command.arg("--adopt-home");
    }
    for (key, value) in &options.overrides {
        command.arg("--over").arg(format!("{key}={value}"));
    }
    // A relative NEXUS_HOME means the caller's folder, not the service's.
    if let Some(home) = std::env::var_os("NEXUS_HOME").filter(|home| !home.is_empty())
        && let Ok(absolute) = std::path::absolute(PathBuf::from(home))
    {
        command.env("NEXUS_HOME", absolute);
    }
    // Inside a job of another home the service is that job's; its own jobs are not.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(nexus_api::env::is_reserved) {
            command.env_remove(name);
        }
    }
    // SAFETY: both calls are async-signal-safe and touch no memory of ours.
    unsafe {
        command.pre_exec(|| {
            // A lock or a pipe that the caller holds must not stay held for as long as the service lives.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            rustix::process::setsid().map(drop).map_err(Into::into)
        });
    }
    command
}

async fn read_report(stdout: OwnedFd) -> Result<StartReport, CliError> {
    let pipe = pipe::Receiver::from_owned_fd(stdout).map_err(CliError::io("the service could not be heard"))?;
    let line = match timeout(REPORT_LIMIT, read_line(&pipe)).await {
        Ok(line) => line.map_err(CliError::io("the service could not be heard"))?,
        Err(_) => return Err(not_started(format!("it said nothing for {} seconds", REPORT_LIMIT.as_secs()))),
    };
    match serde_json::from_slice(&line) {
        Ok(report) => Ok(report),
        Err(_) if line.is_empty() => Err(not_started("it ended without a word; service.log may tell".into())),
        Err(_) => Err(not_started(String::from_utf8_lossy(&line).trim().to_string())),
    }
}

/// Bytes up to the first newline, or the end.
async fn read_line(pipe: &pipe::Receiver) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut some = [0; 4096];
    loop {
        pipe.readable().await?;
        match pipe.try_read(&mut some) {
            Ok(0) => return Ok(line),
            Ok(count) => {
                line.extend_from_slice(&some[..count]);
                if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                    line.truncate(end);
                    return Ok(line);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_foreign(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(sockets::is_foreign)
}

fn not_started(error: String) -> CliError {
    CliError::Problem(Problem::NotStarted { error })
}
