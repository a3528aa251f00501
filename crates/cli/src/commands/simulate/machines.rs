//! The machines that a workload is replayed on: as `--gpus` says, as a file says, or those of this installation.

use nexus_api::service;
use nexus_api::values;
use nexus_core::ids::MachineId;
use nexus_core::machine::{Gpu, Machine};
use nexus_core::request::MAX_GPUS;

use super::field;
use super::rows::{File, Rows};
use crate::error::Usage;

/// Memory of a GPU of which nothing is said: that of the service's own simulated ones.
const USUAL_MEMORY_MIB: u64 = 24 * 1024;

/// More than all jobs together ask for, and far from where sums end.
const ENDLESS_CPUS: u32 = u32::MAX;
const ENDLESS_RAM_MIB: u64 = 1 << 50;

const MOST_MACHINES: u64 = 100_000;

const EXAMPLE: &str = "name,gpus,vram,model,cpus,ram";

const KNOWN: [&str; 6] = ["name", "gpus", "vram", "model", "cpus", "ram"];

const PHILLY: [&str; 3] = ["num_switch", "num_node_p_switch", "num_gpu_p_node"];

pub const OPENB: [&str; 4] = ["sn", "cpu_milli", "memory_mib", "gpu"];

/// What a CPU counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    Whole,
    Thousandths,
}

fn gpus(count: u16, memory_mib: u64, model: &str) -> Vec<Gpu> {
    let gpu =
        |index| Gpu { index, name: model.into(), memory_mib, free_mib: memory_mib, simulated: true, ..Gpu::default() };
    (0..count).map(gpu).collect()
}

fn numbered(mut machines: Vec<Machine>) -> Vec<Machine> {
    for (number, machine) in machines.iter_mut().enumerate() {
        machine.id = MachineId(number as u32);
    }
    machines
}

/// `8`, `8x24G`, `2x8x24G`
pub fn typed(text: &str) -> Result<Vec<Machine>, Usage> {
    let wrong = || {
        Usage::new(
            format!("--gpus {} is no machine", super::rows::shown(text)),
            "--gpus 8, --gpus 8x24G for their memory, --gpus 2x8x24G for two such machines",
        )
    };
    let (counts, memory_mib) = match text.rsplit_once('x') {
        Some((counts, size)) if !is_number(size) => {
            let mib = values::mebibytes(size).ok().filter(|mib| (1..=u64::from(u32::MAX)).contains(mib));
            (counts, mib.ok_or_else(wrong)?)
        }
        _ => (text, USUAL_MEMORY_MIB),
    };
    let parts: Vec<&str> = counts.split('x').collect();
    if !parts.iter().all(|part| is_number(part)) {
        return Err(wrong());
    }
    let number = |part: &str| part.parse::<u64>().unwrap_or(u64::MAX);
    let (machines, count) = match parts.as_slice() {
        [count] => (1, number(count)),
        [machines, count] => (number(machines), number(count)),
        _ => return Err(wrong()),
    };
    let machines = (1..=MOST_MACHINES).contains(&machines).then_some(machines);
    let count = u16::try_from(count).ok().filter(|count| (1..=MAX_GPUS).contains(count));
    let (Some(machines), Some(count)) = (machines, count) else {
        let most = format!("1 to {MAX_GPUS} GPUs in a machine, 1 to {MOST_MACHINES} machines");
        return Err(Usage::new(format!("--gpus {text} is not possible"), most));
    };
    let machine = |number| Machine {
        name: format!("m{number}"),
        cpus: ENDLESS_CPUS,
        ram_mib: ENDLESS_RAM_MIB,
        gpus: gpus(count, memory_mib, ""),
        ..Machine::default()
    };
    Ok(numbered((1..=machines).map(machine).collect()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Of nexus's own form, of Philly's or of openb's, told apart by the names in the first line.
pub fn read(file: &File, notes: &mut Vec<String>) -> Result<Vec<Machine>, Usage> {
    let rows = Rows::of(file, EXAMPLE)?;
    let machines = if rows.has(&PHILLY) {
        philly(rows)?
    } else if rows.has(&OPENB) {
        openb(rows, Cpus::Whole, USUAL_MEMORY_MIB)?
    } else {
        notes.extend(rows.unused(&KNOWN));
        own(rows)?
    };
    match machines.is_empty() {
        true => Err(Usage::new(format!("{} has no machines", file.name), "a line for each machine below the names")),
        false => Ok(numbered(machines)),
    }
}

fn own(mut rows: Rows) -> Result<Vec<Machine>, Usage> {
    let count = rows.needed("gpus", EXAMPLE)?;
    let [name, vram, model, cpus, ram] = ["name", "vram", "model", "cpus", "ram"].map(|name| rows.column(name));
    let mut machines = Vec::new();
    while rows.next()? {
        let size = |column: Option<usize>| match (column, rows.said(column)) {
            (Some(column), Some(_)) => field::memory(&rows, column),
            _ => Ok(None),
        };
        let cpus = match (cpus, rows.said(cpus)) {
            (Some(column), Some(_)) => rows.whole(column, u32::MAX.into())? as u32,
            _ => ENDLESS_CPUS,
        };
        let count = rows.whole(count, MAX_GPUS.into())? as u16;
        let memory_mib = size(vram)?.map_or(USUAL_MEMORY_MIB, u64::from);
        machines.push(Machine {
            name: rows.said(name).map_or_else(|| format!("m{}", machines.len() + 1), String::from),
            cpus,
            ram_mib: size(ram)?.map_or(ENDLESS_RAM_MIB, u64::from),
            gpus: gpus(count, memory_mib, rows.said(model).unwrap_or_default()),
            ..Machine::default()
        });
        limited(&rows, machines.len() as u64)?;
    }
    Ok(machines)
}

fn philly(mut rows: Rows) -> Result<Vec<Machine>, Usage> {
    let example = "num_switch,num_node_p_switch,num_gpu_p_node";
    let column = |name: &str| rows.needed(name, example);
    let (switches, nodes, count) = (column(PHILLY[0])?, column(PHILLY[1])?, column(PHILLY[2])?);
    let (cpus, memory) = (rows.column("num_cpu_p_node"), rows.column("mem_p_node"));
    let mut machines: Vec<Machine> = Vec::new();
    while rows.next()? {
        let number = |column: Option<usize>| match (column, rows.said(column)) {
            (Some(column), Some(_)) => rows.whole(column, u32::MAX.into()).map(Some),
            _ => Ok(None),
        };
        let nodes = rows.whole(switches, MOST_MACHINES)? * rows.whole(nodes, MOST_MACHINES)?;
        limited(&rows, nodes.saturating_add(machines.len() as u64))?;
        let node = Machine {
            cpus: number(cpus)?.map_or(ENDLESS_CPUS, |cpus| cpus as u32),
            ram_mib: number(memory)?.map_or(ENDLESS_RAM_MIB, |gib| gib * 1024),
            gpus: gpus(rows.whole(count, MAX_GPUS.into())? as u16, USUAL_MEMORY_MIB, ""),
            ..Machine::default()
        };
        let first = machines.len() as u64 + 1;
        machines.extend((first..first + nodes).map(|number| Machine { name: format!("m{number}"), ..node.clone() }));
    }
    Ok(machines)
}

/// In the order of the file.
pub fn openb(mut rows: Rows, count_cpus: Cpus, memory_mib: u64) -> Result<Vec<Machine>, Usage> {
    let column = |name: &str| rows.needed(name, "sn,cpu_milli,memory_mib,gpu,model");
    let (name, cpus, ram, count) = (column("sn")?, column("cpu_milli")?, column("memory_mib")?, column("gpu")?);
    let model = rows.column("model");
    let mut machines = Vec::new();
    while rows.next()? {
        let milli = rows.whole(cpus, u32::MAX.into())? as u32;
        machines.push(Machine {
            name: rows.field(name).to_string(),
            cpus: match count_cpus {
                Cpus::Whole => milli / 1000,
                Cpus::Thousandths => milli,
            },
            ram_mib: rows.whole(ram, u32::MAX.into())?,
            gpus: gpus(rows.whole(count, MAX_GPUS.into())? as u16, memory_mib, rows.said(model).unwrap_or_default()),
            ..Machine::default()
        });
        limited(&rows, machines.len() as u64)?;
    }
    Ok(machines)
}

fn limited(rows: &Rows, machines: u64) -> Result<(), Usage> {
    match machines > MOST_MACHINES {
        true => Err(rows.too_many(MOST_MACHINES, "machines")),
        false => Ok(()),
    }
}

/// Those that a service has, as if nobody used them. GPUs that never take a job are left out.
pub fn installed(machines: &[service::Machine]) -> Vec<Machine> {
    let takes_jobs =
        |gpu: &&service::Gpu| !matches!(gpu.obstacle, Some(service::Obstacle::Mig | service::Obstacle::LeftOut));
    let gpu = |gpu: &service::Gpu| Gpu {
        index: gpu.index,
        name: gpu.name.clone(),
        memory_mib: gpu.memory_mib,
        free_mib: gpu.memory_mib,
        simulated: true,
        ..Gpu::default()
    };
    let machine = |machine: &service::Machine| Machine {
        name: machine.name.clone(),
        cpus: machine.cpus,
        ram_mib: ENDLESS_RAM_MIB,
        gpus: machine.gpus.iter().filter(takes_jobs).map(gpu).collect(),
        ..Machine::default()
    };
    numbered(machines.iter().map(machine).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Machine>, Usage> {
        read(&File { name: "f".into(), text: text.into() }, &mut vec![])
    }

    fn shape(machines: &[Machine]) -> Vec<(u32, usize, u64)> {
        machines.iter().map(|m| (m.id.0, m.gpus.len(), m.gpus.first().map_or(0, |gpu| gpu.memory_mib))).collect()
    }

    #[test]
    fn gpus_are_typed_with_memory_and_machines() {
        for (text, expected) in [
            ("8", vec![(0, 8, 24_576)]),
            ("4x80G", vec![(0, 4, 81_920)]),
            ("2x8x16G", vec![(0, 8, 16_384), (1, 8, 16_384)]),
            ("2x1", vec![(0, 1, 24_576), (1, 1, 24_576)]),
        ] {
            assert_eq!(shape(&typed(text).unwrap()), expected, "{text}");
        }
        for bad in ["", "0", "x", "8x", "x8", "129", "8x24", "8x0G", "-1", "8x24Gx2", "1x2x3x4G", "24G", "8xG", "8,8"] {
            match bad {
                "8x24" => assert_eq!(typed(bad).unwrap().len(), 8, "machines of GPUs, since there is no unit"),
                bad => assert!(typed(bad).is_err(), "{bad}"),
            }
        }
        for huge in ["99999999999999999999", "100001x8", "1x99999999G", "99999999999999999999x1"] {
            assert!(typed(huge).is_err(), "{huge}");
        }
    }

    #[test]
    fn machines_of_a_file_of_our_own() {
        let machines = of("gpus,vram,name,model,cpus,ram\n8,80G,big,A100,64,512G\n2,,,,,\n").unwrap();
        assert_eq!(shape(&machines), [(0, 8, 81_920), (1, 2, 24_576)]);
        let (big, small) = (&machines[0], &machines[1]);
        assert_eq!((big.name.as_str(), big.cpus, big.ram_mib), ("big", 64, 524_288));
        assert_eq!((big.gpus[7].name.as_str(), big.gpus[7].index), ("A100", 7));
        assert_eq!((small.name.as_str(), small.cpus, small.ram_mib), ("m2", ENDLESS_CPUS, ENDLESS_RAM_MIB));
    }

    #[test]
    fn machines_of_other_forms() {
        let text = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,8,8,92,520\n";
        let philly = of(text).unwrap();
        assert_eq!((philly.len(), philly[7].gpus.len(), philly[7].cpus, philly[7].ram_mib), (8, 8, 92, 520 * 1024));
        let openb = of("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n").unwrap();
        assert_eq!((openb[0].cpus, openb[0].ram_mib, openb[0].gpus[1].name.as_str()), (64, 262_144, "P100"));
    }

    #[test]
    fn wrong_machines_are_told() {
        for (text, error) in [
            ("gpus\n", "f has no machines"),
            ("name\nbox\n", "f has no column gpus; it has name"),
            ("gpus\n1\n129\n", "f, line 3: gpus cannot be 129"),
            ("gpus,vram\n1,much\n", "f, line 2: vram cannot be much"),
            (
                "num_switch,num_node_p_switch,num_gpu_p_node\n100000,100000,8\n",
                "f, line 2: there are over 100000 machines",
            ),
        ] {
            assert_eq!(of(text).unwrap_err().error, error, "{text:?}");
        }
    }
}
