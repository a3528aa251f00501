//! What the engine does about machines: takes them in, hears how they are, and asks things of them.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use nexus_api::jobs::JobRequest;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::run_dir::RunSpec;
use nexus_core::apply::{self, Command, Report};
use nexus_core::event::Event;
use nexus_core::ids::{ClassId, MachineId};
use nexus_core::machine::{Machine, Standing};
use nexus_core::run::Run;
use nexus_node::line::Hello;
use nexus_node::slurm::Options;
use nexus_node::socket_folder::CurrentFolder;
use nexus_node::{RunPlace, RunTerms};

use super::{Engine, Message, Turn, Watch};
use crate::backend::Backend;
use crate::backend::ssh::address::Address;
use crate::backend::ssh::{News, Reached, Remote, Sink, SshArgs, Step, Way};
use crate::clock;
use crate::config::Config;
use crate::gpus::Gpus;
use crate::mirrors::Ended;
use crate::names::DEFAULT_CLASS;
use crate::pool::{InCluster, LineState, Member};
use crate::service_log::Line;
use crate::store::MachineRow;

/// What is the same for every call.
pub struct Calls {
    /// A folder for the sockets of shared connections; its path is short.
    pub controls: CurrentFolder,
    /// Where the code of jobs is kept.
    pub snapshots: PathBuf,
    /// Which of the services that use a machine this is.
    pub service: String,
    pub engine: Sender<Message>,
    /// As they are configured: each call reads them anew.
    pub ssh_args: SshArgs,
    pub reached: Reached,
    #[cfg(test)]
    pub simulated: Option<Simulator>,
}

/// Calls a machine of a simulation.
#[cfg(test)]
pub type Simulator = Arc<dyn Fn(&MachineRow, Sink) -> Box<dyn crate::backend::Simulated> + Send + Sync>;

impl Calls {
    pub fn new(home: &Home, service: String, engine: Sender<Message>, config: &Config) -> Calls {
        let (controls, snapshots) = (CurrentFolder::new(home.socket_dir()), home.snapshots());
        let calls = Calls {
            controls,
            snapshots,
            service,
            engine,
            ssh_args: SshArgs::default(),
            reached: Reached::default(),
            #[cfg(test)]
            simulated: None,
        };
        calls.follow(config);
        calls
    }

    /// Counts for the next call of every machine.
    pub fn follow(&self, config: &Config) {
        self.ssh_args.set(&config.ssh_args);
    }
}

/// A machine to be, its address and names checked.
pub struct AddMachine {
    /// None for a cluster whose programs are on the service's host.
    pub address: Option<Address>,
    /// How jobs are submitted, where it is a cluster.
    pub slurm: Option<Options>,
    pub name: String,
    pub class: Option<String>,
    pub home: Option<String>,
    pub simulated: u16,
}

/// What is asked of one machine at once.
#[derive(Default)]
pub struct Asked {
    pub starts: Vec<RunSpec>,
    pub observes: Vec<RunPlace>,
    /// Behind those that are observed: a node keeps the terms of runs that it knows.
    pub terms: Vec<RunTerms>,
    pub stops: Vec<RunPlace>,
    pub tidies: Vec<RunPlace>,
    /// What is to be tidied ended before the line that there is now.
    pub leftovers: bool,
}

impl Engine {
    pub(super) fn add_machine(&mut self, new: AddMachine, turn: &mut Turn) -> Result<(), Problem> {
        let machine = self.pool.names.machine_or_next(&new.name);
        let coming = turn.batch.machines.iter().any(|row| row.id == machine);
        if coming || self.pool.members.contains_key(&machine) {
            let member = self.pool.member(machine);
            let here = || member.and_then(|member| member.cluster.as_ref()).map(|_| "Slurm on this host".to_string());
            let address = member.and_then(|member| member.address.clone()).or_else(here);
            return Err(Problem::MachineExists { name: new.name, address });
        }
        let class = self.class(new.class.as_deref().unwrap_or(DEFAULT_CLASS), turn);
        self.take_in(machine, new, Some(class), turn)
    }

    /// One that was not there before. `class`: none while it is set up.
    pub(super) fn take_in(
        &mut self,
        machine: MachineId,
        new: AddMachine,
        class: Option<ClassId>,
        turn: &mut Turn,
    ) -> Result<(), Problem> {
        let standing = Standing { class, ..Standing::default() };
        let command = Command::AddMachine { machine, standing };
        let events = apply::command(&mut self.world, command, clock::now());
        turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, "add"))?);
        self.pool.names.add_machine(&new.name, machine);
        turn.batch.machines.push(MachineRow {
            id: machine,
            name: new.name,
            address: new.address.map(|address| address.to_string()),
            slurm: new.slurm,
            home: new.home,
            simulated: new.simulated,
            standing,
            added_at: clock::now(),
            removed: false,
        });
        Ok(())
    }

    pub(super) fn move_machines(
        &mut self,
        machines: Vec<MachineId>,
        class: &str,
        turn: &mut Turn,
    ) -> Result<(), Problem> {
        let class = Some(self.class(class, turn));
        let events = apply::command(&mut self.world, Command::MoveMachines { machines, class }, clock::now());
        turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, "mv"))?);
        Ok(())
    }

    /// Where a job may run is known from now on; a machine must be.
    pub(super) fn know_places(&mut self, request: &JobRequest, turn: &mut Turn) -> Result<(), Problem> {
        if let Some(machine) = &request.machine
            && !turn.batch.machines.iter().any(|coming| coming.name == *machine)
        {
            self.pool.named(machine)?;
        }
        if let Some(class) = &request.class {
            self.class(class, turn);
        }
        Ok(())
    }

    /// The number of a class, which is there from now on.
    pub(super) fn class(&mut self, name: &str, turn: &mut Turn) -> ClassId {
        let (class, is_new) = self.pool.names.class_or_next(name);
        if is_new {
            self.pool.names.add_class(name, class);
            turn.batch.classes.push((class, name.to_string()));
        }
        class
    }

    /// Calls machines that are in the pool from now on, and hangs up on those that are not. All of it is on disk.
    pub(super) fn keep_members(&mut self, turn: &Turn) {
        for row in &turn.batch.machines {
            self.call(row.clone());
        }
        for event in &turn.batch.events {
            if let Event::MachineRemoved { machine } = event {
                self.lines.remove(*machine);
                self.pool.members.remove(machine);
            }
        }
    }

    /// Whether nothing is left to wait for: what runs where no line leads is ended when there is one.
    pub(super) fn all_ended(&self) -> bool {
        let is_near = |run: &Run| self.pool.member(run.lease.runs_on()).is_some_and(|member| member.machine.reachable);
        !self.world.active_runs().any(is_near)
    }

    /// Those that were in the pool when the service began.
    pub(super) fn call_all(&mut self) {
        match self.store.machines() {
            Ok(rows) => rows.into_iter().filter(|row| !row.removed).for_each(|row| self.call(row)),
            Err(error) => self.log.write(&[Line::error(error.problem())]),
        }
    }

    /// Begins to call a machine of the pool. Until it answers nothing runs there, and nothing is known of it.
    pub(super) fn call(&mut self, row: MachineRow) {
        let address = row.address.as_deref().and_then(Address::parse);
        if address.is_none() && row.slurm.is_none() {
            return;
        }
        let own_home = || self.home.dir.to_string_lossy().into_owned();
        let way = Way {
            name: row.name.clone(),
            reached: self.calls.reached.clone(),
            ssh_args: self.calls.ssh_args.clone(),
            controls: self.calls.controls.clone(),
            home: row.home.clone().or_else(|| address.is_none().then(own_home)),
            // Clusters that are reached over one login node have a node each.
            service: match row.slurm {
                Some(_) => format!("{}.{}", self.calls.service, row.name),
                None => self.calls.service.clone(),
            },
            slurm: row.slurm.clone(),
            address,
            snapshots: self.calls.snapshots.clone(),
            simulated: row.simulated > 0,
            poll: self.specs.config.gpus_of(&row.name).poll,
        };
        let (id, engine) = (row.id, std::sync::Mutex::new(self.calls.engine.clone()));
        let sink: Sink = Arc::new(move |news| {
            let engine = engine.lock().expect("nobody panics while they send");
            // The engine is gone: the service is going down.
            let _ = engine.send(Message::Machine { machine: id, news });
        });
        #[cfg(test)]
        if let Some(simulated) = &self.calls.simulated {
            let backend = Backend::Simulated(simulated(&row, sink));
            return self.is_called(row, backend);
        }
        let remote = match Remote::call(way, sink) {
            Ok(remote) => remote,
            Err(error) => {
                return self.log.write(&[Line::error(format!("machine {} cannot be called: {error}", row.name))]);
            }
        };
        self.lines.add(id, &row.name, remote.clone());
        self.is_called(row, Backend::Ssh(remote));
    }

    fn is_called(&mut self, row: MachineRow, backend: Backend) {
        let machine = Machine { id: row.id, name: row.name.clone(), reachable: false, ..Machine::default() };
        let member = Member {
            name: row.name,
            address: row.address,
            added_at: row.added_at,
            gpus: Gpus::new(row.simulated),
            machine,
            backend,
            line: LineState::Calling(Step::Connecting),
            cluster: row.slurm.map(|options| InCluster { options, known: None, away: None, told: BTreeMap::new() }),
            poll: None,
        };
        self.pool.members.insert(row.id, member);
    }

    /// The World was loaded again: what is known of machines beside it goes in again.
    pub(super) fn members_again(&mut self) {
        let here: Vec<MachineId> = self.world.standings().map(|(id, _)| id).collect();
        self.pool.members.retain(|id, _| *id == MachineId::LOCAL || here.contains(id));
        for member in self.pool.members.values().filter(|member| member.is_known()) {
            self.world.record(&Event::MachineRead(member.machine.clone()));
        }
    }

    pub(super) fn news(&mut self, machine: MachineId, news: News, turn: &mut Turn, watch: &mut Watch) {
        // Late words of one that was taken out.
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        match news {
            News::Step(step) => {
                member.line.step(step);
                self.tell_machine(machine);
            }
            News::Up { hello, round_trip } => self.line_up(machine, hello, round_trip, turn, watch),
            // Words of a line that is not up, or is lost: a machine that counted as reached by them would be asked what nobody
            // hears, and its runs would be waited for without end.
            News::Gpus(_) | News::Slurm(_) if !member.line.is_up() => {}
            News::Gpus(reading) => {
                self.gpus_read(machine, reading, turn, watch);
                if self.pool.member(machine).is_some_and(|member| !member.machine.reachable) {
                    self.is_there(machine, turn, watch);
                }
            }
            News::Slurm(news) => self.slurm_news(machine, news, turn, watch),
            News::Report(report) => {
                for message in super::messages(report) {
                    self.take(message, turn, watch);
                }
            }
            News::NoLoginEnv(error) => {
                turn.lines.push(Line::warn(format!("Machine {}: no login environment: {error}", member.name)));
            }
            News::Down { trouble, again_in } => {
                let was_up = member.line.was_up();
                if member.line.is_news(&trouble) {
                    turn.lines.push(Line::warn(format!("Machine {} unreachable: {}", member.name, trouble.why)));
                }
                let (since, again_at) = (clock::now(), clock::now().after(again_in));
                let since = member.line.down_since().unwrap_or(since);
                member.line = LineState::Down { trouble, since, again_at, was_up };
                self.not_reached(machine, turn, watch);
                self.tell_machine(machine);
            }
        }
    }

    fn line_up(
        &mut self,
        machine: MachineId,
        hello: Box<Hello>,
        round_trip: Duration,
        turn: &mut Turn,
        watch: &mut Watch,
    ) {
        // Should the loss of the line before not have been told: what was asked over that one may be lost with it.
        self.not_reached(machine, turn, watch);
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        turn.lines.push(format!("Machine {} connected", member.name).into());
        member.machine.cpus = hello.cpus;
        member.machine.ram_mib = hello.ram_mib;
        member.poll = None;
        member.gpus.awaits_no_lock();
        let simulated = member.gpus.are_simulated();
        member.line = LineState::Up { hello, round_trip, since: clock::now() };
        // Without its GPUs it is only half there: the first reading follows at once; so for a cluster.
        if simulated {
            self.is_there(machine, turn, watch);
        }
    }

    /// What is known of it stays; its runs are left alone, and observed anew once it is reached again.
    pub(super) fn not_reached(&mut self, machine: MachineId, turn: &mut Turn, watch: &mut Watch) {
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        member.machine.reachable = false;
        let lost = member.is_known().then(|| member.machine.clone());
        if let Some(lost) = lost {
            self.report(Report::Machine(lost), turn, watch);
        }
    }

    /// It is reached, and what it has is known: from here on it takes jobs, and those on it are looked for.
    pub(super) fn is_there(&mut self, machine: MachineId, turn: &mut Turn, watch: &mut Watch) {
        if let Some(member) = self.pool.members.get_mut(&machine) {
            member.machine.reachable = true;
        }
        self.look_at_gpus(machine, turn, watch);
        self.fetch_leftovers(machine);
        self.remove_remnants(machine);
        self.tell_machine(machine);
    }

    /// Ended runs of a machine whose logs are still there, or whose directories were not cleared.
    fn fetch_leftovers(&mut self, machine: MachineId) {
        match self.store.untidy_runs(machine) {
            Ok(runs) => {
                let asked = Asked {
                    tidies: runs.into_iter().filter_map(|run| self.run_place(run, machine)).collect(),
                    leftovers: true,
                    ..Asked::default()
                };
                self.ask_of(machine, asked);
            }
            // They lie in nobody's way: the next line finds them.
            Err(error) => self.log.write(&[Line::error(error.problem())]),
        }
    }

    /// Those of the service's own host that an earlier service left.
    pub(super) fn tidy_leftovers(&mut self) {
        match self.store.untidy_runs(MachineId::LOCAL) {
            Ok(runs) => {
                let places = runs.into_iter().filter_map(|run| self.run_place(run, MachineId::LOCAL)).collect();
                if let Backend::Local(node) = &self.pool.local().backend {
                    node.tidy_leftovers(places);
                }
            }
            // They lie in nobody's way: the next start finds them.
            Err(error) => self.log.write(&[Line::error(error.problem())]),
        }
    }

    pub(super) fn ask_of(&self, machine: MachineId, asked: Asked) {
        let Some(member) = self.pool.member(machine) else { return };
        let Asked { starts, observes, terms, stops, tidies, leftovers } = asked;
        if !starts.is_empty() {
            if let Backend::Ssh(_) = &member.backend {
                self.make_log_dirs(&starts);
            }
            member.backend.start(starts, tidies.iter().map(|place| place.run).collect());
        }
        if !observes.is_empty() {
            member.backend.observe(observes);
        }
        if !terms.is_empty() {
            member.backend.know_terms(terms);
        }
        if !stops.is_empty() {
            member.backend.stop(stops);
        }
        match &member.backend {
            _ if tidies.is_empty() => {}
            Backend::Local(node) => node.tidy(tidies),
            #[cfg(test)]
            Backend::Simulated(machine) => machine.tidy(tidies),
            // Its logs are brought here first.
            Backend::Ssh(remote) => {
                for RunPlace { run, dir } in tidies {
                    let here = self.dir_here(run);
                    self.lines.mirrors.finish(Ended {
                        run,
                        there: dir,
                        link: self.link_to(&here, run),
                        here,
                        is_leftover: leftovers,
                        remote: remote.clone(),
                    });
                }
            }
        }
    }

    /// Makes the local run directories of runs that start on another machine. Their logs come later; until then the
    /// directory is what tells an older copy of the database that the run began.
    fn make_log_dirs(&self, starts: &[RunSpec]) {
        for run in starts.iter().filter_map(|spec| spec.run.parse().ok()) {
            // On a full disk the run starts all the same: bringing its logs makes the directory, or tells what is wrong.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(self.dir_here(run));
        }
    }

    pub(super) fn tell_machine(&self, machine: MachineId) {
        if let Some(member) = self.pool.member(machine) {
            self.events.publish(nexus_api::events::What::Machine { name: member.name.clone() });
        }
    }
}
