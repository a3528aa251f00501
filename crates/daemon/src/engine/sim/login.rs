//! The login node of a pretended cluster: a real [`Keeper`] over a pretended Slurm.

use std::sync::{Arc, Mutex, MutexGuard};

use nexus_node::slurm::{Ask, Keeper};

use super::cluster;
use super::park::Killed;
use super::site::PretendSite;

/// The login node of a cluster: it lives as long as its line.
pub(super) struct Login {
    world: Arc<Mutex<cluster::World>>,
    keeper: Option<Keeper<PretendSite>>,
    pub(super) asked: Vec<Ask>,
}

impl Login {
    pub(super) fn new(world: Arc<Mutex<cluster::World>>) -> Login {
        Login { world, keeper: None, asked: vec![] }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, cluster::World> {
        self.world.lock().expect("nobody panics with it in hand")
    }

    /// A new node, with what the last one left on disk.
    pub(super) fn begins(&mut self) {
        let site = PretendSite(self.world.clone());
        self.asked.clear();
        self.keeper = Some(Keeper::open(site, cluster::SERVICE.into()).expect("a folder that can be read"));
    }

    pub(super) fn dies(&mut self) {
        self.keeper = None;
        self.asked.clear();
    }

    /// Does what is due. False: it died of it.
    pub(super) fn turn(&mut self) -> bool {
        let Some(mut keeper) = self.keeper.take() else { return true };
        let asked = std::mem::take(&mut self.asked);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| keeper.turn(asked))) {
            Ok(()) => {
                self.keeper = Some(keeper);
                true
            }
            Err(unwound) if unwound.is::<Killed>() => false,
            Err(bug) => std::panic::resume_unwind(bug),
        }
    }
}
