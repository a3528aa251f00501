//! The figures of a simulation: a line for each, times in words and in seconds.

use super::paint::Paint;
use super::table::Table;
use super::{text, time};
use crate::figures::{Figures, Packed};

/// A name, what it is, and more of that.
type Line = (&'static str, String, String);

pub fn figures(figures: &Figures, paint: Paint) -> String {
    let span = |name, seconds: f64| (name, time::span(seconds.round() as u64), format!("{} s", seconds.round()));
    let never = match figures.never_fit {
        0 => String::new(),
        never => format!("{never} never fit"),
    };
    let on = format!("on {}", text::counted(figures.machines as u64, "machine"));
    table(
        vec![
            ("jobs", figures.jobs.to_string(), never),
            ("GPUs", figures.gpus.to_string(), on),
            span("makespan", figures.makespan_seconds),
            span("mean wait", figures.mean_wait_seconds),
            span("99th percentile wait", figures.p99_wait_seconds),
            span("mean completion", figures.mean_completion_seconds),
            ("GPU use", format!("{:.1} %", figures.gpu_use_percent), String::new()),
        ],
        paint,
    )
}

pub fn packed(packed: &Packed, paint: Paint) -> String {
    let when = match packed.arrivals_at_full_demand {
        0 => format!("at the end: only {:.1} % of the GPUs were asked for", packed.demand_percent),
        arrivals => format!("mean of {}, when as much was asked for as there is", text::counted(arrivals, "arrival")),
    };
    table(
        vec![
            ("pods", packed.pods.to_string(), String::new()),
            ("GPUs", packed.gpus.to_string(), format!("on {}", text::counted(packed.machines as u64, "node"))),
            ("fitted", packed.fitted.to_string(), String::new()),
            ("dropped", packed.dropped.to_string(), String::new()),
            ("not allocated", format!("{:.2} %", packed.not_allocated_percent), when),
            ("milli in use", packed.milli_in_use.to_string(), format!("of {}", packed.milli)),
        ],
        paint,
    )
}

fn table(lines: Vec<Line>, paint: Paint) -> String {
    let cells = |of: fn(&Line) -> String| lines.iter().map(of).collect::<Vec<_>>();
    Table::new()
        .column("", Paint::plain, cells(|line| line.0.to_string()))
        .column("", Paint::time, cells(|line| line.1.clone()))
        .column("", Paint::plain, cells(|line| line.2.clone()))
        .render(false, paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn times_stand_in_words_and_in_seconds() {
        let shown = figures(
            &Figures {
                machines: 1,
                gpus: 8,
                jobs: 40,
                never_fit: 2,
                makespan_seconds: 187_200.4,
                mean_wait_seconds: 0.0,
                p99_wait_seconds: 130.0,
                mean_completion_seconds: 8100.0,
                gpu_use_percent: 87.25,
                ..Figures::default()
            },
            PLAIN,
        );
        let expected = "jobs                  40      2 never fit\n\
                        GPUs                  8       on 1 machine\n\
                        makespan              2d 4h   187200 s\n\
                        mean wait             0s      0 s\n\
                        99th percentile wait  2m 10s  130 s\n\
                        mean completion       2h 15m  8100 s\n\
                        GPU use               87.2 %\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_packing_says_what_its_mean_is_of() {
        let full = Packed {
            machines: 2,
            gpus: 16,
            pods: 20,
            fitted: 18,
            dropped: 2,
            not_allocated_percent: 7.1449,
            arrivals_at_full_demand: 3,
            demand_percent: 101.0,
            milli_in_use: 14_900,
            milli: 16_000,
        };
        let shown = packed(&full, PLAIN);
        assert!(shown.contains("not allocated  7.14 %  mean of 3 arrivals, when as much"), "{shown}");
        let never = packed(&Packed { arrivals_at_full_demand: 0, demand_percent: 43.21, ..full }, PLAIN);
        assert!(never.contains("at the end: only 43.2 % of the GPUs were asked for"), "{never}");
    }
}
