//! Takes changes of `config.toml`, and of the file of models that it names, while the service runs. A text that is
//! wrong is refused, and what was in force stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nexus_api::config::ConfigView;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use tokio::sync::watch;

use crate::config::{self, Config, ConfigFile, Fault, NotChanged, Overrides, Settings};
use crate::engine::Message;
use crate::models::{Rules, Source};
use crate::service_log::Line;

/// How long an empty file may be one that is being written.
const WRITER_PAUSE: Duration = Duration::from_millis(20);
const WRITER_LOOKS: usize = 10;

pub struct Reload {
    home: Home,
    file: ConfigFile,
    engine: Sender<Message>,
    /// Held by the one who reads the file: of two looks the later one has the last word.
    looking: Mutex<()>,
    state: Mutex<State>,
    models: Mutex<Source>,
    /// `paths.state_file`, for the one who keeps that file.
    state_file: watch::Sender<Option<PathBuf>>,
    /// `retention.jobs`, for the one who keeps that.
    keep_jobs: watch::Sender<Option<Duration>>,
}

struct State {
    /// With the overrides.
    in_force: Config,
    overrides: Overrides,
    /// The newest text that was right. It differs from what is in force in what waits for a restart.
    on_disk: Settings,
    /// What is wrong with the text on disk, if it is.
    refused: Option<Problem>,
}

impl Reload {
    pub fn new(
        home: &Home,
        settings: Settings,
        overrides: Overrides,
        models: Source,
        engine: Sender<Message>,
    ) -> Reload {
        let mut in_force = settings.config.clone();
        overrides.over(&mut in_force);
        let (state_file, _) = watch::channel(in_force.state_file.clone());
        let (keep_jobs, _) = watch::channel(in_force.keep_jobs);
        let state = State { in_force, overrides, on_disk: settings, refused: None };
        Reload {
            home: home.clone(),
            file: ConfigFile::of(home),
            engine,
            looking: Mutex::new(()),
            state: Mutex::new(state),
            models: Mutex::new(models),
            state_file,
            keep_jobs,
        }
    }

    /// Reads the file. What it changes is in force for whatever the engine is told after this returns.
    pub fn look(&self) {
        let _only = locked(&self.looking);
        let text = self.written_text().and_then(|text| text.ok_or_else(|| self.gone()));
        match text.and_then(|text| self.file.read(&text)) {
            Ok(settings) => self.take(settings, &mut locked(&self.state)),
            Err(problem) => self.refuse(problem, &mut locked(&self.state)),
        }
    }

    /// Whoever writes the file in place empties it first. A file that had settings and has nothing now is given a
    /// moment: its writer may be at work.
    fn written_text(&self) -> Result<Option<String>, Problem> {
        let had_settings = !locked(&self.state).on_disk.lines.is_empty();
        for _ in 0..WRITER_LOOKS {
            match self.file.text()? {
                Some(text) if text.is_empty() && had_settings => std::thread::sleep(WRITER_PAUSE),
                text => return Ok(text),
            }
        }
        self.file.text()
    }

    pub fn view(&self) -> ConfigView {
        let path = locked(&self.state).in_force.models_file.clone();
        let models_refused = self.look_at_models(path.as_deref()).refused();
        let state = locked(&self.state);
        let view = config::view(&self.home, &state.in_force, &state.on_disk, &state.overrides, state.refused.clone());
        ConfigView { models_refused, ..view }
    }

    /// Whether [`Reload::rules`] reads a file.
    pub fn reads_models(&self) -> bool {
        locked(&self.state).in_force.models_file.is_some()
    }

    /// What commands need, as it is in force now. Reads the file of models.
    pub fn rules(&self) -> Rules {
        let (rules, path) = {
            let in_force = &locked(&self.state).in_force;
            (in_force.rules.clone(), in_force.models_file.clone())
        };
        Rules { rules, table: self.look_at_models(path.as_deref()).table() }
    }

    /// Of the web page, where nobody says otherwise.
    pub fn web_port(&self) -> u16 {
        locked(&self.state).in_force.web_port
    }

    /// How long a browser that was closed is let in again.
    pub fn web_session(&self) -> Duration {
        locked(&self.state).in_force.web_session
    }

    /// Whether somebody is told what became of jobs.
    pub fn tells(&self) -> bool {
        !locked(&self.state).in_force.notify.is_off()
    }

    /// The argument that scripts of job files are told their GPUs by.
    pub fn csv_gpu_arg(&self) -> Option<String> {
        Some(locked(&self.state).in_force.csv_gpu_arg.clone()).filter(|it| !it.is_empty())
    }

    fn look_at_models(&self, path: Option<&Path>) -> MutexGuard<'_, Source> {
        let mut models = locked(&self.models);
        if let Some(line) = models.look(path) {
            self.tell(Message::Log(vec![line.into()]));
        }
        models
    }

    /// Puts values over those of the file, all or none and in place of those that an earlier start put there.
    pub fn override_keys(&self, keys: &BTreeMap<String, String>) -> Result<(), Problem> {
        let _only = locked(&self.looking);
        let mut state = locked(&self.state);
        let mut overrides = Overrides::default();
        for (name, typed) in keys {
            overrides.set(name, typed, self.file.user_home.as_deref()).map_err(|error| refused(name, typed, error))?;
        }
        let mut new = state.on_disk.config.clone();
        new.keep_until_restart(&state.in_force);
        overrides.over(&mut new);
        if overrides.has("models.file")
            && let Some(problem) = config::models_trouble(&new)
        {
            return Err(problem);
        }
        let changes = config::changes(&state.in_force, &new, &self.home);
        let lines = changes.iter().map(|change| match overrides.has(&change.key) {
            true => format!("Config changed until the next start: {change}").into(),
            false => format!("Config changed back to the file: {change}").into(),
        });
        let lines = lines.collect();
        self.tell(Message::Log(lines));
        state.overrides = overrides;
        self.enforce(new, &mut state);
        Ok(())
    }

    fn take(&self, settings: Settings, state: &mut State) {
        let mut lines: Vec<Line> = config::changes(&state.on_disk.config, &settings.config, &self.home)
            .into_iter()
            .map(|change| format!("Config changed: {change}").into())
            .collect();
        if state.refused.take().is_some() && lines.is_empty() {
            lines.push("Config on disk is the one in force again".into());
        }
        let mut new = settings.config.clone();
        new.keep_until_restart(&state.in_force);
        state.overrides.over(&mut new);
        state.on_disk = settings;
        if !lines.is_empty() {
            self.tell(Message::Log(lines));
        }
        if new != state.in_force {
            self.enforce(new, state);
        }
    }

    fn enforce(&self, new: Config, state: &mut State) {
        let state_file = new.state_file.clone();
        self.state_file.send_if_modified(|known| std::mem::replace(known, state_file.clone()) != state_file);
        self.keep_jobs.send_if_modified(|known| std::mem::replace(known, new.keep_jobs) != new.keep_jobs);
        state.in_force = new.clone();
        self.tell(Message::Config(Box::new(new)));
    }

    /// Where the state file is to be, now and whenever that changes.
    pub fn state_file(&self) -> watch::Receiver<Option<PathBuf>> {
        self.state_file.subscribe()
    }

    /// How long ended jobs are kept, now and whenever that changes; none for ever.
    pub fn keep_jobs(&self) -> watch::Receiver<Option<Duration>> {
        self.keep_jobs.subscribe()
    }

    /// How many copies of the database are kept.
    pub fn keep_backups(&self) -> usize {
        locked(&self.state).in_force.keep_backups as usize
    }

    fn refuse(&self, problem: Problem, state: &mut State) {
        if state.refused.as_ref() == Some(&problem) {
            return;
        }
        let why = match &problem {
            Problem::BadConfig { line: Some(line), error, .. } => format!("line {line}: {error}"),
            Problem::BadConfig { line: None, error, .. } => error.clone(),
            other => other.to_string(),
        };
        self.tell(Message::Log(vec![Line::warn(format!("Config refused: {why}; the old one stays in force"))]));
        state.refused = Some(problem);
    }

    fn gone(&self) -> Problem {
        self.file.bad(Fault { line: None, error: "it is gone; nexus restart makes a fresh one".into() })
    }

    fn tell(&self, message: Message) {
        // The engine is gone: the service is going down, and the next one reads the file for itself.
        let _ = self.engine.send(message);
    }
}

/// Why a value cannot go over that of the file.
pub fn refused(name: &str, typed: &str, error: NotChanged) -> Problem {
    let want = match error {
        NotChanged::BadValue { want, .. } => want,
        other => other.to_string(),
    };
    Problem::BadField { field: name.into(), value: typed.into(), want }
}

/// What a thread that panicked left is as good as before: it is changed last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
