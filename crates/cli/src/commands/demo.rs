//! `nexus demo`: a throw-away service shows what nexus does.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_api::paths::Home;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::Client;
use crate::commands::{status, stop};
use crate::error::{CliError, Refused, code};
use crate::process::ExitCode;
use crate::ui::Ui;

/// Small, real, and over in a few seconds.
const JOBS: &[(&str, &str)] = &[
    ("warm-up", "echo \"epoch 1 on GPU $NEXUS_GPU_ID\"; sleep 1; echo done"),
    ("train", "for epoch in 1 2 3; do echo \"epoch $epoch loss 0.$((9 - epoch))\"; sleep 0.5; done"),
    ("evaluate", "sleep 1; echo accuracy 0.97"),
    ("broken", "sleep 0.5; echo \"ModuleNotFoundError: No module named 'foo'\" >&2; exit 1"),
    ("export", "sleep 1; echo exported"),
    ("report", "echo all numbers are in"),
];

/// Show what nexus does, on your GPUs or simulated ones
///
/// In a temporary home, with a service of its own, on the GPUs that are free, or on two simulated ones where there
/// are none; everything is deleted at the end.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus demo")]
pub struct DemoArgs {}

pub async fn run(_: DemoArgs, ui: &Ui) -> Result<ExitCode, CliError> {
    // Before anything is made, so that nothing is left behind.
    let doing = "Ctrl-C cannot be listened for";
    let mut interrupted = signal(SignalKind::interrupt()).map_err(CliError::io(doing))?;
    let dir = make_home()?;
    let stage = Stage { ui, dir: dir.clone(), client: Client::new(&home_at(&dir)?) };
    let played = tokio::select! {
        played = stage.play() => played,
        _ = interrupted.recv() => {
            Err(Refused { error: "the demo was broken off".into(), why: None, hint: None }.into())
        }
    };
    let cleaned = stage.clean_up().await;
    played?;
    cleaned?;
    ui.say("\nThe demo's service and files are gone. Yours begins with: nexus add \"python train.py\"");
    Ok(ExitCode::SUCCESS)
}

struct Stage<'a> {
    ui: &'a Ui,
    dir: PathBuf,
    client: Client,
}

impl Stage<'_> {
    async fn play(&self) -> Result<(), CliError> {
        self.ui.say(&format!("A demo in {}; its jobs are real.\n", self.dir.display()));
        self.nexus(&["start"])?;
        let machines = self.client.gpus().await?;
        if machines.iter().flat_map(|machine| &machine.gpus).all(|gpu| gpu.obstacle.is_some()) {
            self.ui.say("\nNo GPU is free here: two simulated ones stand in.");
            self.nexus(&["start", "--simulate-gpus", "2"])?;
        }
        for (name, command) in JOBS {
            self.nexus(&["add", "--name", name, command])?;
        }
        self.ui.say("");
        if self.ui.out_is_terminal() {
            status::watch(&self.client, self.ui, false, |now| now.pending == 0 && now.active.is_empty()).await?;
        } else {
            self.nexus(&["status"])?;
        }
        self.ui.say("");
        // One job fails, on purpose: `wait` says so with its exit code.
        self.nexus_may_fail(&["wait", "--all"])?;
        self.nexus(&["history"])?;
        self.nexus(&["logs", "name:train"])
    }

    async fn clean_up(&self) -> Result<(), CliError> {
        if self.client.answers().await? {
            stop::stop(&self.client, false).await?;
        }
        let doing = format!("{} could not be deleted", self.dir.display());
        std::fs::remove_dir_all(&self.dir).map_err(CliError::io(doing))
    }

    /// Shows a command line and what it does.
    fn nexus(&self, words: &[&str]) -> Result<(), CliError> {
        if self.nexus_may_fail(words)? {
            return Ok(());
        }
        Err(Refused {
            error: format!("nexus {} failed in the demo", words.join(" ")),
            why: None,
            hint: Some("nexus doctor".into()),
        }
        .into())
    }

    fn nexus_may_fail(&self, words: &[&str]) -> Result<bool, CliError> {
        let typed: Vec<String> = words.iter().map(|word| nexus_api::command::quote(word)).collect();
        self.ui.say(&self.ui.talk_paint().command(&format!("$ nexus {}", typed.join(" "))));
        let mut command = Command::new("/proc/self/exe");
        command.arg0("nexus").args(words).env("NEXUS_HOME", &self.dir);
        let status = command.status().map_err(CliError::io("nexus could not be started"))?;
        if status.code() == Some(i32::from(code::BUG)) {
            return Err(Refused { error: "the demo met a bug".into(), why: None, hint: None }.into());
        }
        Ok(status.success())
    }
}

fn make_home() -> Result<PathBuf, CliError> {
    let dir = std::env::temp_dir().join(format!("nexus-demo-{}", std::process::id()));
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&dir).map_err(CliError::io(format!("{} could not be made", dir.display())))?;
    Ok(dir)
}

/// The home that a `nexus` with this `NEXUS_HOME` finds.
fn home_at(dir: &Path) -> Result<Home, CliError> {
    nexus_node::home::node_home(dir).map_err(|error| CliError::Home { source: Box::new(error) })
}
