//! How runs are started, watched and ended: here, or on a machine over ssh. What comes of it is reported.

pub mod ssh;

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;
use nexus_node::line::ToNode;
use nexus_node::{Node, RunPlace, RunTerms};

use ssh::Remote;

/// The part of nexus that runs jobs on one machine.
pub enum Backend {
    /// In this process.
    Local(Node),
    /// The same behind a line. Without one nothing is asked: what runs there is observed once the line is back.
    Ssh(Remote),
    #[cfg(test)]
    Simulated(Box<dyn Simulated>),
}

/// A machine of a simulation.
#[cfg(test)]
pub trait Simulated: Send {
    fn start(&self, runs: Vec<RunSpec>);
    fn observe(&self, runs: Vec<RunPlace>);
    fn know_terms(&self, runs: Vec<RunTerms>);
    fn stop(&self, runs: Vec<RunPlace>);
    fn tidy(&self, runs: Vec<RunPlace>);
}

impl Backend {
    /// See [`Node::withdraw`].
    pub fn withdraw(&self) {
        match self {
            Backend::Local(node) => node.withdraw(),
            Backend::Ssh(_) => {}
            #[cfg(test)]
            Backend::Simulated(_) => {}
        }
    }

    /// See [`Node::announce`].
    pub fn announce(&self, spec: &mut RunSpec) {
        match self {
            Backend::Local(node) => node.announce(spec),
            // The way there is longer than what it would save.
            Backend::Ssh(_) => {}
            #[cfg(test)]
            Backend::Simulated(_) => {}
        }
    }

    /// `settled`: see [`Node::start`]. On other machines runs are settled once their logs are here.
    pub fn start(&self, runs: Vec<RunSpec>, settled: Vec<RunId>) {
        match self {
            Backend::Local(node) => node.start(runs, settled),
            Backend::Ssh(remote) => remote.send(&ToNode::Start { runs }),
            #[cfg(test)]
            Backend::Simulated(machine) => machine.start(runs),
        }
    }

    pub fn observe(&self, runs: Vec<RunPlace>) {
        match self {
            Backend::Local(node) => node.observe(runs),
            Backend::Ssh(remote) => remote.send(&ToNode::Observe { runs }),
            #[cfg(test)]
            Backend::Simulated(machine) => machine.observe(runs),
        }
    }

    /// See [`Node::know_terms`].
    pub fn know_terms(&self, runs: Vec<RunTerms>) {
        match self {
            Backend::Local(node) => node.know_terms(runs),
            Backend::Ssh(remote) => remote.send(&ToNode::Terms { runs }),
            #[cfg(test)]
            Backend::Simulated(machine) => machine.know_terms(runs),
        }
    }

    pub fn stop(&self, runs: Vec<RunPlace>) {
        match self {
            Backend::Local(node) => node.stop(runs),
            Backend::Ssh(remote) => remote.send(&ToNode::Stop { runs }),
            #[cfg(test)]
            Backend::Simulated(machine) => machine.stop(runs),
        }
    }
}
