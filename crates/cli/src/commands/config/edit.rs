//! `nexus config edit`: the file in an editor. What is wrong with the new text is told before it counts.

use std::io::Write;
use std::path::{Path, PathBuf};

use nexus_api::problem::Problem;
use nexus_daemon::config::{ConfigFile, Fault};
use nexus_node::{own_file, run_file};

use super::change::{check_models, differences, take};
use crate::app::App;
use crate::editor;
use crate::error::{CliError, Refused, Told};

/// No configuration is longer.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Edit the file
///
/// Opens a copy in $VISUAL, $EDITOR or vi. Only a text that the service takes gets into the file's place; any other is
/// kept beside it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus config edit
  EDITOR=nano nexus config edit")]
pub struct EditArgs {}

pub async fn run(app: &App) -> Result<(), CliError> {
    let file = ConfigFile::of(&app.home);
    let before = file.lock()?.text()?;
    let copy = Copy::make(&app.home.dir, &before)?;
    let after = loop {
        if let Err(error) = editor::edit(&copy.path) {
            return Err(copy.kept_if_changed(error));
        }
        let text = copy.text(&file);
        match text.and_then(|text| check_models(&before, &text, &file).map(|()| text)) {
            Ok(text) => break text,
            Err(problem) => {
                let again = app.ui.can_ask() && {
                    let (error, why) = (problem.title(), problem.why());
                    app.ui.failed(&Told { error, why, hint: None }, None);
                    app.ui.confirm("edit it again?")
                };
                if !again {
                    return Err(copy.kept(problem.to_string()));
                }
            }
        }
    };
    if after == before {
        copy.remove();
        app.ui.say("nothing was changed");
        return Ok(());
    }
    let locked = file.lock()?;
    if locked.text()? != before {
        return Err(copy.kept("somebody else has changed it meanwhile".into()));
    }
    locked.replace(&after)?;
    drop(locked);
    copy.remove();
    let changes = differences(&before, &after, &file, app)?;
    if changes.is_empty() {
        app.ui.say("the file was changed; no key has another value");
    }
    take(&changes, app).await
}

/// The text that is edited, until it is in its place.
struct Copy {
    path: PathBuf,
    original: String,
}

impl Copy {
    fn make(dir: &Path, text: &str) -> Result<Copy, CliError> {
        let path = dir.join(format!("config.edit-{}.toml", std::process::id()));
        run_file::create(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(CliError::io(format!("{} could not be written", path.display())))?;
        Ok(Copy { path, original: text.into() })
    }

    fn text(&self, file: &ConfigFile) -> Result<String, Problem> {
        let bad = |error: String| file.bad(Fault { line: None, error });
        let bytes = own_file::read(&self.path, MAX_TEXT_BYTES).map_err(|error| bad(error.to_string()))?;
        String::from_utf8(bytes).map_err(|_| bad("it is not text in UTF-8".into()))
    }

    fn remove(&self) {
        // A copy that stays is in nobody's way.
        let _ = std::fs::remove_file(&self.path);
    }

    fn kept(&self, why: String) -> CliError {
        Refused {
            error: "the configuration was not changed".into(),
            why: Some(why),
            hint: Some(format!("your text is kept in {}", self.path.display())),
        }
        .into()
    }

    fn kept_if_changed(&self, error: CliError) -> CliError {
        match own_file::read(&self.path, MAX_TEXT_BYTES) {
            Ok(text) if text != self.original.as_bytes() => {
                let told = error.told();
                let why = told.why.map(|why| format!(": {why}")).unwrap_or_default();
                self.kept(format!("{}{why}", told.error))
            }
            _ => {
                self.remove();
                error
            }
        }
    }
}
