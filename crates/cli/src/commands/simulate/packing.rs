//! `nexus simulate --packing`: how much of the GPUs can be given away before jobs that never end find no room.
//!
//! Pods come one by one and stay; one that finds no room is dropped. What counts is how much of the GPUs lies idle when
//! as much was asked for as there is.

use std::path::PathBuf;

use nexus_core::ids::MachineId;
use nexus_core::machine::{Machine, Shares, Sharing};
use nexus_core::replay;
use nexus_core::request::{MAX_GPUS, Model, Request, Share, Vram, WHOLE_MILLI};

use super::machines::{self, Cpus};
use super::rows::{File, Rows};
use crate::error::{CliError, Usage};
use crate::figures::{Packed, percent};

/// A multiple of 1,000: thousandths of a GPU are whole MiB.
const MEMORY_MIB: u64 = 16_000;

/// Thousandths of all GPUs between which demand counts as full.
const FULL_FROM: u64 = 995;
const FULL_TO: u64 = 1005;

const EXAMPLE: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec";

pub fn run(files: &[PathBuf]) -> Result<Packed, CliError> {
    let (nodes, pods) = (File::read(&files[0])?, File::read(&files[1])?);
    let arrivals = files.get(2).map(|path| File::read(path)).transpose()?;
    let mut machines = nodes_of(&nodes).map_err(CliError::File)?;
    let pods = pods_of(&pods).map_err(CliError::File)?;
    let requests = match &arrivals {
        Some(file) => {
            let order = Order::read(file, machines.len(), pods.len()).map_err(CliError::File)?;
            for (machine, rank) in machines.iter_mut().zip(order.ranks) {
                machine.id = MachineId(rank);
            }
            machines.sort_by_key(|machine| machine.id);
            order.pods.into_iter().map(|number| pods[number]).collect()
        }
        None => pods,
    };
    let fits = replay::pack(&machines, &requests);
    Ok(packed(&machines, &requests, &fits))
}

fn nodes_of(file: &File) -> Result<Vec<Machine>, Usage> {
    let rows = Rows::of(file, "sn,cpu_milli,memory_mib,gpu,model")?;
    let mut machines = machines::openb(rows, Cpus::Thousandths, MEMORY_MIB)?;
    if machines.iter().all(|machine| machine.gpus.is_empty()) {
        return Err(Usage::new(
            format!("{} has no GPUs", file.name),
            "a line for each node, its GPUs in the column gpu",
        ));
    }
    for (number, machine) in machines.iter_mut().enumerate() {
        machine.id = MachineId(number as u32);
        machine.sharing = Sharing { order: Shares::Pack, ..Sharing::default() };
    }
    Ok(machines)
}

fn pods_of(file: &File) -> Result<Vec<Request>, Usage> {
    let mut rows = Rows::of(file, EXAMPLE)?;
    let column = |name: &str| rows.needed(name, EXAMPLE);
    let (cpus, ram) = (column("cpu_milli")?, column("memory_mib")?);
    let (gpus, milli) = (column("num_gpu")?, column("gpu_milli")?);
    let spec = rows.column("gpu_spec");
    let mut pods = Vec::new();
    while rows.next()? {
        let count = rows.whole(gpus, MAX_GPUS.into())? as u16;
        let part = rows.whole(milli, u32::MAX.into())?.min(WHOLE_MILLI.into()) as u16;
        if count == 1 && part == 0 {
            return Err(rows.wrong(milli, "from 1 to 1000, where num_gpu is 1"));
        }
        let shares = count == 1 && part < WHOLE_MILLI;
        pods.push(Request {
            gpus: count,
            share: shares.then_some(Share { milli: part, vram: Vram::Unsaid }),
            cpus: rows.whole(cpus, u32::MAX.into())? as u32,
            ram_mib: rows.whole(ram, u32::MAX.into())? as u32,
            model: spec.map(|column| model(&rows, column)).transpose()?.flatten(),
            ..Request::default()
        });
    }
    match pods.is_empty() {
        true => Err(Usage::new(format!("{} has no pods", file.name), "a line for each pod below the names")),
        false => Ok(pods),
    }
}

/// Allowed models, each once.
fn model(rows: &Rows, column: usize) -> Result<Option<Model>, Usage> {
    let Some(text) = rows.said(Some(column)) else { return Ok(None) };
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('|').map(str::trim).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let wrong = || rows.wrong(column, format!("models with | between them, {} letters in all at most", Model::LONGEST));
    Model::new(&names.join("|")).map(Some).ok_or_else(wrong)
}

/// Which nodes come first, and which pods.
struct Order {
    ranks: Vec<u32>,
    pods: Vec<usize>,
}

impl Order {
    fn read(file: &File, nodes: usize, pods: usize) -> Result<Order, Usage> {
        let mut lines = file.text.lines();
        let ranks = numbers(file, 1, lines.next().unwrap_or_default(), nodes)?;
        if ranks.len() != nodes {
            let error = format!("it ranks {} nodes, and there are {nodes}", ranks.len());
            return Err(file.wrong(1, &error, "the rank of each node, in the order of their file"));
        }
        let mut seen = vec![false; nodes];
        if let Some(rank) = ranks.iter().find(|rank| std::mem::replace(&mut seen[**rank], true)) {
            return Err(file.wrong(1, &format!("two nodes have the rank {rank}"), "each rank once"));
        }
        let pods = numbers(file, 2, lines.next().unwrap_or_default(), pods)?;
        if pods.is_empty() {
            return Err(file.wrong(2, "no pod arrives", "row numbers of pods, from 0 on, in the order of arrival"));
        }
        match lines.position(|line| !line.trim().is_empty()) {
            Some(more) => {
                Err(file.wrong(more + 3, "there is a third line", "ranks in the first line, arrivals in the second"))
            }
            None => Ok(Order { ranks: ranks.into_iter().map(|rank| rank as u32).collect(), pods }),
        }
    }
}

/// Numbers below `end`, blanks between them.
fn numbers(file: &File, line: usize, text: &str, end: usize) -> Result<Vec<usize>, Usage> {
    let number = |word: &str| {
        let wrong = || {
            let error = format!("{} is no row number", super::rows::shown(word));
            file.wrong(line, &error, format!("whole numbers from 0 to {}, blanks between them", end.saturating_sub(1)))
        };
        word.parse::<usize>().ok().filter(|number| *number < end).ok_or_else(wrong)
    };
    text.split_ascii_whitespace().map(number).collect()
}

/// Thousandths of GPUs that it asks for.
fn milli_of(request: &Request) -> u64 {
    let each = request.share.map_or(WHOLE_MILLI, |share| share.milli);
    u64::from(request.gpus) * u64::from(each)
}

fn packed(machines: &[Machine], requests: &[Request], fits: &[bool]) -> Packed {
    let gpus: u64 = machines.iter().map(|machine| machine.gpus.len() as u64).sum();
    let milli = gpus * u64::from(WHOLE_MILLI);
    let (mut demand, mut in_use) = (0u64, 0u64);
    // Sums of what lies idle, over the arrivals at full demand.
    let (mut idle, mut measured) = (0u128, 0u64);
    for (request, fits) in requests.iter().zip(fits) {
        demand += milli_of(request);
        in_use += if *fits { milli_of(request) } else { 0 };
        if (FULL_FROM * milli..=FULL_TO * milli).contains(&(demand * 1000)) {
            idle += u128::from(milli - in_use);
            measured += 1;
        }
    }
    let not_allocated_percent = match measured {
        0 => percent((milli - in_use).into(), milli.into()),
        _ => percent(idle, u128::from(milli) * u128::from(measured)),
    };
    let fitted = fits.iter().filter(|fits| **fits).count();
    Packed {
        machines: machines.len(),
        gpus,
        pods: requests.len(),
        fitted,
        dropped: requests.len() - fitted,
        not_allocated_percent,
        arrivals_at_full_demand: measured,
        demand_percent: percent(demand.into(), milli.into()),
        milli_in_use: in_use,
        milli,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { name: "f".into(), text: text.into() }
    }

    const HEAD: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

    #[test]
    fn pods_ask_for_gpus_or_parts_of_one() {
        let text = format!("{HEAD}a,1000,16,1,460,T4|G2|T4\nb,1000,16,2,1000,\nc,500,16,1,1500,\nd,500,16,0,0,\n");
        let pods = pods_of(&file(&text)).unwrap();
        assert_eq!(pods[0].share, Some(Share { milli: 460, vram: Vram::Unsaid }));
        assert_eq!(pods[0].model, Model::new("T4|G2"));
        assert_eq!((pods[1].gpus, pods[1].share, pods[2].gpus, pods[2].share), (2, None, 1, None));
        assert_eq!((pods[3].gpus, pods[3].cpus, pods[3].ram_mib), (0, 500, 16));
        assert_eq!(pods.iter().map(milli_of).collect::<Vec<_>>(), [460, 2000, 1000, 0]);
        let long: Vec<String> = (0..20).map(|number| format!("model{number}")).collect();
        let error = pods_of(&file(&format!("{HEAD}a,1,1,1,1,{}\n", long.join("|")))).unwrap_err().error;
        assert!(error.starts_with("f, line 2: gpu_spec cannot be model0"), "{error}");
        assert!(pods_of(&file(&format!("{HEAD}a,1,1,1,0,\n"))).is_err());
        assert!(pods_of(&file(HEAD)).unwrap_err().error.contains("has no pods"));
    }

    #[test]
    fn an_order_names_every_node_and_some_pods() {
        let order = Order::read(&file("1 0\n2 0 1 2\n"), 2, 3).unwrap();
        assert_eq!((order.ranks, order.pods), (vec![1, 0], vec![2, 0, 1, 2]));
        for (text, error) in [
            ("", "f, line 1: it ranks 0 nodes, and there are 2"),
            ("0\n0\n", "f, line 1: it ranks 1 nodes, and there are 2"),
            ("0 0\n0\n", "f, line 1: two nodes have the rank 0"),
            ("0 2\n0\n", "f, line 1: 2 is no row number"),
            ("0 1\n", "f, line 2: no pod arrives"),
            ("0 1\n0 -1\n", "f, line 2: -1 is no row number"),
            ("0 1\n3\n", "f, line 2: 3 is no row number"),
            ("0 1\n0\n\n7\n", "f, line 4: there is a third line"),
        ] {
            assert_eq!(
                Order::read(&file(text), 2, 3).err().map(|usage| usage.error).as_deref(),
                Some(error),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_lies_idle_counts_at_full_demand() {
        let machines = nodes_of(&file("sn,cpu_milli,memory_mib,gpu,model\nn,64000,1000,2,T4\n")).unwrap();
        let whole = Request { gpus: 1, ..Request::default() };
        let at = |requests: &[Request], fits: &[bool]| {
            let packed = packed(&machines, requests, fits);
            (packed.not_allocated_percent, packed.arrivals_at_full_demand, packed.milli_in_use)
        };
        assert_eq!(at(&[whole; 3], &[true, false, true]), (50.0, 1, 2000));
        assert_eq!(at(&[whole; 1], &[true]), (50.0, 0, 1000), "at the end, where demand never is full");
        let packed = packed(&machines, &[whole; 3], &[true, false, true]);
        assert_eq!((packed.fitted, packed.dropped, packed.demand_percent, packed.milli), (2, 1, 150.0, 2000));
    }
}
