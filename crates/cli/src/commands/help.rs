//! `nexus help`: short by default, long on request.

use clap::Command;

use crate::error::{CliError, Usage};
use crate::process::ExitCode;
use crate::ui::Ui;

/// What most people need most of the time: what is typed, and what it does.
const FIRST_PAGE: &[(&str, &str)] = &[
    ("", "show queue, history and GPUs (-w: live)"),
    ("add \"command\"", "add a job to the queue"),
    ("run \"command\"", "add it, stay with it, exit as it exits"),
    ("sweep \"cmd {x}\" x=1,2", "add it once for each value, or combination of values"),
    ("queue", "show pending jobs"),
    ("history", "show ended jobs"),
    ("logs [id]", "show what a job printed (-f: follow)"),
    ("attach <id|gpu>", "see a job's terminal and type into it"),
    ("why <id>", "say why a job waits or failed, and what to type"),
    ("show <id>", "show all that is known about a job"),
    ("kill <id|gpu>", "end a running job"),
    ("remove <id>", "take a job out of the queue"),
    ("edit [id]", "change the queue in your editor, or one job"),
    ("rerun <id>", "queue a job again"),
    ("wait <id>", "wait until a job has ended"),
    ("pause / resume", "stop starting jobs / go on; with GPUs: there alone"),
    ("gpus", "show GPUs and who uses them"),
    ("top", "live dashboard: watch, filter, hold, kill, read logs"),
    ("web", "print a link to the web page"),
    ("stop / restart", "the service and its jobs / the service alone"),
    ("config", "show the configuration (config edit: change it)"),
    ("doctor", "check that all is well"),
    ("help <verb>", "more about one of them"),
];

/// The first page.
pub fn short() -> String {
    let width = FIRST_PAGE.iter().map(|(typed, _)| typed.len()).max().unwrap_or(0);
    let lines: String = FIRST_PAGE.iter().map(|(typed, what)| format!("  nexus {typed:width$}  {what}\n")).collect();
    format!("nexus queues commands and runs them on your GPUs, one job per GPU\n\n{lines}\nmore: nexus help all\n")
}

const SELECTORS: &str = "\
Jobs are named by selectors, wherever an id is taken; several at once are fine.

  abc          the job with this id
  last         the newest job
  last:3       the three newest
  0            the job on GPU 0
  box:0        the job on GPU 0 of the machine box (local is this one)
  tag:x        jobs with this tag
  sweep:x      jobs of this sweep
  name:x       jobs with this name
  project:x    jobs of this project
  /regex/      jobs whose command matches

kill, remove and cancel ask when more than one job is meant, forget always; -y answers in advance.
";

/// Show help
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus help add
  nexus help all
  nexus help selectors")]
pub struct HelpArgs {
    /// A verb, all, or selectors
    #[arg(value_name = "TOPIC")]
    pub topic: Option<String>,
}

/// `nexus` is the whole command line, with all its verbs.
pub fn run(args: HelpArgs, nexus: Command, ui: &Ui) -> Result<ExitCode, CliError> {
    let text = match args.topic.as_deref() {
        None => short(),
        Some("all") => all(&nexus),
        Some("selectors") => SELECTORS.to_string(),
        Some(verb) => of_verb(nexus, verb)?,
    };
    ui.data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Every verb and what it does.
fn all(nexus: &Command) -> String {
    let verbs: Vec<_> = nexus.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    let width = verbs.iter().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let lines: String = verbs
        .iter()
        .map(|verb| {
            let about = verb.get_about().map(|about| about.to_string()).unwrap_or_default();
            format!("  nexus {:width$}  {about}\n", verb.get_name())
        })
        .collect();
    format!("{lines}\n  --color auto|always|never\n  --version\n\nmore: nexus help <verb>, nexus help selectors\n")
}

/// The same as `nexus VERB --help`.
fn of_verb(mut nexus: Command, verb: &str) -> Result<String, CliError> {
    if nexus.find_subcommand(verb).is_none_or(|found| found.is_hide_set()) {
        return Err(Usage::new(format!("there is no verb {verb}"), suggestion(&nexus, verb)).of("help"));
    }
    match nexus.try_get_matches_from_mut(["nexus", verb, "--help"]) {
        Err(help) => Ok(help.render().to_string()),
        Ok(_) => unreachable!("--help is no verb's own option"),
    }
}

/// `usage: nexus kill [OPTIONS] <SEL>...`; a verb below another is named with it: `config set`.
pub fn usage_line(mut nexus: Command, verb: &str) -> String {
    nexus.build();
    let found = verb.split(' ').try_fold(&mut nexus, |command, verb| command.find_subcommand_mut(verb));
    let usage = match found {
        Some(found) => found.render_usage().to_string(),
        None => "Usage: nexus [VERB]".to_string(),
    };
    usage.replacen("Usage:", "usage:", 1)
}

/// What to type instead of a verb that does not exist.
pub fn suggestion(nexus: &Command, typed: &str) -> String {
    if typed.contains(char::is_whitespace) {
        return format!("nexus add {} queues it", nexus_api::command::quote(typed));
    }
    match nearest_verb(nexus, typed) {
        Some(verb) => format!("nexus {verb}, or nexus help"),
        None => "nexus help shows the verbs, nexus add queues a command".into(),
    }
}

/// The verb most like what was typed, if one is like it; for words of other tools the one that does the same.
pub fn nearest_verb(nexus: &Command, typed: &str) -> Option<String> {
    let same = match typed {
        "rm" | "delete" | "del" | "dequeue" => Some("remove"),
        "log" | "follow" | "tail" | "output" => Some("logs"),
        "list" | "ps" | "squeue" | "jobs" => Some("ls"),
        "submit" | "sbatch" | "enqueue" | "push" => Some("add"),
        "srun" | "exec" => Some("run"),
        "matrix" | "array" | "grid" => Some("sweep"),
        "explain" | "reason" => Some("why"),
        "scancel" | "abort" => Some("cancel"),
        "info" | "describe" | "inspect" => Some("show"),
        "retry" | "requeue" => Some("rerun"),
        _ => None,
    };
    if let Some(verb) = same {
        return Some(verb.into());
    }
    let verbs = nexus.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name());
    let (distance, verb) = verbs.map(|verb| (strsim::damerau_levenshtein(verb, typed), verb)).min()?;
    (distance <= typed.chars().count().div_ceil(2).min(3)).then(|| verb.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_nearest_verb_is_found() {
        for (typed, verb) in [("ad", "add"), ("kil", "kill"), ("statsu", "status"), ("log", "logs"), ("rm", "remove")] {
            assert_eq!(nearest_verb(&Cli::command(), typed).as_deref(), Some(verb));
        }
        assert_eq!(nearest_verb(&Cli::command(), "python"), None);
        assert_eq!(suggestion(&Cli::command(), "sleep 3"), "nexus add 'sleep 3' queues it");
    }

    #[test]
    fn verbs_of_the_short_help_exist() {
        let command = Cli::command();
        for (typed, _) in FIRST_PAGE {
            for verb in typed.split(" / ").filter_map(|part| part.split_whitespace().next()) {
                assert!(command.find_subcommand(verb).is_some(), "{verb}");
            }
        }
    }

    #[test]
    fn usage_lines_name_the_verb() {
        assert_eq!(usage_line(Cli::command(), "kill"), "usage: nexus kill [OPTIONS] <SEL>...");
        assert_eq!(usage_line(Cli::command(), "config set"), "usage: nexus config set [OPTIONS] <KEY> <VALUE>");
        assert!(of_verb(Cli::command(), "add").unwrap().contains("--gpus"));
        assert!(of_verb(Cli::command(), "__service").is_err());
        assert!(all(&crate::args::command()).contains("nexus history      Show ended jobs"));
    }
}
