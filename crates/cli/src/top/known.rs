//! What is known of the service and its jobs, and what is to be read so that it stays right.

use nexus_api::events::GpuReading;
use nexus_api::jobs::{Job, JobQuery};
use nexus_api::service::{Gpu, GpuPast, Machine, Status};
use nexus_api::sweeps::Sweep;

use super::pages::{PAGE_ROWS, Pages, Wanted};
use super::panes::Pane;
use super::past::Past;

#[derive(Default)]
pub struct Known {
    pub host: Option<String>,
    /// None before the first answer.
    pub status: Option<Status>,
    /// Jobs that start, run or copy, as far as the filter has them.
    pub active: Vec<Job>,
    pub queue: Pages,
    pub ended: Pages,
    /// All of them, the newest first.
    pub sweeps: Vec<Sweep>,
    pub past: Past,
    /// The service does not answer: all of this is as it was.
    pub away: bool,
}

/// Something to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Host,
    Status,
    Active,
    Sweeps,
    Past,
    Page { of: Pane, wanted: Wanted },
}

/// What was read.
pub enum News {
    Host(String),
    Status(Box<Status>),
    Active(Vec<Job>),
    Sweeps(Vec<Sweep>),
    Past(Vec<GpuPast>),
    Page { of: Pane, wanted: Wanted, rows: Vec<Job>, next: Option<String> },
}

/// The query of a list of jobs.
pub fn query(of: Pane, contains: &str, cursor: Option<String>) -> JobQuery {
    let state = match of {
        Pane::Queue => "pending",
        Pane::Ended => "ended",
        _ => "starting,running,copying",
    };
    JobQuery {
        state: Some(state.into()),
        contains: (!contains.is_empty()).then(|| contains.to_string()),
        limit: cursor.is_some().then_some(PAGE_ROWS),
        cursor,
        expected: of != Pane::Ended,
        ..JobQuery::default()
    }
}

impl Known {
    pub fn machines(&self) -> &[Machine] {
        self.status.as_ref().map(|status| status.machines.as_slice()).unwrap_or_default()
    }

    /// Each with its machine.
    pub fn gpus(&self) -> impl Iterator<Item = (&Machine, &Gpu)> {
        self.machines().iter().flat_map(|machine| machine.gpus.iter().map(move |gpu| (machine, gpu)))
    }

    pub fn pages(&self, pane: Pane) -> Option<&Pages> {
        match pane {
            Pane::Queue => Some(&self.queue),
            Pane::Ended => Some(&self.ended),
            _ => None,
        }
    }

    /// Sweeps of which jobs are to come yet, as far as they fit.
    pub fn sweeps(&self, contains: &str) -> impl Iterator<Item = &Sweep> {
        let contains = contains.to_lowercase();
        let has = move |text: &str| text.to_lowercase().contains(&contains);
        let fits =
            move |sweep: &&Sweep| has(&sweep.name) || has(&sweep.command) || sweep.project.as_deref().is_some_and(&has);
        self.sweeps.iter().filter(|sweep| sweep.states.ended() < sweep.jobs).filter(fits)
    }

    /// A job that is on, whatever the filter says.
    pub fn running(&self, id: &str) -> Option<&Job> {
        let seen = self.status.as_ref().map(|status| status.active.as_slice()).unwrap_or_default();
        self.active.iter().chain(seen).find(|job| job.id == id)
    }

    /// Something happened: all that may be otherwise now is old.
    pub fn touch(&mut self) {
        self.queue.touch();
        self.ended.touch();
    }

    /// Another filter.
    pub fn forget_lists(&mut self) {
        self.queue.forget();
        self.ended.forget();
    }

    pub fn take(&mut self, news: News) {
        match news {
            News::Host(host) => self.host = Some(host),
            News::Status(status) => self.status = Some(*status),
            News::Active(jobs) => self.active = jobs,
            News::Sweeps(mut sweeps) => {
                sweeps.sort_by(|one, other| other.submitted_at.cmp(&one.submitted_at));
                self.sweeps = sweeps;
            }
            News::Past(gpus) => self.past.fill(gpus),
            News::Page { of: Pane::Queue, wanted, rows, next } => self.queue.take(wanted, rows, next),
            News::Page { wanted, rows, next, .. } => self.ended.take(wanted, rows, next),
        }
    }

    /// New readings go into what is known, without asking for all of it.
    pub fn take_readings(&mut self, machine: &str, at: i64, readings: &[GpuReading]) {
        self.past.take(machine, at, readings);
        let Some(status) = &mut self.status else { return };
        let of_it = status.machines.iter_mut().filter(|known| known.name == machine);
        for gpu in of_it.flat_map(|known| &mut known.gpus) {
            let Some(reading) = readings.iter().find(|reading| reading.index == gpu.index) else { continue };
            let GpuReading { load_percent, used_mib, temperature_c, power_w, .. } = reading.clone();
            (gpu.load_percent, gpu.used_mib) = (load_percent, used_mib);
            (gpu.temperature_c, gpu.power_w) = (temperature_c, power_w);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn readings_are_put_in_their_place() {
        let mut known =
            Known { status: Some(samples::status(vec![samples::gpu(0), samples::gpu(1)], vec![])), ..Known::default() };
        let read = GpuReading::of(&samples::read_gpu(1));
        known.take_readings("local", 1000, std::slice::from_ref(&read));
        known.take_readings("box", 1000, &[read]);
        let loads: Vec<_> = known.gpus().map(|(_, gpu)| gpu.load_percent).collect();
        assert_eq!(loads, [None, Some(97)]);
    }

    #[test]
    fn only_sweeps_that_are_on_are_shown() {
        let mut done = samples::sweep("done");
        done.states = nexus_api::sweeps::States { completed: 10, ..Default::default() };
        let known = Known { sweeps: vec![samples::sweep("lr-grid"), done], ..Known::default() };
        let names = |contains: &str| known.sweeps(contains).map(|sweep| sweep.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names(""), ["lr-grid"]);
        assert_eq!(names("TRAIN"), ["lr-grid"]);
        assert!(names("other").is_empty());
    }
}
