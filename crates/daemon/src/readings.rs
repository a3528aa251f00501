//! Load and memory of GPUs over the last while, for whoever draws them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use nexus_api::events::{Event, GpuReading, What};
use nexus_api::service::{Gpu, GpuPast, PastPoint};
use nexus_core::time::Time;
use tokio::sync::broadcast;

/// So far back they go.
const KEPT_MS: i64 = 15 * 60 * 1000;

/// A young run has its GPUs read twice a second; that is more than a drawing shows.
const APART_MS: i64 = 1000;

/// Readings a listener may fall behind; the next one tells all that counts.
const BEHIND: usize = 16;

pub struct Readings {
    live: broadcast::Sender<Arc<Event>>,
    past: Mutex<BTreeMap<(String, u16), VecDeque<PastPoint>>>,
}

impl Readings {
    pub fn new() -> Readings {
        Readings { live: broadcast::channel(BEHIND).0, past: Mutex::default() }
    }

    /// What was read of a machine just now.
    pub fn take(&self, machine: &str, gpus: &[Gpu], now: Time) {
        let read = gpus.iter().filter(|gpu| gpu.used_mib.is_some() || gpu.load_percent.is_some());
        let read: Vec<GpuReading> = read.map(GpuReading::of).collect();
        if read.is_empty() {
            return;
        }
        let mut past = self.past.lock().expect("nobody panics with the readings");
        for gpu in &read {
            let points = past.entry((machine.to_string(), gpu.index)).or_default();
            if points.back().is_none_or(|last| now.0 - last.0 >= APART_MS) {
                points.push_back(PastPoint(now.0, gpu.load_percent, gpu.used_mib));
            }
        }
        past.retain(|_, points| {
            while points.front().is_some_and(|first| now.0 - first.0 > KEPT_MS) {
                points.pop_front();
            }
            !points.is_empty()
        });
        drop(past);
        let what = What::Readings { machine: machine.to_string(), at: now.0, gpus: read };
        // Nobody listening is no error.
        let _ = self.live.send(Arc::new(Event { number: 0, what }));
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.live.subscribe()
    }

    pub fn past(&self) -> Vec<GpuPast> {
        let past = self.past.lock().expect("nobody panics with the readings");
        let gpu = |((machine, index), points): (&(String, u16), &VecDeque<PastPoint>)| GpuPast {
            machine: machine.clone(),
            index: *index,
            points: points.iter().copied().collect(),
        };
        past.iter().map(gpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(load: u8) -> Gpu {
        Gpu { load_percent: Some(load), used_mib: Some(10), ..Gpu::default() }
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept_a_point_a_second_at_most() {
        let readings = Readings::new();
        for at in [0, 500, 1000, 1200, 5000] {
            readings.take("local", &[gpu(7)], Time(at));
        }
        let past = readings.past();
        let times: Vec<i64> = past[0].points.iter().map(|point| point.0).collect();
        assert_eq!(times, [0, 1000, 5000]);
        readings.take("local", &[gpu(8)], Time(KEPT_MS + 1001));
        let times: Vec<i64> = readings.past()[0].points.iter().map(|point| point.0).collect();
        assert_eq!(times, [5000, KEPT_MS + 1001]);
    }

    #[test]
    fn what_cannot_be_read_is_no_point() {
        let readings = Readings::new();
        readings.take("local", &[Gpu::default()], Time(1));
        assert!(readings.past().is_empty());
    }
}
