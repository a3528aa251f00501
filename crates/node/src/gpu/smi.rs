//! Reads GPUs by `nvidia-smi`, where NVIDIA's library cannot be loaded or has to be initialised anew.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::locks::{Locks, Look};
use super::owners::{self, Listed};
use super::{GpuSeen, GpuState, Vitals};
use crate::deadline;

pub const PROGRAM: &str = "nvidia-smi";

/// Names stand last: they may hold commas.
const FIELDS: &str = "index,uuid,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,driver_version";
const MIG: &str = "mig.mode.current";
const NAME: &str = "name";
const PROCESS_FIELDS: &str = "gpu_uuid,pid,used_memory";
const FORMAT: &str = "--format=csv,noheader,nounits";

/// Text of the program that goes into an error.
const LONGEST_COMPLAINT: usize = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiRead {
    pub gpus: Vec<GpuSeen>,
    pub driver: Option<String>,
    /// What it complained of although it had something to say.
    pub complaint: Option<String>,
}

/// One line about a GPU, as far as it can be understood.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    gpu: GpuSeen,
    driver: Option<String>,
}

/// The program that was named, or the one in `PATH`.
pub fn find(named: Option<&Path>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if let Some(named) = named {
        return Some(named.to_owned()).filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(is_program)
}

pub fn read(program: &Path, limit: Duration, locks: &Locks) -> Result<SmiRead, String> {
    let query = |with_mig: bool| {
        let fields = if with_mig { [FIELDS, MIG, NAME].join(",") } else { [FIELDS, NAME].join(",") };
        deadline::run(program, &[&format!("--query-gpu={fields}"), FORMAT], limit)
            .map_err(|error| format!("{} {error}", program.display()))
    };
    let mut with_mig = true;
    let mut ended = query(with_mig)?;
    if !ended.status.success() && complaint(&ended).is_some_and(|text| text.contains("not a valid field")) {
        with_mig = false;
        ended = query(with_mig)?;
    }
    let rows = parse(&ended.stdout, with_mig);
    let said = complaint(&ended);
    if rows.is_empty() && !says_no_devices(&ended.stdout) && !says_no_devices(&ended.stderr) {
        let ended = ended.status;
        return Err(format!("{} failed ({ended}): {}", program.display(), said.unwrap_or_else(|| "no output".into())));
    }
    let driver = rows.iter().find_map(|row| row.driver.clone());
    let mut gpus: Vec<GpuSeen> = rows.into_iter().map(|row| row.gpu).collect();
    if !gpus.is_empty() {
        add_processes(&mut gpus, program, limit)?;
    }
    for gpu in &mut gpus {
        if let GpuState::Read(vitals) = &mut gpu.state {
            let Look { holder, error } = locks.look(&gpu.uuid);
            (vitals.lock, vitals.lock_error) = (holder, error.map(|error| error.to_string()));
        }
    }
    Ok(SmiRead { gpus, driver, complaint: said.filter(|_| !ended.status.success()) })
}

fn add_processes(gpus: &mut [GpuSeen], program: &Path, limit: Duration) -> Result<(), String> {
    let fields = format!("--query-compute-apps={PROCESS_FIELDS}");
    let ended =
        deadline::run(program, &[&fields, FORMAT], limit).map_err(|error| format!("{} {error}", program.display()))?;
    // A list that is missing would let a GPU in use look free.
    if !ended.status.success() && ended.stdout.trim().is_empty() {
        let said = complaint(&ended).unwrap_or_else(|| "no output".into());
        return Err(format!("{} cannot list processes ({}): {said}", program.display(), ended.status));
    }
    let mut listed = parse_processes(&ended.stdout);
    for gpu in gpus {
        if let GpuState::Read(vitals) = &mut gpu.state {
            vitals.processes = owners::describe(listed.remove(&gpu.uuid).unwrap_or_default());
        }
    }
    Ok(())
}

/// The first lines of what it printed, as one.
fn complaint(ended: &deadline::Ended) -> Option<String> {
    let text = if ended.stderr.trim().is_empty() { &ended.stdout } else { &ended.stderr };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| text.chars().take(LONGEST_COMPLAINT).collect())
}

fn says_no_devices(text: &str) -> bool {
    text.to_ascii_lowercase().contains("no devices were found")
}

fn parse(text: &str, with_mig: bool) -> Vec<Row> {
    let lines = text.lines().filter(|line| line.contains(", "));
    lines.enumerate().filter_map(|(place, line)| parse_row(place, line, with_mig)).collect()
}

fn parse_row(place: usize, line: &str, with_mig: bool) -> Option<Row> {
    let count = if with_mig { 10 } else { 9 };
    let fields: Vec<&str> = line.splitn(count, ',').map(str::trim).collect();
    let [index, uuid, total, used, load, temperature, power, driver, rest @ ..] = fields.as_slice() else {
        return None;
    };
    let (mig, name) = match rest {
        [name] => ("", *name),
        [mig, name] => (*mig, *name),
        _ => return None,
    };
    // They are listed in the order of their numbers, so one whose number cannot be read has that of its place.
    let index = index.parse().ok().or_else(|| u16::try_from(place).ok())?;
    let known = |text: &str| if Value::of(text) == Value::Says { text.to_owned() } else { String::new() };
    let state = match failure(&[uuid, total, used, load, temperature, power, mig]) {
        Some(error) => GpuState::Unreadable { error },
        None if mig == "Enabled" => GpuState::Mig,
        None => GpuState::Read(Vitals {
            used_mib: number(used).map_or(0, |mib| mib as u64),
            load_percent: number(load).map(|percent| percent.min(100.0) as u8),
            temperature_c: number(temperature).map(|degrees| degrees as u16),
            power_w: number(power).map(|watts| watts.ceil() as u32),
            ..Vitals::default()
        }),
    };
    let memory_mib = number(total).map_or(0, |mib| mib as u64);
    let gpu = GpuSeen { index, uuid: known(uuid), name: known(name), memory_mib, state };
    Some(Row { gpu, driver: Some(known(driver)).filter(|driver| !driver.is_empty()) })
}

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Says,
    NotSupported,
    Fails,
}

impl Value {
    fn of(field: &str) -> Value {
        let word = field.trim_matches(['[', ']']).to_ascii_lowercase();
        match word.as_str() {
            "n/a" | "not supported" | "not found" | "insufficient permissions" | "" => Value::NotSupported,
            "err!" | "gpu is lost" | "unknown error" | "gpu requires reset" => Value::Fails,
            _ if field.starts_with('[') => Value::Fails,
            _ => Value::Says,
        }
    }
}

/// Why a GPU with these fields cannot be used: one that fell off the bus, or essential fields that failed.
fn failure(fields: &[&str; 7]) -> Option<String> {
    let [uuid, total, used, ..] = fields;
    let lost = |field: &&&str| Value::of(field) == Value::Fails && (field.contains("lost") || field.contains("reset"));
    let failed = fields.iter().find(lost);
    let failed = failed.or_else(|| [uuid, total, used].into_iter().find(|field| Value::of(field) == Value::Fails));
    failed.map(|field| format!("{PROGRAM} says: {}", field.trim_matches(['[', ']'])))
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// By the GPU's UUID.
fn parse_processes(text: &str) -> HashMap<String, Vec<Listed>> {
    let mut found: HashMap<String, Vec<Listed>> = HashMap::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let (Some(uuid), Some(pid), Some(memory)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Ok(pid) = pid.parse() else { continue };
        let memory_mib = number(memory).map(|mib| mib as u64);
        found.entry(uuid.to_owned()).or_default().push(Listed { pid, memory_mib, graphics: false });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> GpuSeen {
        parse(line, true).pop().expect("a GPU").gpu
    }

    fn vitals(line: &str) -> Vitals {
        match row(line).state {
            GpuState::Read(vitals) => vitals,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_a_gpu() {
        let line = "1, GPU-1f, 81559, 642, 37, 41, 112.33, 580.65.06, Disabled, NVIDIA H100, 80GB, odd";
        let gpu = row(line);
        assert_eq!((gpu.index, gpu.uuid.as_str(), gpu.memory_mib), (1, "GPU-1f", 81559));
        assert_eq!(gpu.name, "NVIDIA H100, 80GB, odd");
        let read = vitals(line);
        assert_eq!(
            (read.used_mib, read.load_percent, read.temperature_c, read.power_w),
            (642, Some(37), Some(41), Some(113))
        );
        assert_eq!(parse(line, true)[0].driver.as_deref(), Some("580.65.06"));
        let old = parse("0, GPU-1f, 11019, 5, 0, 30, 20.00, 418.87, GeForce RTX 2080 Ti", false).pop().unwrap();
        assert_eq!((old.gpu.name.as_str(), old.gpu.memory_mib), ("GeForce RTX 2080 Ti", 11019));
    }

    #[test]
    fn what_a_gpu_cannot_say_is_not_its_fault() {
        for nothing in ["[N/A]", "[Not Supported]", "N/A"] {
            let line = format!("0, GPU-1f, 8192, 1, {nothing}, {nothing}, {nothing}, 470.1, {nothing}, GTX 1070");
            let read = vitals(&line);
            assert_eq!((read.load_percent, read.temperature_c, read.power_w), (None, None, None), "{nothing}");
            let unified = format!("0, GPU-1f, {nothing}, {nothing}, 1, 2, 3, 580.1, {nothing}, NVIDIA GB10");
            assert_eq!((row(&unified).memory_mib, vitals(&unified).used_mib), (0, 0));
        }
        // A fan or a sensor that fails leaves the GPU usable.
        assert_eq!(vitals("0, GPU-1f, 8192, 1, ERR!, ERR!, ERR!, 470.1, [N/A], GTX 1070").load_percent, None);
    }

    #[test]
    fn a_gpu_that_fails_is_unreadable_and_says_why() {
        for (line, why) in [
            ("0, GPU-1f, 8192, [GPU is lost], [GPU is lost], 5, 6, 470.1, [N/A], GTX 1070", "GPU is lost"),
            ("0, GPU-1f, 8192, 12, [GPU is lost], 5, 6, 470.1, [N/A], GTX 1070", "GPU is lost"),
            ("0, GPU-1f, ERR!, ERR!, 3, 5, 6, 470.1, [N/A], GTX 1070", "ERR!"),
            ("0, GPU-1f, [Unknown Error], 3, 3, 5, 6, 470.1, [N/A], GTX 1070", "Unknown Error"),
            ("0, GPU-1f, 8192, 3, 3, 5, [GPU requires reset], 470.1, [N/A], GTX 1070", "GPU requires reset"),
        ] {
            assert_eq!(row(line).state, GpuState::Unreadable { error: format!("nvidia-smi says: {why}") }, "{line}");
        }
        let lost = "[GPU is lost], ".repeat(9) + "[GPU is lost]";
        let rows = parse(&format!("0, GPU-1f, 8192, 1, 1, 2, 3, 470.1, [N/A], GTX 1070\n{lost}"), true);
        assert_eq!((rows[1].gpu.index, rows[1].gpu.uuid.as_str()), (1, ""), "it has the number of its place");
    }

    #[test]
    fn mig_is_told_and_noise_is_passed_over() {
        assert_eq!(row("0, GPU-1f, 81559, [N/A], [N/A], 3, 4, 580.1, Enabled, NVIDIA H100").state, GpuState::Mig);
        assert!(parse("No devices were found\n", true).is_empty() && says_no_devices("No devices were found\n"));
        assert!(parse("Unable to determine the device handle, sorry\n\n", true).is_empty());
    }

    #[test]
    fn processes_are_told_by_gpu() {
        let found = parse_processes("GPU-1f, 4312, 642\nGPU-1f, 77, [N/A]\nGPU-2f, x, 1\nNo running processes found\n");
        let one = |pid, memory_mib| Listed { pid, memory_mib, graphics: false };
        assert_eq!(found["GPU-1f"], [one(4312, Some(642)), one(77, None)]);
        assert_eq!(found.len(), 1);
    }
}
