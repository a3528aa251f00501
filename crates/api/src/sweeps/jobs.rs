//! What the jobs of a sweep are: its spec with the values of a point. Names count in the command, the path of `--out`,
//! the folder of `--results` and the values of `--env`, not in what the submitter's environment happens to hold.

use super::bad::BadPlan;
use super::points::Points;
use crate::command::Command;
use crate::jobs::JobSpec;
use crate::template;

impl Points {
    /// Every parameter must be used: one that is not is a slip.
    pub fn check_used(&self, spec: &JobSpec) -> Result<(), BadPlan> {
        let texts = texts(spec);
        let is_used = |name: &str| texts.iter().any(|text| template::names(text).any(|used| used == name));
        let names: Vec<String> = self.names.iter().filter(|name| !is_used(name)).cloned().collect();
        if names.is_empty() { Ok(()) } else { Err(BadPlan::Unused { names }) }
    }

    /// The job of a row. What it is made of must be a row of these.
    pub fn job(&self, spec: &JobSpec, row: &[String]) -> JobSpec {
        let fill = |text: &str| self.filled(text, row);
        let mut job = spec.clone();
        job.command = self.command(&spec.command, row);
        job.out = spec.out.as_deref().map(fill);
        job.results = spec.results.as_deref().map(fill);
        for name in &spec.env_given {
            if let Some(value) = job.env.get_mut(name) {
                *value = fill(value);
            }
        }
        job.params = self.names.iter().cloned().zip(row.iter().cloned()).collect();
        job
    }

    pub fn command(&self, command: &Command, row: &[String]) -> Command {
        match command {
            Command::Shell(text) => Command::Shell(self.filled(text, row)),
            Command::Argv(words) => Command::Argv(words.iter().map(|word| self.filled(word, row)).collect()),
        }
    }

    fn filled(&self, text: &str, row: &[String]) -> String {
        let value_of = |name: &str| self.names.iter().position(|known| known == name).map(|place| row[place].as_str());
        template::fill(text, value_of)
    }
}

/// All in which names count.
fn texts(spec: &JobSpec) -> Vec<&str> {
    let words: &[String] = match &spec.command {
        Command::Shell(text) => std::slice::from_ref(text),
        Command::Argv(words) => words,
    };
    let given = spec.env_given.iter().filter_map(|name| spec.env.get(name));
    words.iter().chain(&spec.out).chain(&spec.results).chain(given).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(names: &[&str]) -> Points {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        Points { rows: vec![names.iter().map(|name| format!("<{name}>")).collect()], names }
    }

    fn spec() -> JobSpec {
        let mut spec = JobSpec::new(Command::Shell("train {lr} ${lr} {x}".into()), "/".into());
        spec.env = [("GIVEN", "{env}"), ("PS1", "{lr}{caller}")].map(|(a, b)| (a.into(), b.into())).into();
        spec.env_given = vec!["GIVEN".into()];
        spec.out = Some("/logs/{out}.log".into());
        spec
    }

    #[test]
    fn a_name_is_used_in_command_out_or_env() {
        assert_eq!(points(&["lr", "out", "env"]).check_used(&spec()), Ok(()));
        let unused = points(&["lr", "caller", "seed"]).check_used(&spec()).unwrap_err();
        assert_eq!(unused, BadPlan::Unused { names: vec!["caller".into(), "seed".into()] });
        assert_eq!(unused.error(), "the command does not use {caller} and {seed}");
    }

    #[test]
    fn a_job_has_the_values_of_its_point() {
        let points = points(&["lr", "out", "env"]);
        let job = points.job(&spec(), &points.rows[0]);
        assert_eq!(job.command, Command::Shell("train <lr> ${lr} {x}".into()));
        assert_eq!(job.out.as_deref(), Some("/logs/<out>.log"));
        assert_eq!((job.env["GIVEN"].as_str(), job.env["PS1"].as_str()), ("<env>", "{lr}{caller}"));
        assert_eq!(job.params.len(), 3);
    }
}
