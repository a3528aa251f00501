//! `nexus completions`: what a shell needs to complete verbs and options.

use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::Shell;

use crate::error::CliError;
use crate::ui::Ui;

/// Print the completions for a shell
///
/// Verbs and options are completed once the shell has read what this prints.
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

/// `nexus` is the whole command line, with all its verbs.
pub fn run(args: CompletionsArgs, nexus: &Command, ui: &Ui) -> Result<ExitCode, CliError> {
    ui.bytes(&script(args.shell, nexus))?;
    if ui.err_is_terminal() {
        ui.say(place(args.shell));
    }
    Ok(ExitCode::SUCCESS)
}

fn script(shell: ShellName, nexus: &Command) -> Vec<u8> {
    let generator = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut without_hidden_verbs(nexus), "nexus", &mut script);
    script
}

/// What is not shown is not completed either.
fn without_hidden_verbs(nexus: &Command) -> Command {
    let verbs = nexus.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("nexus")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(nexus.get_arguments().cloned())
        .subcommands(verbs)
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn hidden_verbs_are_in_no_script() {
        for shell in [ShellName::Bash, ShellName::Zsh, ShellName::Fish] {
            let script = String::from_utf8(script(shell, &Cli::command())).unwrap();
            assert!(script.contains("history") && script.contains("simulate-gpus"), "{shell:?}");
            assert!(!script.contains("__service"), "{shell:?}");
        }
    }
}
