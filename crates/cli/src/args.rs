//! The verbs. Each one's arguments stand in its own file under `commands/`.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    attach, backup, cancel, completions, config, demo, doctor, edit, export, first, forget, gc, gpus, help, history,
    hold, import, kill, logs, ls, machine, mcp, node, notify, pause, queue, release, remove, report, rerun, restart,
    results, resume, run, screens, service, show, simulate, start, status, stop, sweep, tag, top, unit, var, wait, web,
    why,
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

/// The whole of the command line, for those who tell of it.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// Options of a verb are made when it is the one that was typed: to make all takes longer than to submit a job.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Verb {
    Status(status::StatusArgs),
    Add(Box<AddArgs>),
    Run(Box<run::RunArgs>),
    Sweep(Box<sweep::SweepArgs>),
    Queue(queue::QueueArgs),
    History(history::HistoryArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Why(why::WhyArgs),
    Logs(logs::LogsArgs),
    Attach(attach::AttachArgs),
    Kill(kill::KillArgs),
    Remove(remove::RemoveArgs),
    Cancel(cancel::CancelArgs),
    First(first::FirstArgs),
    Edit(Box<edit::EditArgs>),
    Hold(hold::HoldArgs),
    Release(release::ReleaseArgs),
    Rerun(rerun::RerunArgs),
    Import(import::ImportArgs),
    Wait(wait::WaitArgs),
    Results(results::ResultsArgs),
    Export(export::ExportArgs),
    #[command(alias = "stat")]
    Report(Box<report::ReportArgs>),
    Simulate(simulate::SimulateArgs),
    Tag(tag::TagArgs),
    Forget(forget::ForgetArgs),
    Gc(gc::GcArgs),
    Backup(backup::BackupArgs),
    Gpus(gpus::GpusArgs),
    Pause(pause::PauseArgs),
    Resume(resume::ResumeArgs),
    Top(top::TopArgs),
    Screens(screens::ScreensArgs),
    Web(web::WebArgs),
    Start(start::StartArgs),
    Stop(stop::StopArgs),
    Restart(restart::RestartArgs),
    Service(unit::UnitArgs),
    Config(config::ConfigArgs),
    Var(var::VarArgs),
    Machine(machine::MachineArgs),
    Notify(notify::NotifyArgs),
    Mcp(mcp::McpArgs),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
    Help(help::HelpArgs),
    #[command(hide = true)]
    Node(node::NodeArgs),
    #[command(name = "__service", hide = true)]
    BecomeService(service::ServiceArgs),
    #[command(name = "__service-view", hide = true)]
    ServiceView,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::tests::read_both_ways;

    /// Every verb, and the verbs below it.
    fn verbs(command: &clap::Command) -> Vec<clap::Command> {
        let own = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        own.flat_map(|verb| [vec![verb.clone()], verbs(verb)].concat()).collect()
    }

    #[test]
    fn the_verbs_are_well_formed_and_have_examples() {
        let whole = command();
        whole.clone().debug_assert();
        for verb in verbs(&whole) {
            let after = verb.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            assert!(after.starts_with("Example"), "{} has no example", verb.get_name());
            assert!(verb.get_about().is_some(), "{} says nothing of itself", verb.get_name());
        }
    }

    /// As far as they are ours: a shell has the rest, and remarks stand apart in parentheses.
    #[test]
    fn examples_of_verbs_can_be_typed_as_they_stand() {
        let (mut findings, mut seen) = (Vec::new(), 0);
        for verb in verbs(&command()) {
            let after = verb.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            for line in after.lines().filter(|line| line.starts_with("  ")) {
                let typed = line.trim_start().split("   ").next().unwrap_or_default();
                let commands = nexus_api::shell_words::commands(typed).expect(typed);
                for words in commands {
                    let Some(at) = words.iter().position(|word| word == "nexus") else { continue };
                    seen += 1;
                    let words: Vec<&str> = words[at..].iter().map(|word| word.as_str()).collect();
                    findings.extend(read_both_ways(&words).err().map(|error| format!("{typed}\n{error}")));
                }
            }
        }
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn every_option_takes_one_value_at_most() {
        for verb in verbs(&command()) {
            for option in verb.get_arguments().filter(|argument| !argument.is_positional()) {
                let most = option.get_num_args().map_or(1, |range| range.max_values());
                assert!(most <= 1, "{} {}", verb.get_name(), option.get_id());
            }
        }
    }

    /// Pages whose commands can be typed as they stand.
    const PAGES: &[&str] = &[
        include_str!("../../../docs/coming-from.md"),
        include_str!("../../../docs/recipes/lab.md"),
        include_str!("../../../docs/recipes/laptop.md"),
        include_str!("../../../docs/recipes/machines.md"),
        include_str!("../../../docs/recipes/sharing.md"),
        include_str!("../../../docs/recipes/slurm.md"),
        include_str!("../../../docs/recipes/sweeps.md"),
        include_str!("../../../docs/simulate.md"),
        include_str!("../../../docs/start.md"),
        include_str!("../../../docs/state-file.md"),
        include_str!("../../../docs/sweeps.md"),
    ];

    /// Commands between backquotes, which may go on in the next line. Those of blocks are run: see `tests/it/book`.
    fn commands(page: &str) -> Vec<String> {
        let prose = nexus_testkit::prose(page).map(|(_, line)| line).collect::<Vec<_>>().join(" ");
        let quoted = prose.split('`').skip(1).step_by(2);
        quoted.filter(|text| *text == "nexus" || text.starts_with("nexus ")).map(String::from).collect()
    }

    #[test]
    fn commands_on_pages_can_be_typed_as_they_stand() {
        let mut findings = Vec::new();
        let all: Vec<String> = PAGES.iter().flat_map(|page| commands(page)).collect();
        for command in &all {
            let words = nexus_api::shell_words::split(command, "").expect(command);
            let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
            findings.extend(read_both_ways(&words).err().map(|error| format!("{command}\n{error}")));
        }
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        assert!(all.len() > 100 && all.contains(&"nexus add --priority -5 \"cmd\"".to_string()), "{all:?}");
    }

    #[test]
    fn a_mistyped_verb_is_no_job() {
        assert!(Cli::try_parse_from(["nexus", "ad", "true"]).is_err());
        assert!(Cli::try_parse_from(["nexus", "python", "train.py"]).is_err());
    }
}
