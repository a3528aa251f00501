//! The verbs. Each one's arguments stand in its own file under `commands/`.

use clap::{Parser, Subcommand};

use crate::commands::{
    cancel, demo, doctor, edit, first, forget, help, history, hold, kill, logs, ls, pause, queue, release, remove,
    rerun, restart, resume, service, show, start, status, stop, wait,
};
use crate::typed::AddArgs;
use crate::ui::ColorWhen;

/// Queue commands; nexus keeps every GPU busy and loses nothing
#[derive(Debug, Parser)]
#[command(
    name = "nexus",
    version,
    disable_help_subcommand = true,
    args_override_self = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs"
)]
pub struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto)]
    pub color: ColorWhen,
    /// Without a verb: the status
    #[command(flatten)]
    pub status: status::StatusArgs,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Status(status::StatusArgs),
    Add(Box<AddArgs>),
    Queue(queue::QueueArgs),
    History(history::HistoryArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Logs(logs::LogsArgs),
    Kill(kill::KillArgs),
    Remove(remove::RemoveArgs),
    Cancel(cancel::CancelArgs),
    First(first::FirstArgs),
    Edit(Box<edit::EditArgs>),
    Hold(hold::HoldArgs),
    Release(release::ReleaseArgs),
    Rerun(rerun::RerunArgs),
    Wait(wait::WaitArgs),
    Forget(forget::ForgetArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Start(start::StartArgs),
    Stop(stop::StopArgs),
    Restart(restart::RestartArgs),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    Help(help::HelpArgs),
    #[command(name = "__service", hide = true)]
    Service(service::ServiceArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_verbs_are_well_formed_and_have_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let after = verb.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            assert!(after.starts_with("Example"), "{} has no example", verb.get_name());
            assert!(verb.get_about().is_some(), "{} says nothing of itself", verb.get_name());
        }
    }

    #[test]
    fn every_option_takes_one_value_at_most() {
        for verb in Cli::command().get_subcommands() {
            for option in verb.get_arguments().filter(|argument| !argument.is_positional()) {
                let most = option.get_num_args().map_or(1, |range| range.max_values());
                assert!(most <= 1, "{} {}", verb.get_name(), option.get_id());
            }
        }
    }

    #[test]
    fn a_mistyped_verb_is_no_job() {
        assert!(Cli::try_parse_from(["nexus", "ad", "true"]).is_err());
        assert!(Cli::try_parse_from(["nexus", "python", "train.py"]).is_err());
    }
}
