//! Makes what a shim is told: the command, where it runs, and its environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_api::command::Command;
use nexus_api::env::{Env, is_reserved};
use nexus_api::environ::Environ;
use nexus_api::jobs::{JobSpec, Session, SignalBefore};
use nexus_api::paths::Home;
use nexus_api::run_dir::{self, EnvFile, RunSpec, ScreenSpec, SlurmRequest, Warning};
use nexus_api::template;
use nexus_core::ids::RunId;
use nexus_core::machine::{Cluster, Gpu};
use nexus_core::request::{GpuSet, Model};
use nexus_core::run::Lease;
use nexus_node::line::Hello;

use crate::config::{Config, Visible};
use crate::store::Launch;
use crate::workplace::Workplace;
use crate::{activation, clock, gpu_arg, script};

/// Window of a job whose submitter had none.
const USUAL_WINDOW: (u16, u16) = (120, 40);

/// What a run depends on where it is to be.
pub struct Site<'a> {
    /// Of the machine.
    pub name: &'a str,
    /// Those of the machine that it holds: the lease names them by number.
    pub gpus: &'a [Gpu],
    /// None on the service's own host.
    pub remote: Option<&'a Hello>,
    /// Of the machine that it holds, as it was given.
    pub address: Option<&'a str>,
    /// What there is, where another scheduler places it.
    pub cluster: Option<&'a Cluster>,
}

/// What is the same for every run of this service.
pub struct RunSpecs {
    /// Where new runs keep their files.
    pub log_dir: PathBuf,
    /// The configured shell, or `sh`.
    pub shell: PathBuf,
    /// Activates environments, whose scripts are often more than `sh` can read.
    activator: PathBuf,
    pub config: Config,
    /// Where screen sessions are if screen's own folder cannot be used.
    pub screens: PathBuf,
    /// Where each job has a folder for its checkpoints.
    pub checkpoints: PathBuf,
    /// Where each job has a folder for results.
    pub results: PathBuf,
    workplace: Workplace,
}

impl RunSpecs {
    /// For runs on the service's own host.
    pub fn new(config: Config, log_dir: PathBuf, screens: PathBuf, home: &Home) -> RunSpecs {
        let (shell, activator) = (find_shell(&config.shell), find_shell("bash"));
        let workplace = Workplace::here(home);
        let (checkpoints, results) = (home.checkpoints(), home.results());
        RunSpecs { log_dir, shell, activator, config, screens, checkpoints, results, workplace }
    }

    /// Runs that start from now on follow this.
    pub fn follow(&mut self, config: Config) {
        self.shell = find_shell(&config.shell);
        self.config = config;
    }

    pub fn run_spec(&self, run: RunId, lease: &Lease, launch: Launch, site: &Site) -> RunSpec {
        match (site.remote, lease.driver) {
            (None, false) => self.own_spec(run, lease, launch, site.gpus),
            // What it holds is elsewhere: here it has no GPU.
            (_, true) => {
                let lease = Lease { gpus: GpuSet::EMPTY, share: None, ram_mib: 0, ..lease.clone() };
                self.own_spec(run, &lease, told_machine(launch, site.address), &[])
            }
            (Some(hello), false) => {
                let launch = sent(run, told_machine(launch, site.address), hello, &self.config.pass_env);
                let code = launch.spec.code.as_ref().map(|code| code.content.clone());
                let slurm = site.cluster.map(|cluster| asked_of(cluster, lease, &launch.spec));
                let spec = self.there(site.name, hello).own_spec(run, lease, launch, site.gpus);
                let machine = Some(site.name.to_string());
                RunSpec { login_env: true, project_link: None, code, machine, slurm, ..spec }
            }
        }
    }

    /// The same where runs are on another machine.
    fn there(&self, name: &str, hello: &Hello) -> RunSpecs {
        let mut config = self.config.clone();
        config.gpus = config.gpus_of(name).clone();
        // A file of this machine.
        config.env_file = None;
        let bash = hello.bash.clone().unwrap_or_else(|| "/bin/sh".into());
        let shell = if config.shell == "bash" { bash.clone() } else { PathBuf::from(&config.shell) };
        RunSpecs {
            log_dir: hello.logs.clone(),
            shell,
            activator: bash,
            config,
            screens: hello.screens.clone(),
            checkpoints: hello.checkpoints.clone(),
            results: hello.results.clone(),
            workplace: Workplace::there(hello),
        }
    }

    /// For this machine; `gpus` are its own.
    fn own_spec(&self, run: RunId, lease: &Lease, mut launch: Launch, gpus: &[Gpu]) -> RunSpec {
        launch.spec.cwd = self.workplace.folder(&launch.spec).to_string_lossy().into_owned();
        let gpu_arg = launch.spec.gpu_arg.clone().filter(|_| !lease.gpus.is_empty());
        let visible = match gpu_arg {
            Some(_) => self.visible(all_up_to_the_last(lease.gpus, gpus), gpus),
            None => self.visible(lease.gpus, gpus),
        };
        let checkpoint_dir = self.checkpoints.join(launch.spec.checkpoint_of.as_deref().unwrap_or(run.job.as_str()));
        let mut env = environment(run, lease, visible, &launch);
        let results_dir = self.results.join(run.job.as_str());
        let own_folders = [("NEXUS_CHECKPOINT_DIR", &checkpoint_dir), ("NEXUS_RESULTS_DIR", &results_dir)];
        env.extend(own_folders.map(|(name, folder)| (name, folder.to_string_lossy())));
        let (activation, project_link) =
            (activation::before(&launch.spec, &self.activator), project_link(run, &launch));
        let (dir, hidden) = (launch.dir, launch.hidden);
        let JobSpec {
            command, cwd, env_given, request, tty, window, out, out_dir, session, one_terminal, extract, ..
        } = launch.spec;
        let (columns, rows) = window.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL_WINDOW);
        let command = match gpu_arg {
            Some(option) => gpu_arg::told(command, &option, &lease.gpus.to_string()),
            None => command,
        };
        let (command, script) = script::filled(command, &hidden, &dir, self.config.prelude.is_none());
        let (argv, shell) = self.argv(command, activation);
        let grace_ms =
            request.grace_seconds.map_or(self.config.grace.as_millis() as u64, |grace| grace.saturating_mul(1000));
        let (out, out_else) = match out_dir {
            Some(folder) => by_start(run, Path::new(&folder), &clock::file_stamp(clock::now())),
            None => (out.map(PathBuf::from), None),
        };
        RunSpec {
            format: run_dir::FORMAT,
            run: run.to_string(),
            dir,
            argv,
            shell,
            cwd: cwd.into(),
            env,
            env_file: self.config.env_file.clone().map(|path| EnvFile { path, except: env_given }),
            limits: self.config.limits,
            tty: tty.unwrap_or(self.config.tty),
            columns,
            rows,
            time_limit_ms: request.time_seconds.map(|seconds| seconds.saturating_mul(1000)),
            warning: request.signal.map(warning),
            grace_ms,
            out,
            out_else,
            // The node knows these two.
            reports: PathBuf::new(),
            cgroup_base: None,
            gpu_locks: uuids(lease.gpus, gpus),
            gpu_locks_shared: lease.share.is_some(),
            screen: self.screen(run, session),
            one_terminal,
            memory_max_mib: (lease.ram_mib > 0).then(|| lease.ram_mib.into()),
            checkpoint_dir: Some(checkpoint_dir),
            results_dir: Some(results_dir),
            extract,
            project_link,
            script,
            hidden,
            login_env: false,
            code: None,
            machine: None,
            slurm: None,
        }
    }

    /// What `CUDA_VISIBLE_DEVICES` says of these.
    fn visible(&self, seen: GpuSet, gpus: &[Gpu]) -> String {
        let uuids = uuids(seen, gpus);
        // One that vanished a moment ago has no UUID here: then numbers must do.
        match self.config.gpus.visible == Visible::Uuid && uuids.len() == seen.len() {
            true => uuids.join(","),
            false => seen.to_string(),
        }
    }

    fn screen(&self, run: RunId, session: Option<Session>) -> Option<ScreenSpec> {
        match session.unwrap_or(self.config.session) {
            Session::Builtin => None,
            Session::Screen => Some(ScreenSpec { name: format!("nexus_job_{}", run.job), dir: self.screens.clone() }),
        }
    }

    /// What is executed: the user's command, after the prelude, behind the runner; and whether exit 126 and 127 mean
    /// that it could not be, as shells and programs that run others have it.
    fn argv(&self, command: Command, activation: Option<Vec<String>>) -> (Vec<String>, bool) {
        if let Some(activation) = activation {
            // The runner comes last: it may be a program of the environment.
            let parts = [self.after_prelude(), activation, self.config.runner.clone(), self.plain(command)];
            return (parts.concat(), true);
        }
        let (argv, by_shell) = match (command, &self.config.prelude) {
            (Command::Argv(argv), None) => (argv, false),
            (Command::Argv(argv), Some(_)) => ([self.after_prelude(), argv].concat(), true),
            (Command::Shell(text), Some(prelude)) => (self.plain(Command::Shell(format!("{prelude}\n{text}"))), true),
            (command, None) => (self.plain(command), true),
        };
        let by_another = by_shell || !self.config.runner.is_empty();
        ([self.config.runner.clone(), argv].concat(), by_another)
    }

    /// A shell that runs the prelude and becomes what stands behind it; nothing without one.
    fn after_prelude(&self) -> Vec<String> {
        let Some(prelude) = &self.config.prelude else { return vec![] };
        let shell = self.shell.to_string_lossy().into_owned();
        vec![shell.clone(), "-c".into(), format!("{prelude}\nexec \"$@\""), shell]
    }

    fn plain(&self, command: Command) -> Vec<String> {
        match command {
            Command::Argv(argv) => argv,
            Command::Shell(text) => vec![self.shell.to_string_lossy().into_owned(), "-c".into(), text],
        }
    }
}

fn warning(wish: SignalBefore) -> Warning {
    Warning { signal: wish.signal, before_ms: wish.before_seconds.saturating_mul(1000) }
}

/// What another scheduler is asked for. A kind of GPU only where one was named.
fn asked_of(cluster: &Cluster, lease: &Lease, spec: &JobSpec) -> SlurmRequest {
    let gpus = lease.gpus.len() as u16;
    let model = spec.request.gpu_model.as_deref().and_then(Model::new).filter(|_| gpus > 0);
    SlurmRequest {
        gpus,
        kind: model.and_then(|model| cluster.kind(gpus, Some(model))).map(String::from),
        cpus: lease.cpus,
        ram_mib: lease.ram_mib,
        // A smaller number comes first; nobody may push before others.
        nice: u32::try_from(spec.priority).unwrap_or(0),
    }
}

/// For another machine: with its directory there, and of the environment what is to be sent. The rest is the login
/// environment of that machine.
fn sent(run: RunId, launch: Launch, hello: &Hello, pass: &[String]) -> Launch {
    let spec = &launch.spec;
    let is_sent = |name: &String| spec.export_env || spec.env_given.contains(name) || pass.contains(name);
    let env = launch.env.iter().filter(|(name, _)| is_sent(name)).map(|(name, value)| (name.clone(), value.clone()));
    let secrets = launch.secrets.iter().filter(|(name, _)| is_sent(name));
    Launch {
        dir: run_dir::of_run(&hello.logs, run.job.as_str(), run.number),
        env: env.collect::<Env>().into(),
        secrets: secrets.map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..launch
    }
}

/// `{MACHINE}` in its command is the address of the machine that it is on, or that is held for it.
fn told_machine(mut launch: Launch, address: Option<&str>) -> Launch {
    let told = |text: &String| template::fill(text, |name| address.filter(|_| name == "MACHINE"));
    launch.spec.command = match &launch.spec.command {
        Command::Shell(text) => Command::Shell(told(text)),
        Command::Argv(words) => Command::Argv(words.iter().map(told).collect()),
    };
    launch
}

/// Where the folder of a job with a project is found by that and its name, or its sweep's.
fn project_link(run: RunId, launch: &Launch) -> Option<PathBuf> {
    let (id, spec) = (run.job.to_string(), &launch.spec);
    let name = spec.name.as_deref().or(spec.sweep.as_deref());
    Some(run_dir::project_link(run_dir::log_dir_of(&launch.dir, &id)?, spec.project.as_deref()?, name, &id))
}

/// Of the real ones among these.
fn uuids(wanted: GpuSet, gpus: &[Gpu]) -> Vec<String> {
    let real = gpus.iter().filter(|gpu| wanted.contains(gpu.index) && !gpu.simulated);
    real.map(|gpu| gpu.uuid.clone()).collect()
}

/// All GPUs of the machine, without a gap: CUDA counts those it is shown, and its numbers must be the machine's.
fn all_up_to_the_last(leased: GpuSet, gpus: &[Gpu]) -> GpuSet {
    let last = leased.iter().chain(gpus.iter().map(|gpu| gpu.index)).max();
    last.into_iter().flat_map(|last| 0..=last).collect()
}

/// Where a run with a folder for its output writes it: a file named by its start, or if that second is taken, by the run
/// as well.
fn by_start(run: RunId, folder: &Path, stamp: &str) -> (Option<PathBuf>, Option<PathBuf>) {
    let own = match run.number {
        1 => format!("job_{stamp}_{}.log", run.job),
        later => format!("job_{stamp}_{}_{later}.log", run.job),
    };
    (Some(folder.join(format!("job_{stamp}.log"))), Some(folder.join(own)))
}

/// This shell, or `sh`.
fn find_shell(name: &str) -> PathBuf {
    find_program(name).or_else(|| find_program("sh")).unwrap_or_else(|| "/bin/sh".into())
}

/// The submitter's environment, then what nobody can override.
fn environment(run: RunId, lease: &Lease, visible: String, launch: &Launch) -> Environ {
    let Launch { spec, env: open, secrets, dir, last_failure, locked_starts, hidden } = launch;
    let mut env = Environ::default();
    let submitted = open.iter().filter(|(name, _)| !secrets.contains_key(*name)).chain(secrets);
    for (name, value) in submitted.filter(|(name, _)| !is_reserved(name)) {
        match spec.env_given.contains(name) {
            true => env.push(name, &script::fill(value, hidden)),
            false => env.push(name, value),
        }
    }
    if env.get("TERM").is_none() {
        env.push("TERM", "xterm-256color");
    }
    env.push("CUDA_VISIBLE_DEVICES", &visible);
    env.push("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    env.push("NEXUS_JOB_ID", run.job.as_str());
    env.push("NEXUS_GPU_ID", &lease.gpus.to_string());
    env.push("NEXUS_ATTEMPT", &run.number.saturating_sub(*locked_starts).to_string());
    env.push("NEXUS_RUN_DIR", &dir.to_string_lossy());
    // As it is declared, and in capitals, as such names mostly are.
    let capitals = spec.params.iter().map(|(name, value)| (name.to_ascii_uppercase(), value));
    let declared = spec.params.iter().map(|(name, value)| (name.clone(), value));
    let params: BTreeMap<String, &String> = capitals.chain(declared).collect();
    env.extend(params.iter().map(|(name, value)| (format!("NEXUS_PARAM_{name}"), value)));
    if let Some(word) = last_failure {
        env.push("NEXUS_LAST_FAILURE", word);
    }
    env
}

fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use nexus_api::paths::Surroundings;
    use nexus_core::ids::MachineId;

    use super::*;
    use crate::config::GpuConfig;

    fn gpu(index: u16, simulated: bool) -> Gpu {
        let (uuid, name) = (format!("GPU-{index}"), String::new());
        Gpu { index, uuid, name, simulated, ..Gpu::default() }
    }

    fn run_spec(visible: Visible, leased: &[u16], gpus: &[Gpu]) -> RunSpec {
        let spec = serde_json::from_str(r#"{"command": {"shell": "true"}, "cwd": "/"}"#).unwrap();
        run_spec_of(spec, visible, leased, gpus)
    }

    fn run_spec_of(spec: JobSpec, visible: Visible, leased: &[u16], gpus: &[Gpu]) -> RunSpec {
        run_spec_in(Env::new(), spec, visible, leased, gpus)
    }

    fn run_spec_in(env: Env, spec: JobSpec, visible: Visible, leased: &[u16], gpus: &[Gpu]) -> RunSpec {
        let config = Config { gpus: GpuConfig { visible, ..GpuConfig::default() }, ..Config::default() };
        let around = Surroundings { nexus_home: Some("/home/ann/.nexus".into()), ..Surroundings::default() };
        let home = Home::find(&around, |_| false).unwrap();
        let specs = RunSpecs::new(config, "/logs".into(), "/screens".into(), &home);
        let launch = Launch {
            spec,
            env: env.into(),
            secrets: Env::new(),
            dir: "/logs/job_abc".into(),
            last_failure: None,
            locked_starts: 0,
            hidden: vec![],
        };
        let gpus_of = leased.iter().copied().collect();
        let lease = Lease {
            machine: MachineId::LOCAL,
            gpus: gpus_of,
            beside: vec![],
            share: None,
            cpus: 0,
            ram_mib: 0,
            driver: false,
        };
        let site = Site { name: "local", gpus, remote: None, address: None, cluster: None };
        specs.run_spec("abc.1".parse().unwrap(), &lease, launch, &site)
    }

    #[test]
    fn a_job_sees_its_gpus_by_number_or_by_card_and_real_ones_are_locked() {
        let real = [gpu(0, false), gpu(1, false), gpu(2, false)];
        let made_up = [gpu(0, true), gpu(1, true)];
        type Case<'a> = (Visible, &'a [u16], &'a [Gpu], &'a str, &'a [&'a str]);
        let table: [Case; 6] = [
            (Visible::Index, &[0, 2], &real, "0,2", &["GPU-0", "GPU-2"]),
            (Visible::Uuid, &[0, 2], &real, "GPU-0,GPU-2", &["GPU-0", "GPU-2"]),
            (Visible::Uuid, &[], &real, "", &[]),
            (Visible::Index, &[1], &made_up, "1", &[]),
            (Visible::Uuid, &[1], &made_up, "1", &[]),
            // One vanished a moment ago.
            (Visible::Uuid, &[2, 3], &real, "2,3", &["GPU-2"]),
        ];
        for (visible, leased, gpus, seen, locks) in table {
            let spec = run_spec(visible, leased, gpus);
            let value = |name: &str| spec.env.get(name);
            let numbers: Vec<String> = leased.iter().map(u16::to_string).collect();
            assert_eq!(value("CUDA_VISIBLE_DEVICES"), Some(seen), "{visible:?} {leased:?}");
            assert_eq!(value("NEXUS_GPU_ID"), Some(numbers.join(",").as_str()), "{visible:?} {leased:?}");
            assert_eq!(spec.gpu_locks, locks, "{visible:?} {leased:?}");
        }
    }

    #[test]
    fn what_a_run_is_told_stands_once_in_its_environment_whatever_its_submitter_has() {
        let params = BTreeMap::from([("lr".to_string(), "0.1".to_string())]);
        let asked = JobSpec { params, ..JobSpec::new(Command::Shell("true".into()), "/".into()) };
        let of = |env: Env| run_spec_in(env, asked.clone(), Visible::Index, &[0], &[gpu(0, false)]).env;
        let told = of(Env::new());
        let other = |(name, _): (&str, &str)| (name.to_string(), "other".to_string());
        let mut again: Vec<(String, String)> = of(told.iter().map(other).collect()).iter().map(owned).collect();
        let mut told: Vec<(String, String)> = told.iter().map(owned).collect();
        for all in [&mut again, &mut told] {
            // Whoever submits says what terminal it is.
            all.retain(|(name, _)| name != "TERM");
            all.sort();
        }
        assert_eq!(again, told);
    }

    fn owned((name, value): (&str, &str)) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn a_run_with_a_folder_for_its_output_has_two_names_for_it() {
        let names = |run: &str| by_start(run.parse().unwrap(), Path::new("/d"), "20241024_153015");
        let path = |name: &str| Some(PathBuf::from(name));
        let first = path("/d/job_20241024_153015.log");
        assert_eq!(names("abc.1"), (first.clone(), path("/d/job_20241024_153015_abc.log")));
        assert_eq!(names("abc.2"), (first, path("/d/job_20241024_153015_abc_2.log")));
    }

    #[test]
    fn a_job_that_is_told_its_gpus_sees_all_of_them() {
        let real = [gpu(0, false), gpu(1, false), gpu(2, false)];
        type Case<'a> = (Visible, &'a [u16], &'a [Gpu], &'a str, &'a str);
        let table: [Case; 5] = [
            (Visible::Index, &[1], &real, "true --cuda 1", "0,1,2"),
            (Visible::Uuid, &[1, 2], &real, "true --cuda 1,2", "GPU-0,GPU-1,GPU-2"),
            (Visible::Index, &[], &real, "true", ""),
            // One vanished: the numbers of the others stay.
            (Visible::Uuid, &[2], &[gpu(0, false), gpu(2, false)], "true --cuda 2", "0,1,2"),
            (Visible::Index, &[1], &[gpu(0, true), gpu(1, true)], "true --cuda 1", "0,1"),
        ];
        for (visible, leased, gpus, text, seen) in table {
            let asked =
                JobSpec { gpu_arg: Some("--cuda".into()), ..JobSpec::new(Command::Shell("true".into()), "/".into()) };
            let spec = run_spec_of(asked, visible, leased, gpus);
            let value = |name: &str| spec.env.get(name);
            assert_eq!((spec.argv[2].as_str(), value("CUDA_VISIBLE_DEVICES")), (text, Some(seen)), "{leased:?}");
            let own = gpus.iter().filter(|gpu| leased.contains(&gpu.index) && !gpu.simulated);
            assert_eq!(spec.gpu_locks, own.map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>(), "{leased:?}");
        }
    }
}
