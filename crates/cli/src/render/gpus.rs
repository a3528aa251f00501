//! GPUs: one line each, what is in the way of jobs, what came of a pause.

use nexus_api::amount::GpuAmount;
use nexus_api::service::{Gpu, GpuProcess, GpuShare, Machine, Obstacle};

use super::paint::Paint;
use super::{place, slurm, text};

/// Percentages from which a value is medium, and high.
pub const LOAD_STEPS: (u64, u64) = (10, 75);
pub const MEMORY_STEPS: (u64, u64) = (10, 80);

/// `[0] RTX 3090 | 71°C,  97 % | 20012 / 24576 MB | abc ann:python/4312(19800M)`
pub fn gpus(machines: &[Machine], paint: Paint) -> String {
    let mut shown = String::new();
    for machine in machines {
        if machines.len() > 1 {
            shown.push_str(&format!("{}:\n", machine.name));
        }
        if machine.gpus.is_empty() {
            shown.push_str(&format!("{}\n", none(machine, paint)));
        }
        let widths = Widths::of(&machine.gpus);
        for gpu in &machine.gpus {
            shown.push_str(&line(gpu, &widths, paint));
        }
    }
    shown
}

/// What is said where there is no GPU to show.
fn none(machine: &Machine, paint: Paint) -> String {
    if let Some(slurm) = machine.pool.as_ref().and_then(|pool| pool.slurm.as_ref()) {
        return slurm::in_short(slurm);
    }
    match &machine.error {
        Some(error) => paint.error(&format!("GPUs cannot be read: {}", text::first_line(error))),
        None => "no GPUs found".into(),
    }
}

struct Widths {
    index: usize,
    name: usize,
    used: usize,
    memory: usize,
}

impl Widths {
    fn of(gpus: &[Gpu]) -> Widths {
        let widest = |width: &dyn Fn(&Gpu) -> usize| gpus.iter().map(width).max().unwrap_or(0);
        Widths {
            index: widest(&|gpu| gpu.index.to_string().len()),
            name: widest(&|gpu| name(gpu).chars().count()),
            used: widest(&|gpu| or_unknown(gpu.used_mib).len()),
            memory: widest(&|gpu| gpu.memory_mib.to_string().len()),
        }
    }
}

fn line(gpu: &Gpu, widths: &Widths, paint: Paint) -> String {
    let head = format!("[{:>index$}] {:name$}", gpu.index, name(gpu), index = widths.index, name = widths.name);
    let temperature = format!("{:>3}°C", or_unknown(gpu.temperature_c));
    let load = format!("{:>3} %", or_unknown(gpu.load_percent));
    let used = format!("{:>width$}", or_unknown(gpu.used_mib), width = widths.used);
    let share = gpu.used_mib.filter(|_| gpu.memory_mib > 0).map(|used| used * 100 / gpu.memory_mib);
    let memory = format!("{:>width$} MB", gpu.memory_mib, width = widths.memory);
    let line = format!(
        "{} | {}, {} | {} / {memory} | {}",
        paint.gpu(&head),
        paint.time(&temperature),
        by_height(gpu.load_percent.map(u64::from), LOAD_STEPS, &load, paint),
        by_height(share, MEMORY_STEPS, &used, paint),
        on_it(gpu, paint)
    );
    format!("{}\n", line.trim_end())
}

fn name(gpu: &Gpu) -> String {
    if gpu.simulated { "simulated".into() } else { place::short_name(&gpu.name) }
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or("?".into(), |value| value.to_string())
}

/// Green when low, yellow in between, red when high.
fn by_height(percent: Option<u64>, (medium, high): (u64, u64), shown: &str, paint: Paint) -> String {
    match percent {
        None => paint.plain(shown),
        Some(percent) if percent >= high => paint.error(shown),
        Some(percent) if percent >= medium => paint.state(shown),
        Some(_) => paint.good(shown),
    }
}

/// Its jobs, its processes, and what else there is to say.
fn on_it(gpu: &Gpu, paint: Paint) -> String {
    let job = |id: &String| {
        let share = share(gpu, id).map(|share| format!("({share})")).unwrap_or_default();
        format!("{}{share}", paint.id(id))
    };
    let mut parts: Vec<String> = gpu.jobs.iter().map(job).collect();
    parts.extend(gpu.processes.iter().map(process));
    if gpu.paused {
        parts.push(paint.state("paused"));
    }
    match &gpu.obstacle {
        // The processes stand there already.
        None | Some(Obstacle::InUse { .. }) => {}
        Some(_) => parts.extend(obstacle(gpu, paint)),
    }
    if gpu.lock_error.is_some() {
        parts.push(paint.error("(not locked: nexus doctor)"));
    }
    parts.join(" ")
}

/// `alice:python/4312(642M)`
fn process(process: &GpuProcess) -> String {
    let user = process.user.as_ref().map(|user| format!("{user}:")).unwrap_or_default();
    let name = process.name.as_deref().unwrap_or("?");
    let memory = process.memory_mib.map(|memory| format!("({memory}M)")).unwrap_or_default();
    text::printable(&format!("{user}{name}/{}{memory}", process.pid))
}

/// What a job holds of it where it shares it: `0.5`, `8G`, `0.5, 8G`.
pub fn share(gpu: &Gpu, job: &str) -> Option<String> {
    let share = gpu.shares.iter().find(|share| share.job == job)?;
    let parts = [share.part.map(|part| part.to_string()), share.vram_mib.map(text::memory)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// What can be given away of one that is shared: `0.25, 6G`. A part takes its part of the memory.
pub fn left(gpu: &Gpu) -> Option<String> {
    if gpu.shares.is_empty() {
        return None;
    }
    let milli = |share: &GpuShare| u64::from(share.part.and_then(GpuAmount::milli).unwrap_or(0));
    let memory = |share: &GpuShare| share.vram_mib.unwrap_or(gpu.memory_mib * milli(share) / 1000);
    let free = gpu.memory_mib.saturating_sub(gpu.shares.iter().map(memory).sum());
    let by_memory = (free * 1000).checked_div(gpu.memory_mib).unwrap_or(0);
    let left = 1000u64.saturating_sub(gpu.shares.iter().map(milli).sum()).min(by_memory);
    let part = match left {
        1000.. => GpuAmount::ONE,
        left => GpuAmount::part(left as u16).unwrap_or(GpuAmount::NONE),
    };
    Some(format!("{part}, {}", text::memory(free)))
}

/// What keeps jobs off it, in one phrase.
pub fn obstacle(gpu: &Gpu, paint: Paint) -> Option<String> {
    Some(match gpu.obstacle.as_ref()? {
        Obstacle::InUse { .. } | Obstacle::Locked { .. } => {
            let who = text::printable(&gpu.used_by().unwrap_or_default());
            paint.state(&format!("in use outside nexus ({who})"))
        }
        Obstacle::Unreadable { error } => {
            paint.error(&format!("cannot be read: {}; takes no job", text::first_line(error)))
        }
        Obstacle::Mig => paint.state("in MIG mode: takes no job"),
        Obstacle::LeftOut => paint.state("left out by gpus.use: takes no job"),
    })
}

/// `97%, 19.5 of 24GB`; none where nothing was read.
pub fn load(gpu: &Gpu) -> Option<String> {
    let load = gpu.load_percent.map(|load| format!("{load}%"));
    let used = gpu.used_mib.map(|used| format!("{:.1} of {}", used as f64 / 1024.0, place::memory(gpu)));
    let parts: Vec<String> = load.into_iter().chain(used).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `GPUs 0,2 paused: nothing new starts there; abc on GPU 0 runs on`
pub fn paused(gpus: &[Gpu], machine: &str) -> String {
    let on = |gpu: &Gpu| gpu.jobs.iter().map(|id| format!("{id} on GPU {}", gpu.index)).collect::<Vec<_>>();
    let running: Vec<String> = gpus.iter().flat_map(on).collect();
    let rest = match running.len() {
        0 => String::new(),
        1 => format!("; {} runs on", running[0]),
        _ => format!("; {} run on", running.join(", ")),
    };
    format!("{} paused: nothing new starts there{rest}", which(gpus, machine))
}

pub fn resumed(gpus: &[Gpu], machine: &str) -> String {
    format!("{} resumed", which(gpus, machine))
}

fn which(gpus: &[Gpu], machine: &str) -> String {
    let indices: Vec<u16> = gpus.iter().map(|gpu| gpu.index).collect();
    let of_machine = if machine == "local" { String::new() } else { format!(" of {machine}") };
    format!("{}{of_machine}", place::gpu_words(&indices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn one_line_a_gpu() {
        let mut busy = samples::read_gpu(0);
        busy.jobs = vec!["abc".into()];
        busy.processes = vec![samples::process(4312, Some("abc"))];
        let mut foreign = samples::foreign_gpu(1);
        foreign.paused = true;
        let mut locked = samples::gpu(10);
        (locked.used_mib, locked.load_percent) = (Some(0), Some(0));
        locked.obstacle = Some(Obstacle::Locked { user: Some("bob".into()), pid: None });
        let mut made_up = samples::gpu(2);
        made_up.simulated = true;
        let machine = samples::machine(vec![busy, foreign, locked, made_up]);
        assert_eq!(
            gpus(&[machine], PLAIN),
            "\
[ 0] RTX 3090  |  71°C,  97 % | 20012 / 24268 MB | abc alice:python/4312(642M)
[ 1] RTX 3090  |  34°C,   0 % |   700 / 24268 MB | alice:python/4312(642M) paused
[10] RTX 3090  |   ?°C,   0 % |     0 / 24268 MB | in use outside nexus (nexus of bob)
[ 2] simulated |   ?°C,   ? % |     ? / 24268 MB |
"
        );
        assert_eq!(gpus(&[samples::machine(vec![])], PLAIN), "no GPUs found\n");
        let error = Some("the driver hangs".into());
        let silent = Machine { error, ..samples::machine(vec![]) };
        assert_eq!(gpus(&[silent], PLAIN), "GPUs cannot be read: the driver hangs\n");
    }

    #[test]
    fn thresholds_have_their_colours() {
        let colour = |used_mib, load| {
            let mut gpu = samples::gpu(0);
            (gpu.memory_mib, gpu.used_mib, gpu.load_percent) = (1000, Some(used_mib), Some(load));
            let text = line(&gpu, &Widths::of(&[gpu.clone()]), Paint { on: true });
            let code =
                |before: &str| text[..text.find(before).unwrap()].rsplit("\x1b[").next().unwrap()[..2].to_string();
            (code(&format!("{load:>3} %")), code(&format!("{used_mib}\x1b")))
        };
        let (green, yellow, red) = ("32".to_string(), "33".to_string(), "31".to_string());
        assert_eq!(colour(99, 9), (green.clone(), green));
        assert_eq!(colour(100, 10), (yellow.clone(), yellow.clone()));
        assert_eq!(colour(799, 74), (yellow.clone(), yellow));
        assert_eq!(colour(800, 75), (red.clone(), red));
    }

    #[test]
    fn what_came_of_a_pause() {
        let mut busy = samples::gpu(0);
        busy.jobs = vec!["abc".into()];
        assert_eq!(paused(&[samples::gpu(1)], "local"), "GPU 1 paused: nothing new starts there");
        assert_eq!(
            paused(&[busy.clone(), samples::gpu(1)], "local"),
            "GPUs 0,1 paused: nothing new starts there; abc on GPU 0 runs on"
        );
        assert_eq!(resumed(&[busy], "box"), "GPU 0 of box resumed");
    }

    #[test]
    fn programs_cannot_move_the_cursor() {
        let mut gpu = samples::foreign_gpu(0);
        gpu.processes[0].name = Some("a\x1b[2J".into());
        let machine = samples::machine(vec![gpu.clone()]);
        assert!(!gpus(&[machine], PLAIN).contains('\x1b'));
        assert!(!obstacle(&gpu, PLAIN).unwrap().contains('\x1b'));
    }
}
