//! What of a machine can be had: the machine and each of its GPUs are looked at by one filter each, which says why not
//! where it says no.
//!
//! A machine is open to those whose target it is, while there is a line to it and nobody closed it. One that is held for
//! a driver is held as a whole: all of it is taken, and nothing else is on it.
//!
//! A GPU is held alone or shared, never both. Of a shared one both its parts and its memory are given away, up to all
//! of it: a part of a GPU is promised that part of its memory as well, so that parts and amounts lie side by side.
//! Besides the books there is the reading: who says how much memory it needs must find that much free, beyond what was
//! promised to others and not taken yet; who does not say is kept off GPUs that are nearly full. What others compute
//! keeps off those that want a GPU alone, and, under much load, those that share it.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::ids::{ClassId, JobId};
use crate::machine::{Cluster, Gpu, Machine, Obstacle, Shares, Standing};
use crate::request::{GpuSet, Request, Share, Target, Vram, WHOLE_MILLI};
use crate::run::{HeldShare, Lease};

/// What is left of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free {
    pub machine: Arc<Machine>,
    class: Option<ClassId>,
    closed: Option<Closed>,
    /// So many runs hold something of it.
    runs: u32,
    /// A run has all of it.
    driven: bool,
    pub cpus: u32,
    pub ram_mib: u64,
    /// One for each GPU of the machine, in its order.
    rooms: Vec<Room>,
}

/// What is left of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Room {
    index: u16,
    memory_mib: u64,
    obstacle: Option<Obstacle>,
    paused: bool,
    /// A run has it alone.
    alone: bool,
    /// Given away to runs that share it.
    milli: u16,
    promised_mib: u64,
    sharers: u16,
    /// As read.
    used_mib: u64,
    /// Read as free, without what was promised and is not taken yet.
    free_mib: u64,
    busy: bool,
}

/// Why a machine takes no job now, whatever it has free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closed {
    /// Or on its way out.
    Paused,
    Quarantined,
    Unreachable,
}

impl Closed {
    /// What somebody has to end comes before what may pass.
    pub fn of(standing: &Standing, reachable: bool) -> Option<Closed> {
        match standing {
            Standing { paused: true, .. } | Standing { leaving: true, .. } => Some(Closed::Paused),
            Standing { quarantine: Some(_), .. } => Some(Closed::Quarantined),
            _ => (!reachable).then_some(Closed::Unreachable),
        }
    }
}

/// Why a GPU does not take a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum No {
    LeftOut,
    Mig,
    OtherModel,
    TooSmall,
    Unreadable,
    Outside,
    Held,
    Shared,
    Full,
    LowMemory,
    Busy,
    Paused,
}

impl No {
    /// Whether something of the GPU is left to those who share, though not enough, or not now.
    fn leaves_some(self) -> bool {
        match self {
            No::LeftOut | No::Mig | No::OtherModel | No::TooSmall => false,
            No::Unreadable | No::Outside | No::Held => false,
            No::Shared | No::Full | No::LowMemory | No::Busy | No::Paused => true,
        }
    }
}

/// The GPUs that a request allows on one machine, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCount {
    pub free: u16,
    pub held: u16,
    pub shared: u16,
    pub full: u16,
    pub low_memory: u16,
    pub busy: u16,
    pub outside: u16,
    pub paused: u16,
    pub unreadable: u16,
    /// The most that is left on one that is shared or could be.
    pub most_milli: u16,
    pub most_free_mib: u64,
    /// Take no job however long one waits, and are named instead of counted.
    pub mig: GpuSet,
    pub left_out: GpuSet,
    pub other_model: GpuSet,
    pub too_small: GpuSet,
}

impl GpuCount {
    /// Those that a job may have some day as things are.
    pub fn exist(&self) -> u16 {
        let passing = [self.held, self.shared, self.full, self.low_memory, self.busy, self.outside, self.paused];
        self.free + self.unreadable + passing.iter().sum::<u16>()
    }

    fn add(&mut self, no: No, index: u16) {
        let counted = match no {
            No::LeftOut => return self.left_out.insert(index),
            No::Mig => return self.mig.insert(index),
            No::OtherModel => return self.other_model.insert(index),
            No::TooSmall => return self.too_small.insert(index),
            No::Unreadable => &mut self.unreadable,
            No::Outside => &mut self.outside,
            No::Held => &mut self.held,
            No::Shared => &mut self.shared,
            No::Full => &mut self.full,
            No::LowMemory => &mut self.low_memory,
            No::Busy => &mut self.busy,
            No::Paused => &mut self.paused,
        };
        *counted += 1;
    }
}

impl Free {
    /// The machine as it is while no run holds anything.
    pub fn of(machine: Arc<Machine>, standing: Standing, paused: GpuSet) -> Free {
        let room = |gpu: &Gpu| Room {
            index: gpu.index,
            memory_mib: gpu.memory_mib,
            obstacle: gpu.obstacle,
            paused: paused.contains(gpu.index),
            alone: false,
            milli: 0,
            promised_mib: 0,
            sharers: 0,
            used_mib: gpu.memory_mib.saturating_sub(gpu.free_mib),
            free_mib: gpu.free_mib.min(gpu.memory_mib),
            busy: gpu.busy,
        };
        let rooms = machine.gpus.iter().map(room).collect();
        let (class, closed) = (standing.class, Closed::of(&standing, machine.reachable));
        let (cpus, ram_mib) = (machine.cpus, machine.ram_mib);
        Free { machine, class, closed, runs: 0, driven: false, cpus, ram_mib, rooms }
    }

    /// The machine if all that may pass had passed: open, no lease, no use outside, no pause, all readable.
    pub fn whole(&self) -> Free {
        let open = Standing { class: self.class, ..Standing::default() };
        let mut free = Free { closed: None, ..Free::of(self.machine.clone(), open, GpuSet::EMPTY) };
        for room in &mut free.rooms {
            room.obstacle = room.obstacle.filter(|obstacle| matches!(obstacle, Obstacle::Mig | Obstacle::LeftOut));
            (room.used_mib, room.free_mib, room.busy) = (0, room.memory_mib, false);
        }
        free
    }

    /// The machine once all runs have ended and others have left its GPUs. What no waiting ends stays: pauses, GPUs that cannot
    /// be read, a closed machine.
    pub fn without_users(&self) -> Free {
        let mut free = Free { closed: self.closed, ..self.whole() };
        for (room, now) in free.rooms.iter_mut().zip(&self.rooms) {
            let lasting = |obstacle: &Obstacle| !matches!(obstacle, Obstacle::InUse | Obstacle::Locked);
            (room.paused, room.obstacle) = (now.paused, now.obstacle.filter(lasting));
        }
        free
    }

    /// The machine with its faults repaired: reached, in no quarantine, all GPUs readable. Runs, other users and pauses stay.
    pub fn repaired(&self) -> Free {
        let mut free = self.clone();
        free.closed = free.closed.filter(|closed| *closed == Closed::Paused);
        for room in &mut free.rooms {
            room.obstacle = room.obstacle.filter(|obstacle| *obstacle != Obstacle::Unreadable);
        }
        free
    }

    /// Why the machine takes no job, if it takes none.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// GPUs that cannot be read, and GPUs that are paused.
    pub fn barred(&self) -> (GpuSet, GpuSet) {
        let of =
            |is_barred: fn(&Room) -> bool| self.rooms.iter().filter(move |room| is_barred(room)).map(|room| room.index);
        (of(|room| room.obstacle == Some(Obstacle::Unreadable)).collect(), of(|room| room.paused).collect())
    }

    /// A run takes its lease. `job`: whose memory may have been read already.
    pub fn take(&mut self, lease: &Lease, job: JobId) {
        if self.is_cluster() {
            self.runs += 1;
            return;
        }
        let gpus = lease.gpus_on(&self.machine);
        for (room, gpu) in self.rooms.iter_mut().zip(&self.machine.gpus).filter(|(room, _)| gpus.contains(room.index)) {
            match lease.share {
                None => room.alone = true,
                Some(share) => room.take(share, gpu.used_by(job)),
            }
        }
        self.runs += u32::from(!lease.is_empty());
        self.driven |= lease.driver;
        let (cpus, ram_mib) = self.held_by(lease);
        self.cpus = self.cpus.saturating_sub(cpus);
        self.ram_mib = self.ram_mib.saturating_sub(ram_mib);
    }

    /// What it will be when a run that holds this lease has ended.
    pub fn give(&mut self, lease: &Lease, job: JobId) {
        if self.is_cluster() {
            self.runs = self.runs.saturating_sub(1);
            return;
        }
        let gpus = lease.gpus_on(&self.machine);
        for (room, gpu) in self.rooms.iter_mut().zip(&self.machine.gpus).filter(|(room, _)| gpus.contains(room.index)) {
            room.give(lease.share, gpu.used_by(job));
        }
        self.runs = self.runs.saturating_sub(u32::from(!lease.is_empty()));
        self.driven &= !lease.driver;
        let (cpus, ram_mib) = self.held_by(lease);
        self.cpus = self.cpus.saturating_add(cpus).min(self.machine.cpus);
        self.ram_mib = self.ram_mib.saturating_add(ram_mib).min(self.machine.ram_mib);
    }

    /// CPUs and memory that a lease holds here: all of them where it holds machines as a whole.
    fn held_by(&self, lease: &Lease) -> (u32, u64) {
        match lease.beside.is_empty() && !lease.driver {
            true => (lease.cpus, lease.ram_mib.into()),
            false => (self.machine.cpus, self.machine.ram_mib),
        }
    }

    /// No more than both have left.
    pub fn least(&self, other: &Free) -> Free {
        let room = |(one, other): (&Room, &Room)| Room {
            obstacle: one.obstacle.or(other.obstacle),
            paused: one.paused || other.paused,
            alone: one.alone || other.alone,
            milli: one.milli.max(other.milli),
            promised_mib: one.promised_mib.max(other.promised_mib),
            sharers: one.sharers.max(other.sharers),
            used_mib: one.used_mib.max(other.used_mib),
            free_mib: one.free_mib.min(other.free_mib),
            busy: one.busy || other.busy,
            ..*one
        };
        Free {
            machine: self.machine.clone(),
            class: self.class,
            closed: self.closed.or(other.closed),
            runs: self.runs.max(other.runs),
            driven: self.driven || other.driven,
            cpus: self.cpus.min(other.cpus),
            ram_mib: self.ram_mib.min(other.ram_mib),
            rooms: self.rooms.iter().zip(&other.rooms).map(room).collect(),
        }
    }

    /// Whether the machine is among those that a target allows.
    pub fn is_meant_by(&self, target: Target) -> bool {
        target.allows(self.machine.id, self.class)
    }

    /// Whether the machine takes the request at all: it is meant, nobody closed it, there is a line to it, and no other
    /// has all of it.
    pub fn takes(&self, request: &Request) -> bool {
        self.is_meant_by(request.target) && self.closed.is_none() && !self.driven
    }

    /// Nobody else gets anything of the machine.
    pub fn close_all(&mut self) {
        self.driven = true;
    }

    /// Nobody else gets anything of these GPUs.
    pub fn close(&mut self, gpus: GpuSet) {
        for room in self.rooms.iter_mut().filter(|room| gpus.contains(room.index)) {
            room.alone = true;
        }
    }

    /// GPUs that a run of ours has a hold on and the request could have otherwise, the least loaded first.
    pub fn nearly_open(&self, request: &Request) -> Vec<u16> {
        let passing = |no| matches!(no, No::Shared | No::Full | No::LowMemory);
        let mut near: Vec<&Room> = self
            .allowed(request)
            .filter(|(room, gpu)| self.no(room, gpu, request).is_some_and(passing))
            .map(|(room, _)| room)
            .collect();
        near.sort_by_key(|room| (room.load(), room.index));
        near.into_iter().map(|room| room.index).collect()
    }

    /// Whether another scheduler places what it is given.
    pub fn is_cluster(&self) -> bool {
        self.machine.cluster.is_some()
    }

    /// Runs that it has, and takes at most; none of a machine of its own.
    pub fn cluster_runs(&self) -> Option<(u32, u32)> {
        self.machine.cluster.as_ref().map(|cluster| (self.runs, cluster.most_runs))
    }

    /// Whether a node of the cluster could have it. Numbers of GPUs, and machines held as a whole, mean nothing there.
    fn fits_cluster(&self, cluster: &Cluster, request: &Request) -> bool {
        let gpus = request.gpus == 0 || cluster.most_gpus(request.model) >= request.gpus;
        let rest = self.cpus >= request.cpus && self.ram_mib >= request.ram_mib.into();
        gpus && rest && !request.driver && request.on.is_none()
    }

    /// GPUs that it has room for the request on, not fewer than that needs.
    pub fn room(&self, request: &Request) -> Option<GpuSet> {
        if let Some(cluster) = &self.machine.cluster {
            let takes = self.takes(request) && self.runs < cluster.most_runs && self.fits_cluster(cluster, request);
            return takes.then(|| (0..request.gpus).collect());
        }
        let enough = self.cpus >= request.cpus && self.ram_mib >= request.ram_mib.into();
        let takes = enough && self.takes(request) && (!request.driver || self.runs == 0);
        let gpus = if takes { self.open_to(request) } else { return None };
        (gpus.len() >= usize::from(request.gpus)).then_some(gpus)
    }

    /// What is to be looked for here on behalf of the request. A driver that finds enough for itself needs what others
    /// hold as well.
    pub fn need(&self, request: &Request) -> Request {
        let enough = self.cpus >= request.cpus && self.ram_mib >= request.ram_mib.into();
        if !request.driver || !enough || self.open_to(request).len() < usize::from(request.gpus) {
            return *request;
        }
        let all = Request { share: None, on: None, model: None, force: true, ..*request };
        let held = self.rooms.iter().filter(|room| room.alone || room.sharers > 0).count();
        Request {
            gpus: (self.open_to(&all).len() + held) as u16,
            cpus: self.machine.cpus,
            ram_mib: u32::try_from(self.machine.ram_mib).unwrap_or(u32::MAX),
            ..all
        }
    }

    /// Whether the machine is meant and has so many GPUs, free or not.
    pub fn has_as_many(&self, request: &Request) -> bool {
        !self.is_cluster() && self.is_meant_by(request.target) && self.rooms.len() >= usize::from(request.gpus)
    }

    /// Whether all of the machine can be had.
    pub fn is_all_open(&self, request: &Request) -> bool {
        let nothing_held = self.cpus == self.machine.cpus && self.ram_mib == self.machine.ram_mib;
        !self.is_cluster() && nothing_held && self.takes(request) && self.open_to(request).len() == self.rooms.len()
    }

    /// Thousandths of each GPU that can be had, now or once jobs of ours have ended: nothing of one that takes none.
    pub fn left_milli(&self) -> Vec<u16> {
        if self.closed.is_some() || self.driven {
            return vec![0; self.rooms.len()];
        }
        let left = |room: &Room| match room.alone || room.paused || room.obstacle.is_some() {
            true => 0,
            false => {
                let of_memory = (room.left_mib() * u64::from(WHOLE_MILLI)).checked_div(room.memory_mib);
                let of_memory = of_memory.map_or(WHOLE_MILLI, |milli| milli.min(WHOLE_MILLI.into()) as u16);
                of_memory.min(WHOLE_MILLI.saturating_sub(room.milli))
            }
        };
        self.rooms.iter().map(left).collect()
    }

    fn allowed(&self, request: &Request) -> impl Iterator<Item = (&Room, &Gpu)> {
        let on = request.on;
        self.rooms.iter().zip(&self.machine.gpus).filter(move |(room, _)| on.is_none_or(|on| on.contains(room.index)))
    }

    /// GPUs that the request may have now; the request's memory is known.
    pub fn open_to(&self, request: &Request) -> GpuSet {
        let open = self.allowed(request).filter(|(room, gpu)| self.no(room, gpu, request).is_none());
        open.map(|(room, _)| room.index).collect()
    }

    /// What there is for the request, had or not.
    pub fn count(&self, request: &Request) -> GpuCount {
        let mut count = GpuCount::default();
        if let Some(cluster) = self.machine.cluster.as_ref().filter(|_| request.on.is_none()) {
            count.free = cluster.most_gpus(request.model);
        }
        for (room, gpu) in self.allowed(request) {
            let no = self.no(room, gpu, request);
            match no {
                None => count.free += 1,
                Some(no) => count.add(no, room.index),
            }
            if no.is_none_or(No::leaves_some) {
                count.most_milli = count.most_milli.max(WHOLE_MILLI.saturating_sub(room.milli));
                count.most_free_mib = count.most_free_mib.max(room.free_mib.min(room.left_mib()));
            }
        }
        count
    }

    /// The memory that each of as many GPUs as the request needs has at least, of those it may have.
    pub fn most_memory(&self, request: &Request) -> u64 {
        let whole = Request { share: None, ..*request };
        let open = self.open_to(&whole);
        let gpus = self.rooms.iter().filter(|room| open.contains(room.index));
        let mut memory: Vec<u64> = gpus.map(|room| room.memory_mib).collect();
        memory.sort_unstable_by_key(|mib| Reverse(*mib));
        usize::from(request.gpus).checked_sub(1).and_then(|last| memory.get(last).copied()).unwrap_or(0)
    }

    /// The first that is in the way, the most lasting before the passing.
    fn no(&self, room: &Room, gpu: &Gpu, request: &Request) -> Option<No> {
        match room.obstacle {
            Some(Obstacle::LeftOut) => return Some(No::LeftOut),
            Some(Obstacle::Mig) => return Some(No::Mig),
            _ => {}
        }
        if request.model.is_some_and(|model| !model.fits(&gpu.name)) {
            return Some(No::OtherModel);
        }
        match request.share {
            Some(Share { vram: Vram::Mib(mib), .. }) if u64::from(mib) > room.memory_mib => {
                return Some(No::TooSmall);
            }
            _ => {}
        }
        if room.alone {
            return Some(No::Held);
        }
        match room.obstacle {
            Some(Obstacle::Unreadable) => return Some(No::Unreadable),
            Some(Obstacle::Locked) => return Some(No::Outside),
            Some(Obstacle::InUse) if request.share.is_none() => return Some(No::Outside),
            _ => {}
        }
        let no = match request.share {
            None => (room.sharers > 0).then_some(No::Shared),
            Some(share) => self.no_share(room, share),
        };
        no.or((room.paused && !request.force).then_some(No::Paused))
    }

    fn no_share(&self, room: &Room, share: Share) -> Option<No> {
        let limits = self.machine.sharing;
        let wanted = share.of(room.memory_mib);
        if room.milli.saturating_add(share.milli) > WHOLE_MILLI || wanted > room.left_mib() {
            return Some(No::Full);
        }
        let low = match share.vram {
            Vram::Mib(_) => wanted > room.free_mib,
            // Who does not say how much memory it needs is kept off GPUs that have little left.
            Vram::Unsaid | Vram::Learned(_) => {
                room.used_mib * 100 > room.memory_mib * u64::from(limits.mem_threshold_percent)
            }
        };
        match low {
            true => Some(No::LowMemory),
            false => room.busy.then_some(No::Busy),
        }
    }

    /// The best of the GPUs in `open` for the request, as many as it needs; all there are for a driver. `pack`: keep
    /// whole GPUs free.
    pub fn choose(&self, request: &Request, open: GpuSet, pack: bool) -> GpuSet {
        if request.driver {
            return self.machine.gpu_set();
        }
        if self.is_cluster() {
            return open;
        }
        let rooms = self.rooms.iter().zip(&self.machine.gpus).filter(|(room, _)| open.contains(room.index));
        let mut rooms: Vec<(&Room, &Gpu)> = rooms.collect();
        let rank = |room: &Room| self.machine.rank(room.index);
        match request.share {
            None => rooms.sort_by_key(|(room, gpu)| (rank(room), Reverse(gpu.free_mib), room.index)),
            Some(_) if pack => rooms.sort_by_key(|(room, _)| (rank(room), Reverse(room.load()), room.index)),
            Some(_) => rooms.sort_by_key(|(room, _)| (rank(room), room.load(), room.index)),
        }
        rooms.into_iter().take(request.gpus.into()).map(|(room, _)| room.index).collect()
    }

    /// Whether a share goes where others are already. `whole_waits`: somebody waits for a whole GPU.
    pub fn packs(&self, whole_waits: bool) -> bool {
        match self.machine.sharing.order {
            Shares::Pack => true,
            Shares::Spread => false,
            Shares::Auto => whole_waits,
        }
    }
}

impl Share {
    /// Memory that it is promised of a GPU that has so much.
    fn of(self, memory_mib: u64) -> u64 {
        match self.vram {
            Vram::Mib(mib) => mib.into(),
            Vram::Unsaid | Vram::Learned(_) => memory_mib * u64::from(self.milli) / u64::from(WHOLE_MILLI),
        }
    }
}

impl Room {
    /// `used`: memory that the run was read to have.
    fn take(&mut self, share: HeldShare, used: u32) {
        let promised = share.of(self.memory_mib);
        self.sharers += 1;
        self.milli = self.milli.saturating_add(share.milli);
        self.promised_mib += promised;
        let not_taken = promised.saturating_sub(used.into());
        self.free_mib = self.free_mib.saturating_sub(not_taken);
    }

    /// What it took, and what it was read to have, is free again.
    fn give(&mut self, share: Option<HeldShare>, used: u32) {
        let promised = share.map_or(0, |share| share.of(self.memory_mib));
        match share {
            None => self.alone = false,
            Some(share) => {
                self.sharers = self.sharers.saturating_sub(1);
                self.milli = self.milli.saturating_sub(share.milli);
                self.promised_mib = self.promised_mib.saturating_sub(promised);
            }
        }
        self.used_mib = self.used_mib.saturating_sub(used.into());
        self.free_mib = (self.free_mib + promised.max(used.into())).min(self.memory_mib);
    }

    /// Memory that was not given away.
    fn left_mib(&self) -> u64 {
        self.memory_mib.saturating_sub(self.promised_mib)
    }

    /// In thousandths: of its parts or of its memory, whichever is more in use.
    fn load(&self) -> u64 {
        let used = self.memory_mib.saturating_sub(self.free_mib).max(self.promised_mib);
        u64::from(self.milli).max((used * 1000).checked_div(self.memory_mib).unwrap_or(0))
    }
}

impl HeldShare {
    /// Memory that it is promised of a GPU that has so much.
    pub fn of(self, memory_mib: u64) -> u64 {
        let vram = self.vram_mib.map_or(Vram::Unsaid, Vram::Mib);
        Share { milli: self.milli, vram }.of(memory_mib)
    }
}
