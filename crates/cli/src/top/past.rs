//! How busy each GPU was in the last minutes, for the small charts beside it.

use std::collections::{BTreeMap, VecDeque};

use nexus_api::events::GpuReading;
use nexus_api::service::GpuPast;

/// What a service keeps.
const KEPT_MS: i64 = 15 * 60 * 1000;

#[derive(Debug, Default)]
pub struct Past {
    gpus: BTreeMap<(String, u16), VecDeque<(i64, u8)>>,
}

impl Past {
    /// All that the service knows.
    pub fn fill(&mut self, gpus: Vec<GpuPast>) {
        let loads = |gpu: &GpuPast| gpu.points.iter().filter_map(|point| Some((point.0, point.1?))).collect();
        self.gpus = gpus.into_iter().map(|gpu| ((gpu.machine.clone(), gpu.index), loads(&gpu))).collect();
    }

    /// What was read just now.
    pub fn take(&mut self, machine: &str, at: i64, readings: &[GpuReading]) {
        for reading in readings {
            let Some(load) = reading.load_percent else { continue };
            let points = self.gpus.entry((machine.to_string(), reading.index)).or_default();
            if points.back().is_some_and(|(last, _)| *last >= at) {
                continue;
            }
            points.push_back((at, load));
            while points.front().is_some_and(|(first, _)| at - first > KEPT_MS) {
                points.pop_front();
            }
        }
    }

    /// The mean load in each of `count` spans of this length, the newest last and up to now.
    pub fn loads(&self, machine: &str, index: u16, count: usize, span_ms: i64, now_ms: i64) -> Vec<Option<u8>> {
        let mut sums = vec![(0u32, 0u32); count];
        let points = self.gpus.get(&(machine.to_string(), index));
        for (at, load) in points.into_iter().flatten() {
            // Spans begin at whole multiples of their length, so that a chart does not tremble as it moves on.
            let back = now_ms.div_euclid(span_ms) - at.div_euclid(span_ms);
            let slot = usize::try_from(back).ok().and_then(|back| count.checked_sub(back + 1));
            if let Some((sum, number)) = slot.and_then(|slot| sums.get_mut(slot)) {
                *sum += u32::from(*load);
                *number += 1;
            }
        }
        sums.into_iter().map(|(sum, number)| u8::try_from(sum.checked_div(number)?).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::service::PastPoint;

    use super::*;

    fn reading(load: u8) -> GpuReading {
        GpuReading { index: 0, load_percent: Some(load), used_mib: None, temperature_c: None, power_w: None }
    }

    #[test]
    fn spans_have_their_mean() {
        let mut past = Past::default();
        let points = vec![PastPoint(0, Some(10), None), PastPoint(5_000, Some(30), None), PastPoint(9_000, None, None)];
        past.fill(vec![GpuPast { machine: "local".into(), index: 0, points }]);
        past.take("local", 25_000, &[reading(90)]);
        past.take("local", 24_000, &[reading(1)]);
        assert_eq!(past.loads("local", 0, 4, 10_000, 29_000), [None, Some(20), None, Some(90)]);
        assert_eq!(past.loads("local", 0, 2, 10_000, 29_000), [None, Some(90)]);
        assert_eq!(past.loads("box", 0, 2, 10_000, 29_000), [None, None]);
    }
}
