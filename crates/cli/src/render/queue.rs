//! Pending jobs: place, id, reason, whole command.

use jiff::Zoned;
use nexus_api::jobs::Job;

use super::paint::Paint;
use super::reason::{self, Capacity};
use super::table::Table;

pub fn queue(jobs: &[Job], capacity: Capacity, now: &Zoned, with_heads: bool, paint: Paint) -> String {
    let prioritised = jobs.iter().any(|job| job.priority != 0);
    Table::new()
        .column("POS", Paint::queue, jobs.iter().map(position))
        .column("ID", Paint::id, jobs.iter().map(|job| job.id.clone()))
        .column("PRIO (LOW FIRST)", Paint::plain, jobs.iter().map(|job| priority(job, prioritised)))
        .column("NAME", Paint::plain, jobs.iter().map(|job| job.name.clone().unwrap_or_default()))
        .column("REASON", Paint::state, jobs.iter().map(|job| reason::of_job(job, capacity, now)))
        .column("COMMAND", Paint::command, jobs.iter().map(|job| job.command.clone()))
        .render(with_heads, paint)
}

fn position(job: &Job) -> String {
    job.position.map_or("-".into(), |position| position.to_string())
}

fn priority(job: &Job, prioritised: bool) -> String {
    if prioritised { job.priority.to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn the_queue_in_its_order() {
        let mut first = samples::queued("abc");
        first.position = Some(1);
        first.waiting = Some(samples::gpus_needed(2, [1, 3, 0, 0, 0]));
        let mut second = samples::queued("def");
        second.state = State::Held;
        second.command = "echo 1\necho 2".into();
        let capacity = Capacity { gpus: 4, cpus: 8 };
        assert_eq!(
            queue(&[first, second], capacity, &samples::now(), true, PLAIN),
            "\
POS  ID   REASON                                COMMAND
1    abc  needs 2 GPUs: 1 free, 3 held by jobs  python train.py
-    def  held: nexus release def               echo 1
                                                echo 2
"
        );
    }

    #[test]
    fn a_command_is_whole_however_long() {
        let mut job = samples::queued("abc");
        job.command = "é".repeat(5000);
        let text = queue(&[job.clone()], Capacity { gpus: 1, cpus: 1 }, &samples::now(), false, PLAIN);
        assert!(text.contains(&job.command));
    }
}
