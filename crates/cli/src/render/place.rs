//! Where a job is or was: GPUs, simulated ones marked as such.

use nexus_api::jobs::Job;
use nexus_api::service::Gpu;

/// `0-3,5`
pub fn index_list(indices: &[u16]) -> String {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for index in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    texts.join(",")
}

/// `GPU 0`, `GPUs 0-3`
pub fn gpu_words(indices: &[u16]) -> String {
    match indices {
        [one] => format!("GPU {one}"),
        many => format!("GPUs {}", index_list(many)),
    }
}

/// `GPU 0`, `GPUs 0-3 (simulated)`, `GPU 0 of box`, `CPU`; none before it got a place.
pub fn of_job(job: &Job) -> Option<String> {
    if job.request.amount().is_none() {
        return (job.attempt > 0).then(|| format!("CPU{}", of_its_machine(job)));
    }
    if job.gpus.is_empty() {
        return None;
    }
    let mark = if job.simulated { " (simulated)" } else { "" };
    Some(format!("{}{}{mark}", gpu_words(&job.gpus), of_its_machine(job)))
}

/// ` on GPU 0`, or nothing: the form of one-line messages, without the mark of simulated GPUs.
pub fn on_place(job: &Job) -> String {
    match (job.request.amount().count(), job.gpus.as_slice()) {
        (0, _) if job.attempt > 0 => format!(" on the CPU{}", of_its_machine(job)),
        (0, _) | (_, []) => String::new(),
        (_, gpus) => format!(" on {}{}", gpu_words(gpus), of_its_machine(job)),
    }
}

/// ` of box`; of the service's own host it goes without saying.
pub fn of_machine(name: &str) -> String {
    match name {
        "local" => String::new(),
        machine => format!(" of {machine}"),
    }
}

fn of_its_machine(job: &Job) -> String {
    job.machine.as_deref().map(of_machine).unwrap_or_default()
}

/// `RTX 3090, 24GB`
pub fn model(gpu: &Gpu) -> String {
    let name = if gpu.simulated { "simulated".to_string() } else { short_name(&gpu.name) };
    match name.is_empty() {
        true => memory(gpu),
        false => format!("{name}, {}", memory(gpu)),
    }
}

/// Without its maker and family.
pub fn short_name(name: &str) -> String {
    let kept: Vec<&str> = name.split_whitespace().filter(|word| !["NVIDIA", "GeForce"].contains(word)).collect();
    super::text::printable(&kept.join(" "))
}

/// `24GB`
pub fn memory(gpu: &Gpu) -> String {
    format!("{}GB", (gpu.memory_mib + 512) / 1024)
}

#[cfg(test)]
mod tests {
    use nexus_api::amount::GpuAmount;

    use super::*;
    use crate::render::samples;

    #[test]
    fn indices_are_drawn_together() {
        for (indices, text) in
            [(vec![0], "0"), (vec![1, 0], "0,1"), (vec![0, 1, 2, 3, 5], "0-3,5"), (vec![], ""), (vec![7, 2], "2,7")]
        {
            assert_eq!(index_list(&indices), text);
        }
    }

    #[test]
    fn names_lose_their_maker() {
        let mut gpu = samples::gpu(0);
        assert_eq!(model(&gpu), "RTX 3090, 24GB");
        gpu.name = "NVIDIA A100-SXM4-80GB".into();
        gpu.memory_mib = 81559;
        assert_eq!(model(&gpu), "A100-SXM4-80GB, 80GB");
        gpu.simulated = true;
        assert_eq!(model(&gpu), "simulated, 80GB");
    }

    #[test]
    fn simulated_is_always_said() {
        let mut job = samples::running("abc", &[0, 1, 2]);
        assert_eq!(of_job(&job).unwrap(), "GPUs 0-2");
        job.simulated = true;
        assert_eq!(of_job(&job).unwrap(), "GPUs 0-2 (simulated)");
        job.request.gpus = Some(GpuAmount::NONE);
        assert_eq!(on_place(&job), " on the CPU");
    }
}
