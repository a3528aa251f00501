//! Variables: which jobs need which. That is said when a job comes or is changed; the values of then are not looked at,
//! since those of its starts count.

use std::collections::BTreeSet;

use nexus_api::command::Command;
use nexus_api::env::Env;
use nexus_api::jobs::JobSpec;
use nexus_api::nearest::nearest;
use nexus_api::problem::Problem;
use nexus_api::template;
use nexus_core::apply::Edit;

use super::{Engine, Turn};
use crate::store::{EditedRow, JobEnv, NewSpec, VariableChange};

impl Engine {
    pub(super) fn variable(&mut self, change: VariableChange, turn: &mut Turn) -> Result<(), Problem> {
        let line = match &change {
            VariableChange::Set { name, .. } => {
                self.variables.insert(name.clone());
                format!("Variable {name} set by user")
            }
            VariableChange::Unset { name } => {
                if !self.variables.remove(name) {
                    let near = nearest(name, self.variables.iter().map(String::as_str)).map(String::from);
                    return Err(Problem::NoSuchVariable { name: name.clone(), near });
                }
                format!("Variable {name} unset by user")
            }
        };
        turn.batch.variables.push(change);
        turn.batch.notes.push(line.into());
        Ok(())
    }

    /// Those that a new job needs. One that repeats another needs what that needed.
    pub(super) fn find_variables(&self, spec: &NewSpec, env: &JobEnv) -> Result<Vec<String>, Problem> {
        if let Some(id) = &spec.rerun_of
            && let Some(gone) = spec.common.variables.iter().find(|name| !self.variables.contains(*name))
        {
            return Err(Problem::VariableGone { id: id.clone(), name: gone.clone() });
        }
        Ok(self.variables_of(spec, env))
    }

    /// The same for a job that is changed: what it needed before it may go on to need, set or not.
    pub(super) fn find_variables_again(&self, edit: &Edit, row: &mut EditedRow, turn: &Turn) -> Result<(), Problem> {
        let mut known = self.variables.clone();
        known.extend(row.spec.variables.iter().cloned());
        if known.is_empty() {
            return Ok(());
        }
        let stored;
        let envs = match (&row.env, turn.batch.new.get(&edit.job)) {
            (Some((open, secrets)), _) => [open, secrets],
            (None, Some(new)) => [&new.env.open, &new.env.secrets],
            (None, None) if row.spec.env_given.is_empty() => [&Env::new(), &Env::new()],
            (None, None) => {
                stored = self.store.env_of(edit.job).map_err(|error| error.problem())?;
                [&stored, &Env::new()]
            }
        };
        row.spec.variables = named(&row.spec, envs, &known);
        Ok(())
    }

    /// Those that a job of a new sweep needs.
    pub(super) fn variables_of(&self, spec: &NewSpec, env: &JobEnv) -> Vec<String> {
        match self.variables.is_empty() {
            true => vec![],
            false => named(&spec.whole(), [&env.open, &env.secrets], &self.variables),
        }
    }
}

/// Of these variables those that a job names in its command or in what it was given of its environment. Parameters of
/// its sweep go before variables.
fn named(spec: &JobSpec, envs: [&Env; 2], known: &BTreeSet<String>) -> Vec<String> {
    let mut texts: Vec<&str> = match &spec.command {
        Command::Shell(text) => vec![text],
        Command::Argv(words) => words.iter().map(String::as_str).collect(),
    };
    texts
        .extend(spec.env_given.iter().filter_map(|name| envs.iter().find_map(|env| env.get(name))).map(String::as_str));
    let counts = |name: &&str| known.contains(*name) && !spec.params.contains_key(*name);
    let found: BTreeSet<&str> = texts.into_iter().flat_map(template::names).filter(counts).collect();
    found.into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_given_variables_name_variables() {
        let known: BTreeSet<String> = ["TOKEN", "lr", "X"].map(String::from).into();
        let spec = JobSpec {
            env_given: vec!["A".into()],
            params: [("lr".to_string(), "1".to_string())].into(),
            ..JobSpec::new(Command::Shell("train {lr} {TOKEN} {other} ${X} {TOKEN}".into()), "/".into())
        };
        let env: Env = [("A", "-{X}-"), ("B", "{TOKEN}")].map(|(n, v)| (n.to_string(), v.to_string())).into();
        let none = Env::new();
        assert_eq!(named(&spec, [&none, &env], &known), ["TOKEN", "X"]);
        assert_eq!(named(&spec, [&none, &none], &known), ["TOKEN"]);
        let argv = JobSpec { command: Command::Argv(vec!["a".into(), "x={X}".into()]), ..spec };
        assert_eq!(named(&argv, [&none, &none], &known), ["X"]);
    }
}
