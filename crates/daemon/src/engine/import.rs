//! Entries of files on their way into the queue. Each becomes a job, unless an identical one waits, runs or has
//! completed; decided here, where one import comes after the other, and committed with what a watch remembers of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nexus_api::edit::Change;
use nexus_api::env::{Env, looks_secret};
use nexus_api::import::Fate;
use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use nexus_api::queue_text::set;
use nexus_core::apply::Edit;
use nexus_core::event::Needs;
use nexus_core::ids::JobId;
use nexus_core::request::Same;

use super::submit::{Coming, Fresh, Twin, is_identical, rename_parents};
use super::{Engine, Revision, Turn};
use crate::checks;
use crate::identity::{Identity, are_identical};
use crate::same::same;
use crate::service_log::Line;
use crate::spec_changes::{changes, note};
use crate::store::{EditedRow, JobEnv, NewSpec, WatchChange, parents};

/// Options that an entry cannot change in a job that is there: those that make it the same job, and those that were
/// said for its beginning.
const OF_THE_BEGINNING: &[&str] = &["after", "after-any", "argv", "conda", "cwd", "hold", "unique", "venv"];

/// An entry, as a job that was checked.
pub struct ImportLine {
    pub line: u64,
    /// Its environment is empty: that lies beside it.
    pub spec: NewSpec,
    pub env: Arc<JobEnv>,
    pub identity: Identity,
    pub same: Same,
    /// Variables that it sets: jobs that differ in them are others.
    pub own_env: Env,
    /// What it says; all else is usual.
    pub said: BTreeMap<String, String>,
    /// What it is called in the file.
    pub known_as: Option<String>,
}

/// What is to be done with some of them.
#[derive(Default)]
pub struct ImportOrder {
    pub lines: Vec<ImportLine>,
    /// Every one as it stands, known or not.
    pub again: bool,
    pub dry_run: bool,
    /// What the watch remembers from now on; it is on disk with the jobs, or neither is.
    pub watch: Option<WatchChange>,
    /// For service.log.
    pub notes: Vec<Line>,
}

/// What became of a line.
pub enum Settled {
    Queued(JobId),
    Told(Fate),
}

/// The first of identical lines.
struct Seen {
    line: u64,
    own_env: Env,
    place: Place,
}

/// Where it went.
enum Place {
    /// Among the new.
    New(usize),
    /// Among the changed.
    Edited(usize),
    /// A job that stays as it is.
    Known(Box<NewSpec>),
}

/// What is gathered line by line.
#[derive(Default)]
struct Gathered {
    fresh: Vec<Fresh>,
    edits: Vec<(JobId, JobSpec, JobSpec, Vec<String>)>,
    /// Identities of jobs that are here, in order.
    here: Vec<Identity>,
    /// Those of several lines, in order.
    several: Vec<Identity>,
    /// Of lines that are identical: the first, and where it went.
    seen: BTreeMap<Identity, Vec<Seen>>,
    /// Jobs that stand for what the file calls so.
    standing: BTreeMap<String, JobId>,
    fates: Vec<Pending>,
}

enum Pending {
    Settled(Fate),
    /// One of the new.
    New(usize),
}

impl Engine {
    pub(super) fn import(&mut self, order: ImportOrder, turn: &mut Turn) -> Result<Vec<Settled>, Problem> {
        self.read_together(|engine| engine.import_read(order, turn))
    }

    fn import_read(&mut self, order: ImportOrder, turn: &mut Turn) -> Result<Vec<Settled>, Problem> {
        let ImportOrder { lines, again, dry_run, watch, notes } = order;
        let coming = Coming::of(turn);
        let mut gathered = if again { Gathered::default() } else { self.look_for(&lines)? };
        gathered.fresh.reserve_exact(lines.len());
        gathered.fates.reserve_exact(lines.len());
        let known_as: BTreeSet<String> = lines.iter().filter_map(|line| line.known_as.clone()).collect();
        for line in lines {
            let refused = match self.unset_variable(&line) {
                None => self.unknown_parent(&line, &known_as)?,
                unset => unset,
            };
            let pending = match refused {
                Some(error) => Pending::Settled(Fate::Refused { error }),
                None => self.gather(line, again, &coming, &mut gathered, turn)?,
            };
            gathered.fates.push(pending);
        }
        let Gathered { mut fresh, edits, standing, fates, .. } = gathered;
        if dry_run {
            let planned = |at: usize| Settled::Told(Fate::Planned { spec: Box::new(fresh[at].spec.whole()) });
            return Ok(fates.into_iter().map(|pending| settled(pending, &planned)).collect());
        }
        // Jobs that are here already stand in for what the file calls so.
        rename_parents(&mut fresh, &standing);
        let mut revision = Revision { add: fresh, notes, ..Revision::default() };
        for (id, before, after, secret_names) in edits {
            revision.notes.push(note(id.as_str(), &changes(&before, &after)).into());
            revision.edits.push(edit(id, &before, after, secret_names));
        }
        let ids = self.revise(revision, turn)?;
        turn.batch.watches.extend(watch);
        Ok(fates.into_iter().map(|pending| settled(pending, &|at| Settled::Queued(ids[at]))).collect())
    }

    /// Which lines may be of jobs that are here, and which repeat others.
    fn look_for(&self, lines: &[ImportLine]) -> Result<Gathered, Problem> {
        let mut all: Vec<Identity> = lines.iter().map(|line| line.identity).collect();
        all.sort_unstable();
        let mut several: Vec<Identity> = all.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
        several.dedup();
        all.dedup();
        let here = self.store.known_identities(&all).map_err(|error| error.problem())?;
        Ok(Gathered { here, several, ..Gathered::default() })
    }

    fn gather(
        &self,
        line: ImportLine,
        again: bool,
        coming: &Coming,
        gathered: &mut Gathered,
        turn: &Turn,
    ) -> Result<Pending, Problem> {
        if again {
            return Ok(gathered.add(line));
        }
        if let Some(fate) = gathered.repeated(&line) {
            return Ok(Pending::Settled(fate));
        }
        let has_its_env = |twin: &Twin| self.has_env(twin, &line, turn);
        let twin = match gathered.here.binary_search(&line.identity).is_ok() || coming.have(line.identity) {
            true => self.twin((line.identity, &line.spec.whole()), coming, &[], turn, &has_its_env)?,
            false => None,
        };
        let Some(twin) = twin else {
            gathered.saw(&line, Place::New(gathered.fresh.len()));
            return Ok(gathered.add(line));
        };
        gathered.standing.extend(line.known_as.clone().map(|name| (name, twin.id)));
        let waits = self.world.job(twin.id).is_some_and(|job| job.state.waits());
        Ok(Pending::Settled(gathered.known(&line, twin, waits)))
    }

    /// Whether a job was given the very variables that a line sets. One that sets none says nothing of them; secrets of
    /// jobs that ended are gone, and not compared.
    fn has_env(&self, twin: &Twin, line: &ImportLine, turn: &Turn) -> Result<bool, Problem> {
        if line.own_env.is_empty() {
            return Ok(true);
        }
        let env = match turn.batch.new.get(&twin.id) {
            Some(row) => row.env.open.iter().chain(&row.env.secrets).map(|(n, v)| (n.clone(), v.clone())).collect(),
            None => self.store.env_of(twin.id).map_err(|error| error.problem())?,
        };
        let open = |name: &&String| !looks_secret(name);
        let mut given: Vec<&String> = twin.spec.env_given.iter().filter(open).collect();
        given.sort();
        let own = line.own_env.iter().filter(|(name, _)| open(name));
        Ok(given.iter().copied().eq(own.clone().map(|(name, _)| name))
            && own.clone().all(|(n, v)| env.get(n) == Some(v)))
    }

    /// A variable that an exported job needs must be set here: without it the command would be run with its braces.
    fn unset_variable(&self, line: &ImportLine) -> Option<String> {
        let unset = line.spec.common.variables.iter().find(|name| !self.variables.contains(*name))?;
        let job = line.known_as.as_deref().unwrap_or("it");
        Some(format!(
            "{job} needs the variable {unset}, which is not set here: nexus var set {unset}, then import again"
        ))
    }

    /// A job that it comes after must be here, or stand in the file.
    fn unknown_parent(&self, line: &ImportLine, in_file: &BTreeSet<String>) -> Result<Option<String>, Problem> {
        for (parent, _) in parents(&line.spec.common) {
            if in_file.contains(parent) && line.known_as.is_some() {
                continue;
            }
            let here = parent.parse::<JobId>().is_ok_and(|id| self.world.job(id).is_some());
            if !here && !self.store.has_job(parent).map_err(|error| error.problem())? {
                return Ok(Some(format!("it comes after {parent}, and no such job is here or in the file")));
            }
        }
        Ok(None)
    }
}

impl Gathered {
    fn add(&mut self, line: ImportLine) -> Pending {
        let ImportLine { spec, env, identity, same, known_as, .. } = line;
        self.fresh.push(Fresh { spec, env, identity, same, known_as });
        Pending::New(self.fresh.len() - 1)
    }

    fn saw(&mut self, line: &ImportLine, place: Place) {
        if self.several.binary_search(&line.identity).is_err() {
            return;
        }
        let seen = Seen { line: line.line, own_env: line.own_env.clone(), place };
        self.seen.entry(line.identity).or_default().push(seen);
    }

    fn is_at(&self, place: &Place, spec: &NewSpec) -> bool {
        match place {
            Place::New(at) => is_identical(&self.fresh[*at].spec, spec),
            Place::Edited(at) => are_identical(&self.edits[*at].2, &spec.whole()),
            Place::Known(known) => is_identical(known, spec),
        }
    }

    /// The fate of a line that repeats an earlier one: what it says otherwise counts.
    fn repeated(&mut self, line: &ImportLine) -> Option<Fate> {
        let alike = self.seen.get(&line.identity)?;
        let is_it = |seen: &&Seen| seen.own_env == line.own_env && self.is_at(&seen.place, &line.spec);
        let Seen { line: of, place, .. } = alike.iter().find(is_it)?;
        let before = match place {
            _ if line.said.is_empty() => return Some(Fate::Repeated { of: *of, changes: vec![] }),
            Place::New(at) => &self.fresh[*at].spec.whole(),
            Place::Edited(at) => &self.edits[*at].2,
            Place::Known(_) => return Some(Fate::Repeated { of: *of, changes: vec![] }),
        };
        let (after, changes) = match told(before, &line.said) {
            Err(error) => return Some(Fate::Refused { error }),
            Ok(told) => told,
        };
        let fate = Fate::Repeated { of: *of, changes };
        match *place {
            Place::New(at) => {
                self.fresh[at].same = same(&after);
                self.fresh[at].spec = NewSpec::of(after, Some(&line.spec.common));
            }
            Place::Edited(at) => self.edits[at].2 = after,
            Place::Known(_) => {}
        }
        Some(fate)
    }

    /// The fate of a line whose job is there.
    fn known(&mut self, line: &ImportLine, twin: Twin, waits: bool) -> Fate {
        let Twin { id, state, spec, secret_names } = twin;
        let stays = || Place::Known(Box::new(line.spec.clone()));
        let (fate, place) = match told(&spec, &line.said) {
            Err(error) => (Fate::Refused { error }, stays()),
            Ok((after, changes)) if waits && !changes.is_empty() => {
                self.edits.push((id, spec, after, secret_names));
                (Fate::Changed { id: id.to_string(), changes }, Place::Edited(self.edits.len() - 1))
            }
            Ok((_, differs)) => (Fate::Known { id: id.to_string(), state, differs }, stays()),
        };
        self.saw(line, place);
        fate
    }
}

/// A spec that is told what a line says, and what is other then.
fn told(spec: &JobSpec, said: &BTreeMap<String, String>) -> Result<(JobSpec, Vec<Change>), String> {
    let mut after = spec.clone();
    if said.is_empty() {
        return Ok((after, vec![]));
    }
    for (name, value) in said.iter().filter(|(name, _)| !OF_THE_BEGINNING.contains(&name.as_str())) {
        set(&mut after, name, value).map_err(|error| format!("{name}: {error}"))?;
    }
    crate::models::after_edit(spec, &mut after);
    let changes = changes(spec, &after);
    if !changes.is_empty() {
        checks::signal(Some(spec), &after).and_then(|()| checks::spec(&mut after)).map_err(|bad| bad.to_string())?;
    }
    Ok((after, changes))
}

fn edit(job: JobId, before: &JobSpec, after: JobSpec, secret_names: Vec<String>) -> (Edit, EditedRow) {
    let priority = (after.priority != before.priority).then_some(after.priority);
    let edit = Edit {
        job, // They are worked out when it is done.
        needs: Some(Needs::default()),
        priority,
        held: None,
    };
    (edit, EditedRow { spec: after, secret_names, env: None })
}

fn settled(pending: Pending, new: &dyn Fn(usize) -> Settled) -> Settled {
    match pending {
        Pending::Settled(fate) => Settled::Told(fate),
        Pending::New(at) => new(at),
    }
}
