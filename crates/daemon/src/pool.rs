//! The machines of this service: what each is called, how it is reached, and what was read of it.
//!
//! What was decided about them (class, pause, quarantine) is the World's; what is here is lost with the process and
//! found again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::RwLock;
use std::time::Duration;

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::waiting::Waiting;
use nexus_core::ids::{MachineId, RunId};
use nexus_core::machine::Machine;
use nexus_core::request::GpuSet;
use nexus_core::run::{Lease, Phase, Run};
use nexus_core::time::Time;
use nexus_node::Node;
use nexus_node::line::Hello;
use nexus_node::slurm::{Cluster, Options, Told};

use crate::backend::Backend;
use crate::backend::ssh::trouble::Trouble;
use crate::backend::ssh::{Remote, Step};
use crate::gpus::{self, Gpus};
use crate::launch::Site;
use crate::mirrors::Mirrors;
use crate::names::Names;
use crate::results::{Away, Sources};
use crate::store::JobRow;
use crate::workplace::Workplace;

pub struct Pool {
    pub members: BTreeMap<MachineId, Member>,
    pub names: Names,
}

pub struct Member {
    pub name: String,
    /// As it was given; none for the service's own host.
    pub address: Option<String>,
    pub added_at: Time,
    pub gpus: Gpus,
    /// As decisions see it.
    pub machine: Machine,
    pub backend: Backend,
    pub line: LineState,
    /// None for a machine of its own.
    pub cluster: Option<InCluster>,
    /// How often it was told to look at its GPUs, once it was.
    pub poll: Option<Duration>,
}

/// What is known of a cluster beside what decisions need.
pub struct InCluster {
    pub options: Options,
    /// As it was read last.
    pub known: Option<Box<Cluster>>,
    /// Why it does not answer, though its login node does.
    pub away: Option<(Trouble, Time)>,
    /// Where our runs stand in its queue.
    pub told: BTreeMap<RunId, Told>,
}

/// How a machine is reached at the moment.
pub enum LineState {
    /// It is this one.
    Own,
    /// Called for the first time.
    Calling(Step),
    Up {
        hello: Box<Hello>,
        round_trip: Duration,
        since: Time,
    },
    Down {
        trouble: Trouble,
        since: Time,
        again_at: Time,
        /// It was up before.
        was_up: bool,
    },
}

impl Pool {
    /// The service's own host alone.
    pub fn new(own: Member, names: Names) -> Pool {
        Pool { members: BTreeMap::from([(MachineId::LOCAL, own)]), names }
    }

    /// The service's own host.
    pub fn local(&self) -> &Member {
        &self.members[&MachineId::LOCAL]
    }

    pub fn local_mut(&mut self) -> &mut Member {
        self.members.get_mut(&MachineId::LOCAL).expect("it is always there")
    }

    pub fn member(&self, id: MachineId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// The machine of a name that is in the pool.
    pub fn named(&self, name: &str) -> Result<MachineId, Problem> {
        let here = self.names.machine(name).filter(|id| self.members.contains_key(id));
        here.ok_or_else(|| {
            let known = self.members.values().map(|member| member.name.as_str());
            let near = nexus_api::nearest::nearest(name, known).map(String::from);
            Problem::NoSuchMachine { name: name.to_string(), near }
        })
    }

    /// What a run on a machine depends on there; none while there is no line.
    pub fn site<'a>(&'a self, machine: MachineId, lease: &Lease) -> Option<Site<'a>> {
        let member = self.member(machine)?;
        let remote = match &member.line {
            LineState::Own => None,
            LineState::Up { hello, .. } => Some(&**hello),
            LineState::Calling(_) | LineState::Down { .. } => return None,
        };
        let held = self.member(lease.machine)?;
        let (gpus, address) = (&held.machine.gpus[..], held.address.as_deref());
        Some(Site { name: &member.name, gpus, remote, address, cluster: member.machine.cluster.as_ref() })
    }

    /// Where a run stands that is not ours to place.
    pub fn elsewhere(&self, run: &Run) -> Option<Waiting> {
        let member = self.member(run.lease.runs_on())?;
        let cluster = member.cluster.as_ref()?;
        let told = cluster.told.get(&run.id);
        let away = cluster.away.as_ref().filter(|_| run.phase == Phase::Starting);
        let (state, reason, meaning) = match (away, told) {
            (Some((trouble, _)), _) => ("UNCLEAR".into(), trouble.why.clone(), None),
            (None, None) => (String::new(), String::new(), None),
            (None, Some(told)) => (told.state.clone(), told.reason.clone(), told.meaning()),
        };
        Some(Waiting::Slurm {
            machine: member.name.clone(),
            job: told.and_then(|told| told.job.clone()),
            state,
            reason,
            meaning: meaning.map(String::from),
            start: told.and_then(|told| told.start.clone()),
            nodes: told.map(|told| told.nodes.clone()).unwrap_or_default(),
        })
    }

    /// GPUs that do not exist, by machine.
    pub fn simulated(&self) -> BTreeMap<MachineId, GpuSet> {
        let of =
            |member: &Member| member.machine.gpus.iter().filter(|gpu| gpu.simulated).map(|gpu| gpu.index).collect();
        self.members.iter().map(|(id, member)| (*id, of(member))).collect()
    }

    /// Whether there is more than the service's own host.
    pub fn is_more_than_one(&self) -> bool {
        self.members.len() > 1
    }
}

impl Member {
    /// The service's own host.
    pub fn own(node: Node, gpus: Gpus) -> Member {
        Member {
            name: "local".into(),
            address: None,
            added_at: Time(0),
            gpus,
            machine: gpus::unread(),
            backend: Backend::Local(node),
            line: LineState::Own,
            cluster: None,
            poll: None,
        }
    }

    /// Whether anything was read of it: no machine is without a CPU.
    pub fn is_known(&self) -> bool {
        self.machine.cpus > 0
    }

    /// What it says of itself, while there is a line.
    pub fn hello(&self) -> Option<&Hello> {
        match &self.line {
            LineState::Up { hello, .. } => Some(hello),
            LineState::Own | LineState::Calling(_) | LineState::Down { .. } => None,
        }
    }

    /// Where runs there have their directories; none for the service's own host, or while there is no line.
    pub fn logs(&self) -> Option<PathBuf> {
        self.hello().map(|hello| hello.logs.clone())
    }
}

impl LineState {
    /// On the way to a machine. One that was reached before stays unreachable until it is again.
    pub fn step(&mut self, step: Step) {
        if let LineState::Calling(now) = self {
            *now = step;
        }
    }

    /// Whether something that is said reaches the machine now.
    pub fn is_up(&self) -> bool {
        matches!(self, LineState::Own | LineState::Up { .. })
    }

    /// Whether it was reached since the service began.
    pub fn was_up(&self) -> bool {
        match self {
            LineState::Own | LineState::Up { .. } => true,
            LineState::Calling(_) => false,
            LineState::Down { was_up, .. } => *was_up,
        }
    }

    pub fn down_since(&self) -> Option<Time> {
        match self {
            LineState::Down { since, .. } => Some(*since),
            LineState::Own | LineState::Calling(_) | LineState::Up { .. } => None,
        }
    }

    /// Whether this trouble was not told already.
    pub fn is_news(&self, trouble: &Trouble) -> bool {
        !matches!(self, LineState::Down { trouble: before, .. } if before.why == trouble.why)
    }
}

/// Lines by the names of machines, for those who read over them beside the engine.
pub struct Lines {
    /// What came over them of logs.
    pub mirrors: Mirrors,
    lines: RwLock<BTreeMap<MachineId, (String, Remote)>>,
}

impl Lines {
    pub fn new(mirrors: Mirrors) -> Lines {
        Lines { mirrors, lines: RwLock::default() }
    }

    pub fn add(&self, id: MachineId, name: &str, remote: Remote) {
        self.lines.write().expect("nobody panics with it in hand").insert(id, (name.to_string(), remote));
    }

    pub fn remove(&self, id: MachineId) {
        self.lines.write().expect("nobody panics with it in hand").remove(&id);
    }

    /// Of all machines but the service's own host.
    pub fn names(&self) -> Vec<String> {
        let lines = self.lines.read().expect("nobody panics with it in hand");
        lines.values().map(|(name, _)| name.clone()).collect()
    }

    pub fn named(&self, name: &str) -> Option<Remote> {
        let lines = self.lines.read().expect("nobody panics with it in hand");
        lines.values().find(|(known, _)| known == name).map(|(_, remote)| remote.clone())
    }
}

impl Lines {
    /// What a job left and where: `own` is the folder for results of the service's host. An error in words where it
    /// cannot be had.
    pub fn left_by(&self, row: &JobRow, home: &Home) -> Result<(Sources, Option<Away>), String> {
        let machine = row.machine.as_deref().filter(|name| *name != "local" && !row.spec.request.driver);
        let (workplace, results, from) = match machine {
            None => (Workplace::here(home), home.results(), None),
            Some(machine) => {
                let remote = self.named(machine).ok_or_else(|| format!("{machine} is not in the pool any more"))?;
                let hello = remote.hello();
                let hello = hello.ok_or_else(|| format!("{machine} was not reached since the service began"))?;
                (Workplace::there(&hello), hello.results.clone(), Some(Away(remote)))
            }
        };
        let sources = Sources {
            cwd: workplace.folder(&row.spec),
            named: row.left.found.results.clone(),
            left_out: row.left.found.results_left_out,
            own: results.join(&row.id),
        };
        Ok((sources, from))
    }
}
