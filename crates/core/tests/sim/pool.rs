//! The machines of the story and the lines to them: lines are cut and mended, and the engine hears of it late, but in
//! order. A machine that was removed is out of the story, whatever still runs there.

use std::collections::BTreeMap;

use nexus_core::ids::{MachineId, RunId};
use nexus_core::machine::Machine;
use nexus_core::run::Lease;

use crate::chance::Chance;
use crate::hardware::Hardware;
use crate::node::Node;

/// With so many machines nobody adds another.
const ENOUGH: usize = 4;

pub struct Pool {
    sites: BTreeMap<MachineId, Site>,
    /// Readings that the engine has yet to take in.
    coming: Vec<Machine>,
    /// Of machines that were removed.
    late: Vec<Machine>,
    next: u32,
}

struct Site {
    hardware: Hardware,
    line: bool,
    /// It was cut, and nobody told the engine yet.
    untold: bool,
    /// As it was read last, if this engine was told at all.
    told: Option<Machine>,
}

impl Site {
    fn new(line: bool, chance: &mut Chance) -> Site {
        Site { hardware: Hardware::new(chance), line, untold: false, told: None }
    }

    /// What the engine has to hear before anything else.
    fn tell_of_cut(&mut self) -> Option<Machine> {
        let told = self.told.as_mut().filter(|told| std::mem::take(&mut self.untold) && told.reachable)?;
        told.reachable = false;
        Some(told.clone())
    }
}

impl Pool {
    pub fn new(chance: &mut Chance) -> Pool {
        let own = Site::new(true, chance);
        Pool { sites: BTreeMap::from([(MachineId::LOCAL, own)]), coming: vec![], late: vec![], next: 1 }
    }

    /// Its own host.
    pub fn own(&self) -> &Hardware {
        &self.sites[&MachineId::LOCAL].hardware
    }

    /// A number for another machine, unless there are enough.
    pub fn next(&mut self) -> Option<MachineId> {
        let number = self.next;
        self.next += u32::from(self.sites.len() < ENOUGH);
        (self.sites.len() < ENOUGH).then_some(MachineId(number))
    }

    /// The line to it is yet to be had.
    pub fn add(&mut self, machine: MachineId, node: &mut Node, chance: &mut Chance) {
        let line = chance.one_in(2);
        if !line {
            node.cut(machine, chance);
        }
        self.sites.insert(machine, Site::new(line, chance));
    }

    pub fn remove(&mut self, machine: MachineId) {
        let gone = self.sites.remove(&machine).and_then(|site| site.told);
        self.late.extend(gone.map(|told| Machine { reachable: true, ..told }));
    }

    /// Something happens to a machine.
    pub fn change(&mut self, chance: &mut Chance) -> String {
        let ids: Vec<MachineId> = self.sites.keys().copied().collect();
        let id = chance.pick(&ids);
        let what = self.sites.get_mut(&id).expect("just listed").hardware.change(chance);
        format!("{id:?}: {what}")
    }

    /// A line is cut or mended.
    pub fn change_line(&mut self, node: &mut Node, chance: &mut Chance) -> Option<String> {
        let ids: Vec<MachineId> = self.sites.keys().filter(|id| **id != MachineId::LOCAL).copied().collect();
        let id = if ids.is_empty() { return None } else { chance.pick(&ids) };
        let site = self.sites.get_mut(&id).expect("just listed");
        site.line = !site.line;
        match site.line {
            true => node.mend(id),
            false => node.cut(id, chance),
        }
        site.untold |= !site.line;
        // At once, or later.
        if !site.line && chance.one_in(2) {
            self.coming.extend(site.tell_of_cut());
        }
        Some(format!("the line to {id:?} is {}", if site.line { "mended" } else { "cut" }))
    }

    /// All is well again.
    pub fn mend(&mut self, node: &mut Node) {
        for (id, site) in &mut self.sites {
            site.hardware.mend();
            site.line = true;
            node.mend(*id);
        }
    }

    /// Every machine that can be is read; of a line that was cut since it is told first.
    pub fn read(&mut self, usage: &[(RunId, Lease, u32)]) {
        for (id, site) in &mut self.sites {
            self.coming.extend(site.tell_of_cut());
            if site.line {
                let machine = site.hardware.machine(*id, usage);
                site.told = Some(machine.clone());
                self.coming.push(machine);
            }
        }
    }

    /// Another engine, which knows nothing. Some lines take their time.
    pub fn begin_anew(&mut self, node: &mut Node, chance: &mut Chance) {
        self.coming.clear();
        for (id, site) in &mut self.sites {
            (site.told, site.untold) = (None, false);
            if site.line && *id != MachineId::LOCAL && chance.one_in(3) {
                site.line = false;
                node.cut(*id, chance);
            }
        }
    }

    /// What the engine is told now. Sometimes also of a machine that was removed.
    pub fn readings(&mut self, chance: &mut Chance) -> Vec<Machine> {
        if chance.one_in(4) {
            self.coming.extend(self.late.pop());
        }
        std::mem::take(&mut self.coming)
    }
}
