//! Machines on disk: who they are, and what was decided about them.

use nexus_core::event::Event;
use nexus_core::ids::{ClassId, JobId, MachineId};
use nexus_core::machine::{Quarantine, SetUp, Standing};
use nexus_core::time::Time;
use nexus_node::slurm::Options;
use rusqlite::{Row, params};

use super::write::Writer;
use super::{Store, StoreError};

/// A machine as it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    pub id: MachineId,
    pub name: String,
    /// None: the service's own host, or a cluster whose programs are there.
    pub address: Option<String>,
    pub home: Option<String>,
    pub simulated: u16,
    /// How jobs are submitted there, where it is a cluster.
    pub slurm: Option<Options>,
    pub standing: Standing,
    pub added_at: Time,
    pub removed: bool,
}

impl Store {
    /// All there ever were, by number.
    pub fn machines(&self) -> Result<Vec<MachineRow>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT n, name, address, home, simulated, class, paused, quarantine, leaving, added_at,
                        removed_at IS NOT NULL, setup, slurm FROM machines ORDER BY n",
            )
            .and_then(|mut found| found.query_map([], machine)?.collect())
            .map_err(|source| self.read_error(source))
    }

    pub fn classes(&self) -> Result<Vec<(ClassId, String)>, StoreError> {
        self.db
            .prepare_cached("SELECT n, name FROM classes ORDER BY n")
            .and_then(|mut found| found.query_map([], |row| Ok((ClassId(row.get(0)?), row.get(1)?)))?.collect())
            .map_err(|source| self.read_error(source))
    }
}

impl Writer<'_> {
    /// What became of a machine, or of a GPU of it. `new` has those that are added.
    pub(super) fn machine(&self, event: &Event, new: &[MachineRow]) -> rusqlite::Result<()> {
        match event {
            Event::GpuPaused { machine, uuid, .. } => self.run(
                "INSERT OR IGNORE INTO paused_gpus SELECT name, ?2 FROM machines WHERE n = ?1",
                params![machine.0, uuid],
            )?,
            Event::GpuResumed { machine, uuid, .. } => self.run(
                "DELETE FROM paused_gpus WHERE machine = (SELECT name FROM machines WHERE n = ?1) AND uuid = ?2",
                params![machine.0, uuid],
            )?,
            Event::MachineAdded { machine, standing } => match new.iter().find(|row| row.id == *machine) {
                Some(row) => self.added(row, standing)?,
                None => 0,
            },
            Event::MachineMoved { machine, class } => {
                let sql = "UPDATE machines SET class = ?2, setup = NULL WHERE n = ?1";
                self.run(sql, params![machine.0, class.map(|class| class.0)])?
            }
            Event::MachineSetUp { machine, set_up } => self.run(
                "UPDATE machines SET class = NULL, setup = ?2 WHERE n = ?1",
                params![machine.0, set_up_text(set_up)],
            )?,
            Event::MachinePaused { machine } => self.run("UPDATE machines SET paused = 1 WHERE n = ?1", [machine.0])?,
            Event::MachineResumed { machine } => {
                self.run("UPDATE machines SET paused = 0, quarantine = NULL WHERE n = ?1", [machine.0])?
            }
            Event::MachineQuarantined { machine, quarantine } => self.run(
                "UPDATE machines SET quarantine = ?2 WHERE n = ?1",
                params![machine.0, quarantine_text(quarantine)],
            )?,
            Event::MachineLeaving { machine } => {
                self.run("UPDATE machines SET leaving = 1 WHERE n = ?1", [machine.0])?
            }
            Event::MachineRemoved { machine } => {
                self.run(
                    "DELETE FROM paused_gpus WHERE machine = (SELECT name FROM machines WHERE n = ?1)",
                    [machine.0],
                )?;
                self.run("UPDATE machines SET removed_at = unixepoch() * 1000 WHERE n = ?1", [machine.0])?
            }
            _ => 0,
        };
        Ok(())
    }

    fn added(&self, row: &MachineRow, standing: &Standing) -> rusqlite::Result<usize> {
        self.run(
            "INSERT INTO machines (n, name, address, home, simulated, class, added_at, slurm)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (n) DO UPDATE SET address = excluded.address, home = excluded.home, slurm = excluded.slurm,
                simulated = excluded.simulated, class = excluded.class, added_at = excluded.added_at, paused = 0,
                quarantine = NULL, leaving = 0, setup = NULL, removed_at = NULL",
            params![
                row.id.0,
                row.name,
                row.address,
                row.home,
                row.simulated,
                standing.class.map(|class| class.0),
                row.added_at.0,
                row.slurm.as_ref().map(|options| serde_json::to_string(options).expect("options are plain data")),
            ],
        )
    }

    pub(super) fn new_class(&self, class: ClassId, name: &str) -> rusqlite::Result<()> {
        self.run("INSERT OR IGNORE INTO classes VALUES (?1, ?2)", params![class.0, name])?;
        Ok(())
    }
}

fn machine(row: &Row) -> rusqlite::Result<MachineRow> {
    let (quarantine, set_up): (Option<String>, Option<String>) = (row.get(7)?, row.get(11)?);
    Ok(MachineRow {
        id: MachineId(row.get(0)?),
        name: row.get(1)?,
        address: row.get(2)?,
        home: row.get(3)?,
        simulated: row.get(4)?,
        slurm: row.get::<_, Option<String>>(12)?.and_then(|text| serde_json::from_str(&text).ok()),
        standing: Standing {
            class: row.get::<_, Option<u32>>(5)?.map(ClassId),
            set_up: set_up.as_deref().and_then(set_up_of),
            paused: row.get(6)?,
            quarantine: quarantine.as_deref().and_then(quarantine_of),
            leaving: row.get(8)?,
        },
        added_at: Time(row.get(9)?),
        removed: row.get(10)?,
    })
}

fn set_up_text(set_up: &SetUp) -> String {
    format!("{} {}", set_up.class.0, set_up.last)
}

/// Reads what [`set_up_text`] wrote.
fn set_up_of(text: &str) -> Option<SetUp> {
    let (class, last) = text.split_once(' ')?;
    Some(SetUp { class: ClassId(class.parse().ok()?), last: last.parse().ok()? })
}

fn quarantine_text(quarantine: &Quarantine) -> String {
    format!("{} {} {}", quarantine.since.0, quarantine.failures, quarantine.last)
}

/// Reads what [`quarantine_text`] wrote.
fn quarantine_of(text: &str) -> Option<Quarantine> {
    let mut words = text.split(' ');
    let (since, failures) = (Time(words.next()?.parse().ok()?), words.next()?.parse().ok()?);
    let last: JobId = words.next()?.parse().ok()?;
    Some(Quarantine { since, failures, last })
}
