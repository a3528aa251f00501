//! Names of machines and classes, and the numbers that decisions know them by.

use std::collections::BTreeMap;

use nexus_api::jobs::JobRequest;
use nexus_core::ids::{ClassId, MachineId};
use nexus_core::request::Target;

/// The class of machines that jobs run on which name none.
pub const DEFAULT_CLASS: &str = "default";

/// All there ever were: a job may name a machine that is gone, and that may come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    machines: BTreeMap<String, MachineId>,
    classes: BTreeMap<String, ClassId>,
}

impl Names {
    pub fn new(
        machines: impl IntoIterator<Item = (MachineId, String)>,
        classes: impl IntoIterator<Item = (ClassId, String)>,
    ) -> Names {
        Names {
            machines: machines.into_iter().map(|(id, name)| (name, id)).collect(),
            classes: classes.into_iter().map(|(id, name)| (name, id)).collect(),
        }
    }

    pub fn machine(&self, name: &str) -> Option<MachineId> {
        self.machines.get(name).copied()
    }

    /// The number that a machine of this name has, or will have.
    pub fn machine_or_next(&self, name: &str) -> MachineId {
        let next = || MachineId(self.machines.values().map(|id| id.0 + 1).max().unwrap_or(1).max(1));
        self.machine(name).unwrap_or_else(next)
    }

    pub fn machine_name(&self, id: MachineId) -> &str {
        name_of(&self.machines, id)
    }

    pub fn class_name(&self, id: ClassId) -> &str {
        name_of(&self.classes, id)
    }

    /// The number of a class, and whether it is new.
    pub fn class_or_next(&self, name: &str) -> (ClassId, bool) {
        match self.classes.get(name) {
            Some(known) => (*known, false),
            None => (ClassId(self.classes.values().map(|id| id.0 + 1).max().unwrap_or(1)), true),
        }
    }

    pub fn add_machine(&mut self, name: &str, id: MachineId) {
        self.machines.insert(name.to_string(), id);
    }

    pub fn add_class(&mut self, name: &str, id: ClassId) {
        self.classes.insert(name.to_string(), id);
    }

    /// Where a job may run. Names were looked at when it was taken: one that is not known means no machine.
    pub fn target(&self, request: &JobRequest) -> Target {
        const NOWHERE: MachineId = MachineId(u32::MAX);
        match (&request.machine, &request.class) {
            (Some(machine), _) => Target::Machine(self.machine(machine).unwrap_or(NOWHERE)),
            (None, Some(class)) if class == DEFAULT_CLASS => Target::Default,
            (None, Some(class)) => Target::Class(self.classes.get(class).copied().unwrap_or(ClassId(u32::MAX))),
            (None, None) => Target::Default,
        }
    }
}

/// Every number that is asked for was given by a name.
fn name_of<T: PartialEq>(names: &BTreeMap<String, T>, id: T) -> &str {
    names.iter().find(|(_, known)| **known == id).map_or("?", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once() {
        let mut names = Names::new([(MachineId::LOCAL, "local".into())], [(ClassId::DEFAULT, "default".into())]);
        assert_eq!(names.machine_or_next("local"), MachineId::LOCAL);
        assert_eq!(names.machine_or_next("box"), MachineId(1));
        names.add_machine("box", MachineId(1));
        assert_eq!((names.machine_or_next("box"), names.machine_or_next("b2")), (MachineId(1), MachineId(2)));
        assert_eq!(
            (names.class_or_next("default"), names.class_or_next("big")),
            ((ClassId(0), false), (ClassId(1), true))
        );
        assert_eq!(names.machine_name(MachineId(1)), "box");
    }

    #[test]
    fn a_machine_says_more_than_a_class() {
        let names = Names::new([(MachineId(3), "box".into())], [(ClassId(2), "big".into())]);
        let target = |machine: Option<&str>, class: Option<&str>| {
            let (machine, class) = (machine.map(String::from), class.map(String::from));
            names.target(&JobRequest { machine, class, ..JobRequest::default() })
        };
        assert_eq!(target(None, None), Target::Default);
        assert_eq!(target(None, Some("default")), Target::Default);
        assert_eq!(target(None, Some("big")), Target::Class(ClassId(2)));
        assert_eq!(target(Some("box"), Some("big")), Target::Machine(MachineId(3)));
    }
}
