//! How long things take: counted as they happen, told in the text that Prometheus reads.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub struct Metrics {
    /// From submission to the first start.
    pub wait: Histogram,
    pub decide: Histogram,
    pub commit: Histogram,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics { wait: Histogram::new(&WAITS), decide: Histogram::new(&STEPS), commit: Histogram::new(&STEPS) }
    }
}

/// Seconds.
const STEPS: [f64; 9] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0];
const WAITS: [f64; 9] = [0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0];

/// How often each length of time was seen.
pub struct Histogram {
    /// The longest of each class but the last, in seconds.
    up_to: &'static [f64; 9],
    counts: [AtomicU64; 10],
    micros: AtomicU64,
    last_micros: AtomicU64,
}

impl Histogram {
    fn new(up_to: &'static [f64; 9]) -> Histogram {
        Histogram { up_to, counts: Default::default(), micros: AtomicU64::new(0), last_micros: AtomicU64::new(0) }
    }

    pub fn saw(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let class = self.up_to.partition_point(|longest| *longest < seconds);
        self.counts[class].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
        self.last_micros.store(micros, Relaxed);
    }

    /// What was seen last.
    pub fn last(&self) -> Duration {
        Duration::from_micros(self.last_micros.load(Relaxed))
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// A text in the making.
#[derive(Default)]
pub struct Text(String);

impl Text {
    pub fn into_string(self) -> String {
        self.0
    }

    pub fn head(&mut self, name: &str, kind: &str, about: &str) {
        self.line(format_args!("# HELP {name} {about}\n# TYPE {name} {kind}"));
    }

    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.line(format_args!("{name}{} {value}", shown(labels)));
    }

    pub fn histogram(&mut self, name: &str, about: &str, histogram: &Histogram) {
        self.head(name, "histogram", about);
        let mut sum = 0;
        for (count, longest) in histogram.counts.iter().zip(histogram.up_to) {
            sum += count.load(Relaxed);
            self.value(&format!("{name}_bucket"), &[("le", &longest.to_string())], sum);
        }
        sum += histogram.counts[histogram.up_to.len()].load(Relaxed);
        self.value(&format!("{name}_bucket"), &[("le", "+Inf")], sum);
        self.value(&format!("{name}_sum"), &[], histogram.micros.load(Relaxed) as f64 / 1e6);
        self.value(&format!("{name}_count"), &[], sum);
    }

    fn line(&mut self, line: std::fmt::Arguments) {
        writeln!(self.0, "{line}").expect("text takes all");
    }
}

fn shown(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let one = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_their_classes_and_in_all_above() {
        let metrics = Metrics::new();
        for millis in [0, 1, 2, 50, 60_000] {
            metrics.commit.saw(Duration::from_millis(millis));
        }
        let mut text = Text::default();
        text.histogram("t", "how long", &metrics.commit);
        let text = text.into_string();
        for line in [
            "# TYPE t histogram",
            "t_bucket{le=\"0.0001\"} 1",
            "t_bucket{le=\"0.001\"} 2",
            "t_bucket{le=\"0.003\"} 3",
            "t_bucket{le=\"0.1\"} 4",
            "t_bucket{le=\"10\"} 4",
            "t_bucket{le=\"+Inf\"} 5",
            "t_sum 60.053",
            "t_count 5",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_name_cannot_break_out_of_its_quotes() {
        assert_eq!(shown(&[("name", "a\"b\\c\nd")]), "{name=\"a\\\"b\\\\c\\nd\"}");
    }
}
