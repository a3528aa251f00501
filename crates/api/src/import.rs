//! Entries of a file on their way into the queue, and files that are watched.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::edit::{Change, LineError};
use crate::history_import::TakenOver;
use crate::job_file::{Entry, Format};
use crate::jobs::{JobSpec, Note, State};

/// Body of `POST /v1/import`: a file that the client has read. For `POST /v1/import/lines` it is the first line, and its
/// entries are the lines after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Import {
    /// As messages name it.
    pub file: String,
    /// Relative scripts count from here.
    pub folder: String,
    /// A job before its entry says anything: environment, folder and window of whoever imports.
    pub usual: JobSpec,
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// Every entry as it stands, known or not.
    #[serde(default)]
    pub again: bool,
    #[serde(default)]
    pub dry_run: bool,
    /// Of entries that come line by line: they name each other, and are taken all at once.
    #[serde(default)]
    pub together: bool,
}

/// Body of `POST /v1/import/text`: what stands in a file, as it is. [`ImportReport`] is the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportText {
    pub text: String,
    /// None: found out from the text.
    #[serde(default)]
    pub format: Option<Format>,
    /// Where its jobs run, and where relative scripts count from.
    pub cwd: String,
    /// As in [`Import`]; so the next.
    #[serde(default)]
    pub again: bool,
    #[serde(default)]
    pub dry_run: bool,
}

/// Answer to [`Import`]. Line by line there is one for each part of the entries, and the last has the notes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    /// One for each entry, in their order.
    pub entries: Vec<Taken>,
    pub notes: Vec<Note>,
    /// What kept the entries after these from being taken: a full disk, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<crate::problem::Problem>,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Taken {
    pub line: u64,
    #[serde(flatten)]
    pub fate: Fate,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "fate", rename_all = "kebab-case")]
pub enum Fate {
    Queued {
        id: String,
    },
    /// It would be queued so; without its environment.
    Planned {
        spec: Box<JobSpec>,
    },
    /// An identical job waits, and was told what the entry says otherwise.
    Changed {
        id: String,
        changes: Vec<Change>,
    },
    /// An identical job waits, runs or has completed.
    Known {
        id: String,
        state: State,
        /// What the entry says otherwise of a job that runs or has completed; it stays as it is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        differs: Vec<Change>,
    },
    /// An identical entry stands in an earlier line.
    Repeated {
        of: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
    },
    Refused {
        error: String,
    },
}

/// As it is written. Read in one go: what is derived for a fate beside a line keeps all of it in between, and that took as long as
/// all else that a client does with an entry.
impl<'de> Deserialize<'de> for Taken {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Taken, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Word {
            Queued,
            Planned,
            Changed,
            Known,
            Repeated,
            Refused,
        }
        #[derive(Deserialize)]
        struct Written {
            line: u64,
            fate: Word,
            id: Option<String>,
            spec: Option<Box<JobSpec>>,
            changes: Option<Vec<Change>>,
            state: Option<State>,
            #[serde(default)]
            differs: Vec<Change>,
            of: Option<u64>,
            error: Option<String>,
        }
        fn given<T, E: de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        let Written { line, fate, id, spec, changes, state, differs, of, error } = Written::deserialize(from)?;
        let fate = match fate {
            Word::Queued => Fate::Queued { id: given(id, "id")? },
            Word::Planned => Fate::Planned { spec: given(spec, "spec")? },
            Word::Changed => Fate::Changed { id: given(id, "id")?, changes: given(changes, "changes")? },
            Word::Known => Fate::Known { id: given(id, "id")?, state: given(state, "state")?, differs },
            Word::Repeated => Fate::Repeated { of: given(of, "of")?, changes: changes.unwrap_or_default() },
            Word::Refused => Fate::Refused { error: given(error, "error")? },
        };
        Ok(Taken { line, fate })
    }
}

/// Body of `POST /v1/watches`: a file whose new entries are taken from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watch {
    /// An absolute path. It need not exist.
    pub file: String,
    /// None: found out from the first entries.
    #[serde(default)]
    pub format: Option<Format>,
    /// As in [`Import`]; so the next.
    pub usual: JobSpec,
    #[serde(default)]
    pub again: bool,
    /// A group whose members may write to the file too, by name or number. A file that anybody else can write is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<String>,
}

/// Answer to it: what the first look brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Watching {
    pub watched: Watched,
    /// Whether it was watched before.
    pub before: bool,
    pub imported: Imported,
    pub refused: Vec<LineError>,
    pub doubtful: Vec<LineError>,
}

/// `GET /v1/watches` lists these; `DELETE /v1/watches?file=…` ends one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    pub file: String,
    pub format: Option<Format>,
    pub again: bool,
    pub cwd: String,
    pub since: String,
    /// Entries that were taken so far.
    pub taken: u64,
    /// Why it is not taken now: it cannot be read, or another user can write to it. Null where it is.
    pub trouble: Option<String>,
    /// The group whose members may write to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<String>,
}

/// A file and what became of it: what `nexus import --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportReport {
    pub file: String,
    pub format: Option<Format>,
    pub entries: Vec<Taken>,
    /// Lines that mean nothing.
    pub refused: Vec<LineError>,
    /// Lines that could have been meant otherwise.
    pub doubtful: Vec<LineError>,
    pub notes: Vec<Note>,
    pub stopped: Option<crate::problem::Problem>,
    /// Jobs of an export that had ended, and were left out.
    pub ended: u64,
    /// What became of those that were taken over instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<TakenOver>,
    /// Jobs of an export that ran then, and were left out.
    pub running: Vec<String>,
}
