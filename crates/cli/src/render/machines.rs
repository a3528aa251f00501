//! Machines of the pool: how they stand, and what to type about it.

use jiff::Zoned;
use nexus_api::machines::{InPool, MachineAction, MachineState};
use nexus_api::service::Machine;
use nexus_api::waiting::Waiting;
use nexus_api::why::Why;

use super::paint::Paint;
use super::table::Table;
use super::{place, slurm, text, time};

/// Machines that are named one by one.
const MOST_NAMED: usize = 8;

/// One line each.
pub fn list(machines: &[Machine], heads: bool, paint: Paint) -> String {
    let pool = |machine: &Machine| machine.pool.clone().unwrap_or_default();
    let jobs = |machine: &Machine| pool(machine).jobs.join(" ");
    Table::new()
        .column("MACHINE", Paint::gpu, machines.iter().map(|machine| machine.name.clone()))
        .column("STATE", coloured, machines.iter().map(|machine| pool(machine).state.word().to_string()))
        .column("CLASS", Paint::plain, machines.iter().map(|machine| pool(machine).class.unwrap_or_else(|| "-".into())))
        .column("GPUS", Paint::plain, machines.iter().map(gpus))
        .column("CPUS", Paint::plain, machines.iter().map(cpus))
        .column("JOBS", Paint::id, machines.iter().map(jobs))
        .column("ADDRESS", Paint::plain, machines.iter().map(|machine| pool(machine).address.unwrap_or_default()))
        .column("", Paint::plain, machines.iter().map(|machine| about(&pool(machine))))
        .render(heads, paint)
}

fn coloured(paint: Paint, state: &str) -> String {
    match state {
        "ready" => paint.available(state),
        "unreachable" | "quarantined" => paint.error(state),
        _ => paint.state(state),
    }
}

/// `4 x RTX 3090`; those of several models one after the other.
fn gpus(machine: &Machine) -> String {
    if let Some(slurm) = machine.pool.as_ref().and_then(|pool| pool.slurm.as_ref()) {
        return slurm::gpus(slurm);
    }
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for gpu in &machine.gpus {
        let model = place::model(gpu);
        match kinds.iter_mut().find(|(known, _)| *known == model) {
            Some((_, count)) => *count += 1,
            None => kinds.push((model, 1)),
        }
    }
    kinds.into_iter().map(|(model, count)| format!("{count} x {model}")).collect::<Vec<_>>().join(" + ")
}

/// Unknown until it was reached.
fn cpus(machine: &Machine) -> String {
    if machine.cpus == 0 { String::new() } else { machine.cpus.to_string() }
}

/// Why it stands so, and what to do.
fn about(pool: &InPool) -> String {
    let told = [pool.detail.as_deref(), pool.hint.as_deref()];
    told.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// `2 GPUs, 16 CPUs`
pub fn there_is(machines: &[Machine]) -> String {
    let of = |machine: &Machine| {
        if let Some(slurm) = machine.pool.as_ref().and_then(|pool| pool.slurm.as_ref()) {
            return format!("{}: {}", machine.name, slurm::in_short(slurm));
        }
        let gpus = text::counted(machine.gpus.len() as u64, "GPU");
        let busy = machine.gpus.iter().filter(|gpu| !gpu.jobs.is_empty()).count();
        let busy = if busy > 0 { format!(" ({busy} with jobs)") } else { String::new() };
        let name = if machines.len() > 1 { format!("{}: ", machine.name) } else { String::new() };
        format!("{name}{gpus}{busy}, {}", text::counted(machine.cpus.into(), "CPU"))
    };
    let all: Vec<String> = machines.iter().map(of).collect();
    if all.is_empty() { "no machine".into() } else { all.join("; ") }
}

/// Those that a job waits for, none of which takes jobs, each with its reason.
pub fn not_ready(why: &Why) -> Vec<String> {
    let Some(Waiting::Machines { .. }) = &why.job.waiting else { return vec![] };
    let told = |machine: &Machine| {
        let pool = machine.pool.as_ref().filter(|pool| pool.state != MachineState::Ready)?;
        let detail = pool.detail.as_ref().map(|detail| format!(": {}", text::first_line(detail))).unwrap_or_default();
        Some(format!("{} {}{detail}", machine.name, pool.state.word()))
    };
    why.machines.iter().filter_map(told).take(MOST_NAMED).collect()
}

/// All that is known of one.
pub fn show(machine: &Machine, now: &Zoned, paint: Paint) -> String {
    let pool = machine.pool.clone().unwrap_or_default();
    let state = coloured(paint, pool.state.word());
    let since = pool.since.as_deref().map(|since| format!(" since {}", time::clock(since, now))).unwrap_or_default();
    let slurm = pool.slurm.as_ref();
    let rows = [
        ("Machine", Some(paint.gpu(&machine.name))),
        ("State", Some(format!("{state}{since}"))),
        ("Why", pool.detail.clone()),
        ("Called again", pool.again_at.as_deref().map(|at| format!("at {}", time::clock(at, now)))),
        ("Try", pool.hint.clone()),
        ("Class", Some(pool.class.clone().unwrap_or_else(|| "none: it is being set up".into()))),
        ("Address", pool.address.clone()),
        ("Host", pool.hostname.clone()),
        ("Folder", pool.home.clone()),
        ("Round trip", pool.round_trip_ms.map(|ms| format!("{ms:.1}ms"))),
        ("CPUs", Some(cpus(machine)).filter(|count| !count.is_empty())),
        ("Memory", pool.ram_mib.map(text::memory)),
        ("GPUs", Some(gpus(machine)).filter(|gpus| !gpus.is_empty()).or_else(|| machine.error.clone())),
        ("Slurm", slurm.map(slurm::about)),
        ("Partitions", slurm.map(slurm::partitions).filter(|lines| !lines.is_empty())),
        ("Submits", slurm.map(slurm::submits)),
        ("Limits", slurm.map(slurm::limits)),
        ("Jobs", Some(pool.jobs.join(" ")).filter(|jobs| !jobs.is_empty())),
        ("Added", pool.added_at.as_deref().map(|at| time::clock(at, now))),
    ];
    let line = |(key, value): (&str, Option<String>)| Some(format!("{:<14}{}\n", format!("{key}:"), value?));
    rows.into_iter().filter_map(line).collect()
}

/// What was added, in one line.
pub fn added(machine: &Machine) -> String {
    let class = machine.pool.as_ref().and_then(|pool| pool.class.clone()).unwrap_or_default();
    let gpus = match (gpus(machine), &machine.error) {
        (gpus, _) if !gpus.is_empty() => gpus,
        (_, Some(error)) => format!("GPUs cannot be read: {error}"),
        _ => "no GPUs".into(),
    };
    format!("{} is in the pool, class {class}: {gpus}, {}", machine.name, text::counted(machine.cpus.into(), "CPU"))
}

/// What was done to it.
pub fn changed(action: MachineAction, machine: &Machine) -> String {
    let pool = machine.pool.clone().unwrap_or_default();
    let name = &machine.name;
    match (action, pool.state) {
        (MachineAction::Mv, _) => format!("{name} is of class {} now", pool.class.unwrap_or_default()),
        (MachineAction::Pause, _) if pool.jobs.is_empty() => format!("{name} paused: nothing new starts there"),
        (MachineAction::Pause, _) => {
            format!("{name} paused: nothing new starts there, {} go on", jobs(pool.jobs.len()))
        }
        (MachineAction::Resume, MachineState::Unreachable) => {
            format!("{name} takes jobs again once it is reached; it is called now")
        }
        _ => format!("{name} takes jobs again"),
    }
}

fn jobs(count: usize) -> String {
    text::counted(count as u64, "job")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    fn machine(name: &str, pool: InPool) -> Machine {
        let gpus = if pool.state == MachineState::Ready { vec![samples::gpu(0), samples::gpu(1)] } else { vec![] };
        Machine { name: name.into(), cpus: 16, gpus, error: None, pool: Some(pool) }
    }

    #[test]
    fn each_says_how_it_stands_and_what_helps() {
        let here = InPool { class: Some("default".into()), jobs: vec!["abc".into()], ..InPool::default() };
        let lost = InPool {
            state: MachineState::Unreachable,
            class: Some("big".into()),
            address: Some("ann@gpu1".into()),
            detail: Some("it does not answer".into()),
            hint: Some("is it on?".into()),
            ..InPool::default()
        };
        let machines = [machine("local", here), machine("gpu1", lost.clone())];
        assert_eq!(
            list(&machines, true, PLAIN),
            "\
MACHINE  STATE        CLASS    GPUS                CPUS  JOBS  ADDRESS
local    ready        default  2 x RTX 3090, 24GB  16    abc
gpu1     unreachable  big                          16          ann@gpu1  it does not answer; is it on?
"
        );
        assert_eq!(
            show(&machine("gpu1", lost), &samples::now(), PLAIN),
            "\
Machine:      gpu1
State:        unreachable
Why:          it does not answer
Try:          is it on?
Class:        big
Address:      ann@gpu1
CPUs:         16
"
        );
    }
}
