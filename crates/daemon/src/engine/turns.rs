//! Turns between the services of several users on this machine: what this one wishes for, and for whom it keeps a free GPU.
//! Whose turn it is decides `nexus_core::turns`; what others wish for comes from `nexus_node::gpu::peers`.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use nexus_core::decide::first_need;
use nexus_core::ids::MachineId;
use nexus_core::machine::Gpu;
use nexus_core::run::Phase;
use nexus_core::turns::{Deferral, MAX_DEFER_MS, Turns, Usage, Wish};
use nexus_core::world::World;
use nexus_node::gpu::locks::Locks;
use nexus_node::gpu::peers::{PeerNews, Peers};
use nexus_node::gpu::{GpuState, Reading};
use nexus_node::users;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Engine, Message, Turn, Watch};
use crate::pool::Member;
use crate::service_log::Line;

/// Others work out by themselves how GPU time grows; they are told what it is this often.
const TELL_AGAIN_MS: u64 = 1_000;

/// Shortest time between two looks at the GPUs that messages of other users cause.
const LOOK_INTERVAL_MS: u64 = 20;

/// Longest wait for the reading that shows which GPU a user took.
const READ_MS: u64 = 100;

/// More GPU time in an hour than any machine has: a peer that says so adds up to no overflow.
const MAX_USED_MS: u64 = 1 << 40;

/// What services say to each other, as one line of JSON. Fields of later releases are passed over.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    gpus: u16,
    used_ms: u64,
    held: u16,
    at_ms: u64,
}

/// This service among those of other users.
pub(super) struct TurnKeeper {
    /// None where no thread could be had, or no socket: then nobody is waited for, and locks alone decide.
    peers: Option<Peers>,
    turns: Turns,
    usage: Usage,
    /// GPUs that runs held at the last count.
    held: u16,
    told: Wish,
    deferral: Option<Deferral>,
    /// Free GPUs take no run of ours.
    is_kept: bool,
    /// A user took a GPU that was kept, and the locks were not read since: a start would find one of them held.
    unread_until_ms: Option<u64>,
    /// Who held which GPU at the last reading, by UUID.
    holders: BTreeMap<String, u32>,
    /// When a message last caused a look at the GPUs.
    looked_at_ms: u64,
}

impl TurnKeeper {
    pub fn start(engine: Sender<Message>) -> TurnKeeper {
        // The engine is gone: the service is going down.
        let sink = move |news| drop(engine.send(Message::Peer(news)));
        TurnKeeper {
            peers: Peers::start(Locks::of_environment(), Box::new(sink)).ok(),
            turns: Turns::default(),
            usage: Usage::new(boot_ms()),
            held: 0,
            told: Wish::default(),
            deferral: None,
            is_kept: false,
            unread_until_ms: None,
            holders: BTreeMap::new(),
            looked_at_ms: 0,
        }
    }

    /// Who holds a GPU, and who has taken one since the last reading.
    fn read(&mut self, reading: &Reading, gather_ms: u64) {
        let (mut holders, mut users) = (BTreeMap::new(), BTreeMap::new());
        for gpu in &reading.gpus {
            let GpuState::Read(vitals) = &gpu.state else { continue };
            let Some(holder) = &vitals.lock else { continue };
            let pid = holder.pid.unwrap_or(0);
            if let Some(name) = &holder.user
                && let Some(user) = self.turns.users().find(|user| users::name_of(*user) == *name)
            {
                *users.entry(user).or_default() |= self.holders.get(&gpu.uuid) != Some(&pid);
            }
            holders.insert(gpu.uuid.clone(), pid);
        }
        self.turns.read_holders(&users, gather_ms, boot_ms());
        self.holders = holders;
        self.unread_until_ms = None;
    }

    fn kept_until_ms(&self) -> Option<u64> {
        self.unread_until_ms.or(self.deferral.map(|deferral| deferral.until_ms))
    }

    fn tell(&mut self, wish: Wish) {
        let is_news = (wish.gpus, wish.held) != (self.told.gpus, self.told.held);
        let is_old = wish.at_ms.saturating_sub(self.told.at_ms) >= TELL_AGAIN_MS;
        let Some(peers) = &self.peers else { return };
        if is_news || is_old && (wish.gpus > 0 || wish.held > 0) {
            let Wish { gpus, used_ms, held, at_ms } = wish;
            let line = serde_json::to_string(&Told { gpus, used_ms, held, at_ms }).expect("numbers");
            peers.say(line, gpus > 0);
            self.told = wish;
        }
    }
}

impl Engine {
    /// What a peer said, or that it is gone.
    pub(super) fn hear_peer(&mut self, news: PeerNews) {
        let Some(watched) = &mut self.watched else { return };
        let turns = &mut watched.turns.turns;
        match news {
            PeerNews::Gone { user } => turns.gone(user),
            PeerNews::Heard { user, message } => {
                // A stranger may say anything.
                let Ok(told) = serde_json::from_str::<Told>(&message) else { return };
                // A wish for more GPUs than there are can never be met, so that GPUs are not gathered for it.
                let gpus = Some(told.gpus).filter(|gpus| usize::from(*gpus) <= self.pool.local().machine.gpus.len());
                let wish = Wish {
                    gpus: gpus.unwrap_or(0),
                    used_ms: told.used_ms.min(MAX_USED_MS),
                    held: told.held,
                    at_ms: told.at_ms.min(boot_ms()),
                };
                if turns.hear(user, wish) && self.world.pending() > 0 {
                    // The user took a GPU or let go of one. A look that is left out costs at most a lost race for the lock.
                    let (keeper, now) = (&mut watched.turns, boot_ms());
                    if now.saturating_sub(keeper.looked_at_ms) >= LOOK_INTERVAL_MS {
                        keeper.looked_at_ms = now;
                        watched.watcher.look_now();
                    }
                    if keeper.deferral.take_if(|deferral| deferral.user == user).is_some() {
                        keeper.unread_until_ms = Some(boot_ms() + READ_MS);
                    }
                }
            }
        }
    }

    pub(super) fn peers_read(&mut self, reading: &Reading) {
        if let Some(watched) = &mut self.watched {
            watched.turns.read(reading, self.specs.config.gpus.gather.as_millis() as u64);
        }
    }

    /// Before a decision: tells others what this service waits for, and keeps free GPUs for a user whose turn it is.
    pub(super) fn take_turns(&mut self, turn: &mut Turn, watch: &mut Watch) {
        let Some(watched) = &mut self.watched else { return };
        let keeper = &mut watched.turns;
        let now = boot_ms();
        let (mut held, mut starting) = (0, 0);
        for run in self.world.active_runs().filter(|run| run.lease.machine == MachineId::LOCAL) {
            match run.phase {
                Phase::Starting => starting += run.lease.gpus.len() as u16,
                Phase::Running { .. } => held += run.lease.gpus.len() as u16,
            }
        }
        keeper.usage.advance(keeper.held, now);
        keeper.held = held;
        let needs = first_need(&self.world, MachineId::LOCAL);
        // What starts has not got its locks yet.
        let gpus = if needs > 0 { needs } else { starting };
        let wish = Wish { gpus, used_ms: keeper.usage.last_hour_ms(), held, at_ms: now };
        keeper.tell(wish);
        let was_kept = keeper.is_kept;
        keeper.unread_until_ms = keeper.unread_until_ms.filter(|until| *until > now);
        keeper.deferral = None;
        if !keeper.turns.is_alone() {
            let own = Wish { gpus: needs, ..wish };
            let gather_ms = self.specs.config.gpus.gather.as_millis() as u64;
            let free = free_gpus(&self.world, self.pool.local());
            keeper.deferral = keeper.turns.defers(geteuid().as_raw(), &own, free, gather_ms, now);
        }
        keeper.is_kept = keeper.deferral.is_some() || needs > 0 && keeper.unread_until_ms.is_some();
        if was_kept == keeper.is_kept {
            return;
        }
        let is_kept = keeper.is_kept;
        if let Some(deferral) = keeper.deferral.filter(|deferral| deferral.until_ms - now > MAX_DEFER_MS) {
            let (user, seconds) = (users::name_of(deferral.user), (deferral.until_ms - now) / 1000);
            let text = format!("Free GPUs are kept for the nexus of {user}, whose turn it is, for up to {seconds}s");
            turn.lines.push(Line::from(text));
        }
        self.pool.local_mut().gpus.keep_for_another(is_kept);
        self.look_at_gpus(MachineId::LOCAL, turn, watch);
    }

    /// For how long GPUs are kept for another user, at most.
    pub(super) fn turn_left(&self) -> Option<Duration> {
        let until_ms = self.watched.as_ref()?.turns.kept_until_ms()?;
        // A thread that wakes a moment too early would look in vain.
        Some(Duration::from_millis(until_ms.saturating_sub(boot_ms()) + 1))
    }

    pub(super) fn is_turn_over(&self) -> bool {
        self.watched.as_ref().and_then(|watched| watched.turns.kept_until_ms()).is_some_and(|until| until <= boot_ms())
    }
}

/// GPUs of this machine that a run could have now, those that are kept for another user with them.
fn free_gpus(world: &World, local: &Member) -> u16 {
    let ours = world.active_runs().filter(|run| run.lease.machine == MachineId::LOCAL);
    let taken = ours.fold(world.paused_gpus(MachineId::LOCAL), |taken, run| taken.union(run.lease.gpus));
    let is_free = |gpu: &&Gpu| {
        let is_obstructed = gpu.obstacle.is_some() && !local.gpus.is_kept(gpu.index);
        !is_obstructed && !taken.contains(gpu.index)
    };
    local.machine.gpus.iter().filter(is_free).count() as u16
}

/// Milliseconds since the machine was started, the same for all its services.
fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
