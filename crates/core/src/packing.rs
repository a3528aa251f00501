//! What each kind of request costs on each machine, by the score of [`fragment`](crate::fragment), as of the last change
//! there: counted once, and anew where something was taken or given back.

use std::collections::BTreeMap;

use crate::fragment::{GPU, Left, MODELS, Shape, Shapes, coarse};
use crate::free::Free;
use crate::ids::MachineId;
use crate::request::{GpuSet, Request, Vram, WHOLE_MILLI};

/// Kinds of requests whose costs are remembered; beyond it the memory starts anew.
const ROWS: usize = 1024;

/// What is known of machines and requests so far. Whatever it holds, two Worlds are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packing(Option<Box<Known>>);

impl PartialEq for Packing {
    fn eq(&self, _: &Packing) -> bool {
        true
    }
}

impl Eq for Packing {}

#[derive(Clone, Debug)]
struct Known {
    shapes: Shapes,
    /// How many jobs they were counted from; none = they stay.
    counted: Option<u64>,
    models: Vec<String>,
    seats: BTreeMap<MachineId, Seat>,
    /// One cost for each machine, in their order.
    rows: BTreeMap<Request, Vec<Cost>>,
}

/// A machine, and how often it has changed.
#[derive(Clone, Debug)]
struct Seat {
    version: u64,
    left: Left,
}

/// Of a request on a machine as of a version of that; none where there is no room.
#[derive(Clone, Copy, Debug)]
struct Cost {
    version: u64,
    cost: Option<i64>,
}

impl Packing {
    /// The requests that will come, their memory known, and how often each.
    pub fn told(free: &BTreeMap<MachineId, Free>, requests: &BTreeMap<Request, u64>) -> Packing {
        Packing(Some(Box::new(Known::of(free, requests, None))))
    }

    /// The same, as far as the jobs tell that are live.
    pub fn counted(free: &BTreeMap<MachineId, Free>, requests: &BTreeMap<Request, u64>, live: u64) -> Packing {
        Packing(Some(Box::new(Known::of(free, requests, Some(live)))))
    }

    /// Whether so many live jobs are others than those that were counted.
    pub fn is_stale(&self, live: u64) -> bool {
        let is_stale = |counted: u64| live > counted.saturating_mul(2) || live < counted / 2;
        self.0.as_ref().is_none_or(|known| known.counted.is_some_and(is_stale))
    }

    /// Room for a request whose memory is known, where the least is lost.
    pub fn place(&mut self, free: &BTreeMap<MachineId, Free>, request: &Request) -> Option<(MachineId, GpuSet)> {
        self.0.as_mut()?.place(free, request)
    }

    /// Whether somebody said what will come.
    pub fn is_told(&self) -> bool {
        self.0.as_ref().is_some_and(|known| known.counted.is_none())
    }

    /// The machine is gone.
    pub fn removed(&mut self, machine: MachineId) {
        if let Some(known) = &mut self.0
            && known.seats.remove(&machine).is_some()
        {
            // Their costs lie in the order of the machines.
            known.rows.clear();
        }
    }

    /// Something of the machine was taken or given back.
    pub fn changed(&mut self, free: &Free) {
        if let Some(known) = &mut self.0 {
            known.changed(free);
        }
    }
}

impl Known {
    fn of(free: &BTreeMap<MachineId, Free>, requests: &BTreeMap<Request, u64>, counted: Option<u64>) -> Known {
        let machines = || free.values().map(|free| &free.machine);
        let mut models: Vec<String> =
            machines().filter_map(|machine| machine.gpus.first()).map(|gpu| gpu.name.clone()).collect();
        models.sort_unstable();
        models.dedup();
        models.truncate(MODELS);
        let mut known =
            Known { shapes: Shapes::default(), counted, models, seats: BTreeMap::new(), rows: BTreeMap::new() };
        let memory = machines().flat_map(|machine| &machine.gpus).map(|gpu| gpu.memory_mib).max().unwrap_or(0);
        let mut counts: BTreeMap<Shape, u64> = BTreeMap::new();
        for (request, count) in requests {
            *counts.entry(known.shape(request, memory)).or_default() += count;
        }
        known.shapes = Shapes::new(&counts.into_iter().collect::<Vec<_>>());
        free.values().for_each(|free| known.changed(free));
        known
    }

    fn changed(&mut self, free: &Free) {
        // Nothing is packed by us where another scheduler places it.
        if free.is_cluster() {
            return;
        }
        let name = free.machine.gpus.first().map(|gpu| gpu.name.as_str());
        let model = name.map(|name| self.models.binary_search_by(|known| known.as_str().cmp(name)));
        if model.is_some_and(|known| known.is_err()) && self.models.len() < MODELS {
            // A model that appeared since: all are counted anew before the next decision.
            self.counted = self.counted.map(|_| 0);
        }
        let model = model.and_then(Result::ok).unwrap_or(0) as u8;
        let left = Left { cpus: free.cpus, ram_mib: free.ram_mib, model, gpus: free.left_milli() };
        let version = self.seats.get(&free.machine.id).map_or(0, |seat| seat.version) + 1;
        if self.seats.insert(free.machine.id, Seat { version, left }).is_none() {
            self.rows.clear();
        }
    }

    /// `memory`: what a GPU has, to count amounts of it as parts.
    fn shape(&self, request: &Request, memory: u64) -> Shape {
        let milli = milli(request, memory);
        Shape { milli, models: self.models(request), ..Shape::of(request) }
    }

    /// Those that a request allows.
    fn models(&self, request: &Request) -> u64 {
        let fits = |name: &String| request.model.is_none_or(|model| model.fits(name));
        let bits = self.models.iter().enumerate().filter(|(_, name)| fits(name)).map(|(bit, _)| 1u64 << bit);
        bits.fold(0, |models, bit| models | bit)
    }

    fn place(&mut self, all: &BTreeMap<MachineId, Free>, request: &Request) -> Option<(MachineId, GpuSet)> {
        if self.rows.len() >= ROWS && !self.rows.contains_key(request) {
            self.rows.clear();
        }
        let memory = |free: &Free| free.machine.gpus.first().map_or(0, |gpu| gpu.memory_mib);
        let (rent, shape) = (self.rent(), self.shape(request, 0));
        let mut row = self.rows.remove(request).unwrap_or_default();
        row.resize(self.seats.len(), Cost { version: 0, cost: None });
        let mut best: Option<(i64, MachineId)> = None;
        for ((seat, free), known) in self.seats.values().zip(all.values()).zip(&mut row) {
            let here = Shape { milli: milli(request, memory(free)), ..shape };
            if known.version != seat.version {
                let cost = free.room(request).and_then(|open| self.cost(free, seat, (request, &here), open));
                *known = Cost { version: seat.version, cost: cost.map(|(cost, _)| cost) };
            }
            let Some(cost) = known.cost else { continue };
            let cost = coarse(cost + rent[usize::from(seat.left.model)] * here.total());
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, free.machine.id));
            }
        }
        self.rows.insert(*request, row);
        let (_, machine) = best?;
        let (free, seat) = (&all[&machine], &self.seats[&machine]);
        let here = Shape { milli: milli(request, memory(free)), ..shape };
        let (_, gpus) = self.cost(free, seat, (request, &here), free.room(request)?)?;
        Some((machine, gpus))
    }

    /// What more is lost on a machine that has room on these GPUs, and those to take for that.
    fn cost(
        &self,
        free: &Free,
        seat: &Seat,
        (request, shape): (&Request, &Shape),
        open: GpuSet,
    ) -> Option<(i64, GpuSet)> {
        let places = |gpus: GpuSet| -> Vec<usize> {
            let indices = free.machine.gpus.iter().map(|gpu| gpu.index);
            indices.enumerate().filter(|(_, index)| gpus.contains(*index)).map(|(place, _)| place).collect()
        };
        if request.gpus != 1 || request.share.is_none() {
            let gpus = free.choose(request, open, true);
            return Some((self.shapes.cost(&seat.left, shape, &places(gpus)), gpus));
        }
        let mut looked: Vec<u16> = Vec::new();
        let mut best: Option<(i64, u16)> = None;
        for (place, gpu) in free.machine.gpus.iter().enumerate().filter(|(_, gpu)| open.contains(gpu.index)) {
            // GPUs with as much left are the same choice: the first stands for them.
            let milli = seat.left.gpus[place];
            if looked.contains(&milli) {
                continue;
            }
            looked.push(milli);
            let cost = self.shapes.cost(&seat.left, shape, &[place]);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, gpu.index));
            }
        }
        best.map(|(cost, gpu)| (cost, [gpu].into_iter().collect()))
    }

    fn rent(&self) -> [i64; MODELS] {
        let mut free = [0; MODELS];
        for seat in self.seats.values() {
            free[usize::from(seat.left.model)] += seat.left.free();
        }
        self.shapes.rent(&free)
    }
}

impl Shape {
    /// Of any model, and of whole GPUs.
    fn of(request: &Request) -> Shape {
        let (gpus, cpus, ram_mib) = (request.gpus, request.cpus, request.ram_mib.into());
        Shape { gpus, milli: WHOLE_MILLI, cpus, ram_mib, models: u64::MAX }
    }
}

/// Thousandths that it takes of each GPU, of which one has so much memory.
fn milli(request: &Request, memory: u64) -> u16 {
    let Some(share) = request.share else { return WHOLE_MILLI };
    let of_memory = match share.vram {
        Vram::Mib(mib) => (u64::from(mib) * GPU as u64).checked_div(memory).unwrap_or(0),
        Vram::Unsaid | Vram::Learned(_) => 0,
    };
    share.milli.max(u16::try_from(of_memory).unwrap_or(WHOLE_MILLI)).min(WHOLE_MILLI)
}
