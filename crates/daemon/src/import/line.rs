//! What an entry means as a job: the command, found and whole; what rules say of it; whether it makes sense here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nexus_api::command::Command;
use nexus_api::env::{Env, is_reserved};
use nexus_api::job_file::{Carried, Entry, Said};
use nexus_api::jobs::{Code, Few, JobSpec, Note};
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::queue_text::set;
use nexus_api::values::gpu_list_text;
use nexus_core::request::GpuSet;

use crate::checks;
use crate::engine::ImportLine;
use crate::identity::{identity, identity_with};
use crate::models::Rules;
use crate::same::{self, same};
use crate::store::{JobEnv, NewSpec};

pub struct Reader<'a> {
    /// With an empty environment.
    usual: JobSpec,
    env: Arc<JobEnv>,
    whole_env: &'a JobSpec,
    folder: &'a Path,
    rules: &'a Rules,
    /// By which scripts are told their GPUs.
    gpu_arg: Option<String>,
    /// GPUs that are here, where that is known.
    gpus: Option<GpuSet>,
    /// Scripts that were looked for.
    scripts: BTreeMap<String, Result<(), String>>,
    /// `python`, or `python3` where there is no other.
    python: &'static str,
    /// Where copies of code are kept.
    home: &'a Home,
    notes: Vec<Note>,
    /// Secrets that neither an export nor whoever imports has, and the exported jobs that lack them.
    missing_secrets: BTreeMap<Vec<String>, Few>,
    last: Option<Last>,
    sames: same::OneByOne,
}

/// A line that was read. Others that say the same but for their command are of the same job otherwise, and need no
/// second look.
struct Last {
    said: BTreeMap<String, String>,
    common: Arc<JobSpec>,
    /// It says nothing of GPUs: rules may.
    asks_rules: bool,
}

impl<'a> Reader<'a> {
    pub fn new(
        usual: &'a JobSpec,
        env: Arc<JobEnv>,
        folder: &'a Path,
        rules: &'a Rules,
        gpu_arg: Option<String>,
        gpus: Option<GpuSet>,
        home: &'a Home,
    ) -> Reader<'a> {
        let bare = JobSpec { env: Default::default(), ..usual.clone() };
        let python = python(usual.env.get("PATH"));
        let (scripts, notes, missing_secrets, last, sames) = Default::default();
        Reader {
            usual: bare,
            env,
            whole_env: usual,
            folder,
            rules,
            gpu_arg,
            gpus,
            scripts,
            python,
            home,
            notes,
            missing_secrets,
            last,
            sames,
        }
    }

    /// What whoever imports should know of the lines that were read.
    pub fn notes(self) -> Vec<Note> {
        let missing = self.missing_secrets.into_iter();
        self.notes.into_iter().chain(missing.map(|(names, jobs)| Note::SecretsNotExported { names, jobs })).collect()
    }

    pub fn line(&mut self, entry: Entry) -> Result<ImportLine, String> {
        match self.alike(&entry) {
            Some((common, command)) => {
                command.check().map_err(|bad| Problem::BadCommand { bad }.to_string())?;
                let (identity, same) = (identity_with(&common, command), self.sames.same(&common, command));
                let (spec, env) = (NewSpec::like(common, command), self.env.clone());
                let Entry { line, options: said, id: known_as, .. } = entry;
                Ok(ImportLine { line, spec, env, identity, same, own_env: Env::new(), said, known_as })
            }
            None => self.other(entry),
        }
    }

    /// What it has in common with the line before, where that is all but its command.
    fn alike<'e>(&self, entry: &'e Entry) -> Option<(Arc<JobSpec>, &'e Command)> {
        let is_plain = entry.env.is_empty() && entry.carried.is_none();
        let last = self.last.as_ref().filter(|last| is_plain && entry.options == last.said)?;
        match &entry.command {
            Said::Command(command) if !last.asks_rules || !self.rules.know(command) => {
                Some((last.common.clone(), command))
            }
            _ => None,
        }
    }

    fn other(&mut self, entry: Entry) -> Result<ImportLine, String> {
        let Entry { line, command, options: mut said, env: own, id: known_as, carried, .. } = entry;
        let is_plain = own.is_empty() && carried.is_none() && matches!(command, Said::Command(_));
        let mut spec = self.usual.clone();
        for name in ["out", "results"] {
            if let Some(path) = said.get_mut(name).filter(|path| !path.is_empty()) {
                *path = whole(path, self.folder);
            }
        }
        for (name, value) in &said {
            set(&mut spec, name, value).map_err(|error| format!("{name}: {error}"))?;
        }
        self.command(&mut spec, command)?;
        if said.contains_key("on") {
            self.gpus_exist(&spec)?;
        }
        let own_env: Env = own.into_iter().filter(|(name, _)| !is_reserved(name)).collect();
        let env = match own_env.is_empty() {
            true => self.env.clone(),
            false => {
                spec.env_given.extend(own_env.keys().cloned());
                let mut env = self.whole_env.env.clone();
                env.extend(own_env.clone());
                Arc::new(JobEnv::of(env))
            }
        };
        if let Some(carried) = carried {
            self.carry(&mut spec, *carried, known_as.as_deref())?;
        }
        let asks_rules = spec.request.gpus.is_none() && spec.request.vram.is_none();
        let note = self.rules.fill(&mut spec).filter(|note| !self.notes.contains(note));
        self.notes.extend(note);
        checks::signal(None, &spec).and_then(|()| checks::spec(&mut spec)).map_err(|problem| problem.to_string())?;
        let (identity, same) = (identity(&spec), same(&spec));
        let is_like_others =
            is_plain && (&spec.by_rule, &spec.out, &spec.rerun_of) == (&None, &None, &None) && spec.params.is_empty();
        let spec = NewSpec::of(spec, self.last.as_ref().map(|last| &last.common));
        if is_like_others {
            self.last = Some(Last { said: said.clone(), common: spec.common.clone(), asks_rules });
        }
        Ok(ImportLine { line, spec, env, identity, same, own_env, said, known_as })
    }

    /// Gives a job what an export says of it beside the options. `id`: what the file calls it.
    fn carry(&mut self, spec: &mut JobSpec, carried: Carried, id: Option<&str>) -> Result<(), String> {
        let Carried { code, window, tty, session, one_terminal, params, variables, secret_names } = carried;
        if let Some(code) = &code {
            self.code_is_here(code, id.unwrap_or("it"))?;
        }
        spec.window = window.or(spec.window);
        spec.tty = tty.or(spec.tty);
        spec.session = session.or(spec.session);
        (spec.code, spec.one_terminal, spec.params, spec.variables) = (code, one_terminal, params, variables);
        // They go to other machines with the job, as those that were given for it.
        let is_set = |name: &String| self.whole_env.env.contains_key(name);
        let (here, missing): (Vec<String>, Vec<String>) = secret_names.into_iter().partition(is_set);
        spec.env_given.extend(here);
        if let Some(id) = id.filter(|_| !missing.is_empty()) {
            self.missing_secrets.entry(missing).or_default().add(id);
        }
        Ok(())
    }

    /// Without the copy the job would run other code than it was added with.
    fn code_is_here(&self, code: &Code, job: &str) -> Result<(), String> {
        let Code { content, of } = code;
        if !Code::is_content(content) {
            return Err(format!("code: {content:?} is no name of a copy that nexus add --sync made"));
        }
        let missing = [self.home.snapshots(), self.home.code()].into_iter().find(|kept| !kept.join(content).is_dir());
        match missing {
            None => Ok(()),
            Some(kept) => Err(format!(
                "the code of {job} is not here: nexus add --sync copied {of} for it, and there is no {}; copy that folder from the \
                 home that exported it, or add the job anew",
                kept.join(content).display()
            )),
        }
    }

    fn command(&mut self, spec: &mut JobSpec, said: Said) -> Result<(), String> {
        let (script, torchrun, arguments) = match said {
            Said::Command(command) => {
                spec.command = command;
                return Ok(());
            }
            Said::Script { script, torchrun, arguments } => (whole(&script, self.folder), torchrun, arguments),
        };
        self.script_exists(&script)?;
        // An environment brings its own.
        let python = if spec.conda.is_some() || spec.venv.is_some() { "python" } else { self.python };
        let mut words = match torchrun {
            None => vec![python.to_string()],
            Some(count) => vec!["torchrun".into(), "--nnodes=1".into(), format!("--nproc-per-node={count}")],
        };
        words.push(script);
        words.extend(arguments);
        spec.command = Command::Argv(words);
        if torchrun.is_none() && spec.gpu_arg.is_none() {
            spec.gpu_arg.clone_from(&self.gpu_arg);
        }
        Ok(())
    }

    /// Many lines name the same few.
    fn script_exists(&mut self, script: &str) -> Result<(), String> {
        if let Some(known) = self.scripts.get(script) {
            return known.clone();
        }
        let found = match std::fs::metadata(script) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => Err(format!("{script} is not a file")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!("there is no script {script}")),
            Err(error) => Err(format!("the script {script} cannot be looked at: {error}")),
        };
        self.scripts.insert(script.to_string(), found.clone());
        found
    }

    fn gpus_exist(&self, spec: &JobSpec) -> Result<(), String> {
        let (Some(here), Some(on)) = (self.gpus, &spec.request.on) else { return Ok(()) };
        let missing: Vec<u16> = on.iter().copied().filter(|index| !here.contains(*index)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let there = match here.is_empty() {
            true => "there is none here".to_string(),
            false => format!("there are {}", gpu_list_text(&here.iter().collect::<Vec<_>>())),
        };
        let missing_text = gpu_list_text(&missing);
        Err(match missing.len() {
            1 => format!("there is no GPU {missing_text}: {there}"),
            _ => format!("there are no GPUs {missing_text}: {there}"),
        })
    }
}

/// From a folder on, where it is not absolute.
fn whole(path: &str, folder: &Path) -> String {
    folder.join(path).to_string_lossy().into_owned()
}

/// As whoever imports would find it.
fn python(path: Option<&String>) -> &'static str {
    let has = |name: &str| {
        let dirs = path.map(std::env::split_paths).into_iter().flatten();
        dirs.map(|dir| dir.join(name)).any(|program| program.is_file())
    };
    if !has("python") && has("python3") { "python3" } else { "python" }
}
