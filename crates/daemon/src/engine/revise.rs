//! Changes of the queue that belong together: what a client edited, as one input of the engine.

use nexus_api::problem::Problem;
use nexus_core::apply::{self, Command, Edit};
use nexus_core::ids::JobId;

use super::submit::Fresh;
use super::{Engine, Turn};
use crate::clock;
use crate::same::same;
use crate::service_log::Line;
use crate::store::EditedRow;

/// Met as a whole or refused as a whole.
#[derive(Default)]
pub struct Revision {
    pub remove: Vec<JobId>,
    pub edits: Vec<(Edit, EditedRow)>,
    pub add: Vec<Fresh>,
    /// Jobs in the order they are to stand in; those that are not named keep their places.
    pub order: Vec<Slot>,
    /// Lines for service.log.
    pub notes: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Known(JobId),
    /// By its place among those that are added.
    New(usize),
}

impl Engine {
    pub(super) fn revise(&mut self, revision: Revision, turn: &mut Turn) -> Result<Vec<JobId>, Problem> {
        let Revision { remove, edits, add, order, notes } = revision;
        let (new, rows) = if add.is_empty() { (vec![], vec![]) } else { self.named(add, &remove, turn)? };
        let ids: Vec<JobId> = new.iter().map(|job| job.id).collect();
        let adds_alone = remove.is_empty() && edits.is_empty() && order.is_empty();
        if adds_alone && turn.may_let_in_later(&new) {
            turn.add_rows(&ids, rows);
            turn.batch.notes.extend(notes);
            turn.coming = new;
            return Ok(ids);
        }
        let order = order.into_iter().map(|slot| match slot {
            Slot::Known(id) => id,
            Slot::New(place) => ids[place],
        });
        let (mut edits, mut edited): (Vec<Edit>, Vec<EditedRow>) = edits.into_iter().unzip();
        for (edit, row) in edits.iter().zip(&mut edited).filter(|(edit, _)| edit.needs.is_some()) {
            self.find_variables_again(edit, row, turn)?;
            self.know_places(&row.spec.request, turn)?;
        }
        for (edit, row) in edits.iter_mut().zip(&edited).filter(|(edit, _)| edit.needs.is_some()) {
            edit.needs = Some(self.needs(&row.spec, same(&row.spec), &[], turn)?);
        }
        let rows_of = edits.iter().map(|edit| edit.job).zip(edited).collect::<Vec<_>>();
        let revision = apply::Revision { remove, edits, add: new, order: order.collect() };
        let events = apply::command(&mut self.world, Command::Revise(revision), clock::now())
            .map_err(|refusal| self.refused(refusal, "edit"))?;
        turn.add_events(events);
        turn.add_rows(&ids, rows);
        turn.batch.edited.extend(rows_of);
        turn.batch.notes.extend(notes);
        Ok(ids)
    }
}
