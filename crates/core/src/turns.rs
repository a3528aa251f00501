//! Whose turn it is on GPUs that the services of several users share. There is no master: each service decides for itself when
//! to hold back, from what the others say they wait for.
//!
//! ```text
//!   a GPU is free, and a job of ours waits
//!     ├── nobody else waits, or nobody who had less GPU time in the last hour ──> ours
//!     └── somebody else is first ──> kept for that user, until
//!           ├── the user takes it
//!           ├── MAX_DEFER_MS have gone by with enough free GPUs ──> ours
//!           └── `gather_ms` have gone by with too few of them ────> ours
//! ```
//! What others say is not believed further than that: time for which GPUs were kept is a debt of that user. The user pays it back
//! by holding a GPU that was free for as long, else at a tenth of the time that goes by. So wishes of a user who never takes a GPU cost
//! the others a tenth of their time at most, and a lock that is held for an instant repays an instant.

use std::collections::BTreeMap;

/// Longest time for which a GPU stays free for another user who could take it.
pub const MAX_DEFER_MS: u64 = 2_000;

/// A debt is paid back at this part of the time that goes by.
const PAY_BACK_PART: u64 = 10;

const MINUTE_MS: u64 = 60_000;
const MINUTES: usize = 60;

/// What a service tells those of other users. Times are of the machine's boot clock, which all its services share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// GPUs that its first waiting job needs; 0 where no job waits for a GPU.
    pub gpus: u16,
    /// GPU time of its runs in the last hour, as of `at_ms`.
    pub used_ms: u64,
    /// GPUs that it holds.
    pub held: u16,
    pub at_ms: u64,
}

impl Wish {
    /// GPU time in the last hour, with what has gone by since the wish was told.
    fn used_at(&self, now_ms: u64) -> u64 {
        self.used_ms.saturating_add(u64::from(self.held).saturating_mul(now_ms.saturating_sub(self.at_ms)))
    }
}

/// GPU time of the last hour, by minutes.
#[derive(Clone, Debug)]
pub struct Usage {
    minutes: [u64; MINUTES],
    counted_until_ms: u64,
}

impl Usage {
    pub fn new(now_ms: u64) -> Usage {
        Usage { minutes: [0; MINUTES], counted_until_ms: now_ms }
    }

    /// Counts the time since the last call, for which `held` GPUs were held.
    pub fn advance(&mut self, held: u16, now_ms: u64) {
        // A machine that slept for days has nothing to count minute by minute.
        let hour = MINUTE_MS * MINUTES as u64;
        if now_ms.saturating_sub(self.counted_until_ms) > 2 * hour {
            *self = Usage::new(now_ms - hour);
        }
        while self.counted_until_ms < now_ms {
            let minute = self.counted_until_ms / MINUTE_MS;
            let until = now_ms.min((minute + 1) * MINUTE_MS);
            self.minutes[minute as usize % MINUTES] += u64::from(held) * (until - self.counted_until_ms);
            self.counted_until_ms = until;
            if until.is_multiple_of(MINUTE_MS) {
                // What was counted an hour ago.
                self.minutes[(minute + 1) as usize % MINUTES] = 0;
            }
        }
    }

    pub fn last_hour_ms(&self) -> u64 {
        self.minutes.iter().sum()
    }
}

/// A GPU is not taken, since it is another user's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferral {
    pub user: u32,
    /// It ends by then, if nothing else happens.
    pub until_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    wish: Wish,
    /// Debt: for so long enough GPUs, and too few of them, were kept for this user.
    kept_ms: u64,
    gathered_ms: u64,
    /// The user holds a GPU that was taken after the last GPU was kept.
    repays: bool,
    /// More than that is not kept for, until half of it is paid back.
    is_spent: bool,
}

/// What a service knows of the others.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    peers: BTreeMap<u32, Peer>,
    /// What was decided last, when, and whether enough GPUs were free.
    last: Option<(Deferral, bool)>,
    counted_until_ms: u64,
}

impl Turns {
    pub fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// Users whose services are known.
    pub fn users(&self) -> impl Iterator<Item = u32> + '_ {
        self.peers.keys().copied()
    }

    /// There is one wish for each user: a later one replaces it. Debts stay. Returns whether the user holds other GPUs than before.
    pub fn hear(&mut self, user: u32, wish: Wish) -> bool {
        let peer = self.peers.entry(user).or_default();
        std::mem::replace(&mut peer.wish, wish).held != wish.held
    }

    /// The user's service is gone. A debt stays for as long as it takes to be paid back.
    pub fn gone(&mut self, user: u32) {
        if let Some(peer) = self.peers.get_mut(&user) {
            peer.wish = Wish::default();
        }
    }

    /// Takes in a reading of the locks: who holds a GPU, and who of them holds one that was free before.
    pub fn read_holders(&mut self, holders: &BTreeMap<u32, bool>, gather_ms: u64, now_ms: u64) {
        self.count(gather_ms, now_ms);
        for (user, peer) in &mut self.peers {
            match holders.get(user) {
                Some(true) => {
                    peer.repays = true;
                    self.last.take_if(|(deferral, _)| deferral.user == *user);
                }
                Some(false) => {}
                None => peer.repays = false,
            }
        }
    }

    /// Whether free GPUs are kept for another user. `own` is what this service tells the others, `free` how many GPUs could be
    /// taken now.
    pub fn defers(&mut self, own_user: u32, own: &Wish, free: u16, gather_ms: u64, now_ms: u64) -> Option<Deferral> {
        self.count(gather_ms, now_ms);
        self.peers.retain(|_, peer| peer.wish != Wish::default() || (peer.kept_ms, peer.gathered_ms) != (0, 0));
        self.last = None;
        if own.gpus == 0 || free == 0 {
            return None;
        }
        let rank = |user: u32, wish: &Wish| (wish.used_at(now_ms), user);
        let own_rank = rank(own_user, own);
        let left = |peer: &Peer| match free >= peer.wish.gpus {
            true => MAX_DEFER_MS.saturating_sub(peer.kept_ms),
            false => gather_ms.saturating_sub(peer.gathered_ms),
        };
        let before = self.peers.iter().filter(|(user, peer)| {
            peer.wish.gpus > 0 && !peer.is_spent && left(peer) > 0 && rank(**user, &peer.wish) < own_rank
        });
        let (user, peer) = before.min_by_key(|(user, peer)| rank(**user, &peer.wish))?;
        let deferral = Deferral { user: *user, until_ms: now_ms + left(peer) };
        self.last = Some((deferral, free >= peer.wish.gpus));
        Some(deferral)
    }

    /// What has gone by since the last decision.
    fn count(&mut self, gather_ms: u64, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.counted_until_ms);
        let paid_back = passed / PAY_BACK_PART;
        // Less than that is counted the next time.
        self.counted_until_ms = self.counted_until_ms.max(now_ms - passed % PAY_BACK_PART);
        let passed = passed - passed % PAY_BACK_PART;
        for (user, peer) in &mut self.peers {
            match self.last {
                Some((deferral, is_enough)) if deferral.user == *user => {
                    peer.repays = false;
                    // No more than what a wish may cost: this service may have been suspended meanwhile.
                    match is_enough {
                        true => peer.kept_ms = (peer.kept_ms + passed).min(MAX_DEFER_MS),
                        false => peer.gathered_ms = (peer.gathered_ms + passed).min(gather_ms),
                    }
                }
                _ => {
                    let paid_back = if peer.repays { passed } else { paid_back };
                    peer.kept_ms = peer.kept_ms.saturating_sub(paid_back);
                    peer.gathered_ms = peer.gathered_ms.saturating_sub(paid_back);
                }
            }
            let is_over = |part: u64| {
                peer.kept_ms >= MAX_DEFER_MS / part || peer.gathered_ms > 0 && peer.gathered_ms >= gather_ms / part
            };
            peer.is_spent = is_over(1) || peer.is_spent && is_over(2);
        }
    }
}
