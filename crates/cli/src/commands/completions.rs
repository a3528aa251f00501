//! `nexus completions`: what a shell needs to complete verbs and options.

use clap::ValueEnum;

use crate::error::CliError;
use crate::process::ExitCode;
use crate::ui::Ui;

/// Print the completions for a shell
///
/// Verbs, options, ids, tags, sweeps, GPUs and machines are completed once the shell has read what this prints.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus completions bash > ~/.local/share/bash-completion/completions/nexus
  nexus completions zsh > ~/.zfunc/_nexus
  nexus completions fish > ~/.config/fish/completions/nexus.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: ShellName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

pub fn run(args: CompletionsArgs, ui: &Ui) -> Result<ExitCode, CliError> {
    ui.bytes(script(args.shell).as_bytes())?;
    if ui.err_is_terminal() {
        ui.say(place(args.shell));
    }
    Ok(ExitCode::SUCCESS)
}

/// Each asks `nexus __complete` with the words so far, and shows the lines that come: a word, a tab, what it means.
fn script(shell: ShellName) -> &'static str {
    match shell {
        ShellName::Bash => include_str!("completions/nexus.bash"),
        ShellName::Zsh => include_str!("completions/nexus.zsh"),
        ShellName::Fish => include_str!("completions/nexus.fish"),
    }
}

fn place(shell: ShellName) -> &'static str {
    match shell {
        ShellName::Bash => {
            "bash reads it from a file: nexus completions bash > ~/.local/share/bash-completion/completions/nexus"
        }
        ShellName::Zsh => {
            "zsh reads it from a folder of its fpath: nexus completions zsh > ~/.zfunc/_nexus\n\
             with these lines in ~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit"
        }
        ShellName::Fish => "fish reads it from a file: nexus completions fish > ~/.config/fish/completions/nexus.fish",
    }
}
