//! `nexus doctor`: is all well, and if not, what mends it.

mod database;
mod login;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nexus_api::config::ConfigView;
use nexus_api::import::Watched;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::service::{Obstacle, Service, Status};
use nexus_api::standstill::Blocker;
use nexus_node::lock_holder::{self, Signature};
use nexus_node::socket_folder;
use nexus_node::trust::{self, Writers};
use rustix::fs::{Access, access, statvfs};
use serde::Serialize;

use crate::app::App;
use crate::commands::config;
use crate::error::{CliError, code};
use crate::process::ExitCode;
use crate::render;
use crate::render::doctor::{Finding, Level};
use crate::render::text::counted;

const LITTLE_DISK_BYTES: u64 = 1 << 30;
const NO_DISK_BYTES: u64 = 64 << 20;

/// Check service, home, disk, programs, driver and GPUs
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  nexus doctor")]
pub struct DoctorArgs {
    /// Prints the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// `doctor --json`
#[derive(Debug, Serialize)]
struct Report {
    /// Null when none runs.
    service: Option<Service>,
    checks: Vec<Finding>,
}

pub async fn run(args: DoctorArgs, app: &App) -> Result<ExitCode, CliError> {
    let client = app.reader();
    let (service, trouble) = match client.service().await {
        Ok(service) => (Some(service), None),
        Err(CliError::NoService { .. }) => (None, None),
        Err(error) => (None, Some(error)),
    };
    let status = match &service {
        Some(_) => client.status(false).await.ok(),
        None => None,
    };
    let watched = match &service {
        Some(_) => client.watches().await.unwrap_or_default(),
        None => vec![],
    };
    let config = config::in_force(app).await;
    let models = config.as_ref().ok().and_then(models_check);
    let variables = config.as_ref().ok().and_then(env_file_check);
    let mut checks = vec![
        service_check(&app.home, service.as_ref(), trouble.as_ref()),
        home_check(&app.home),
        config_check(config),
        disk_check(&app.home),
        database::check(&app.home, service.as_ref()),
        containment_check(service.as_ref()),
        memory_check(service.as_ref()),
        program_check("bash", "commands run in sh instead", "install bash"),
        program_check("screen", "jobs cannot be shown in GNU screen (--screen)", "install screen if you want that"),
        program_check("ssh", "no machine can be added (nexus machine add)", "install openssh-client if you want that"),
        conda_check(nexus_daemon::activation::find_conda()),
        gpu_check(status.as_ref()),
    ];
    let of_service = |service| [driver_check(service), locks_check(service, status.as_ref()), jobs_file_check(service)];
    checks.extend(sockets_check(&app.home));
    checks.extend(login::check(&app.home));
    checks.extend(models);
    checks.extend(variables);
    checks.extend(watched.iter().filter_map(watch_check));
    checks.extend(service.as_ref().into_iter().flat_map(of_service).flatten());
    checks.extend(status.as_ref().and_then(standstill_check));
    let bad = checks.iter().any(|finding| finding.level == Level::Bad);
    match args.json {
        true => app.ui.json(&Report { service, checks })?,
        false => app.ui.data(&render::doctor::doctor(&checks, app.ui.paint()))?,
    }
    Ok(if bad { ExitCode::from(code::CANNOT_BE_MET) } else { ExitCode::SUCCESS })
}

fn found(name: &'static str, level: Level, says: impl Into<String>, mend: Option<&str>) -> Finding {
    Finding { name, level, says: says.into(), mend: mend.map(String::from) }
}

fn service_check(home: &Home, service: Option<&Service>, trouble: Option<&CliError>) -> Finding {
    let name = "service";
    let here = env!("CARGO_PKG_VERSION");
    match (service, trouble) {
        (Some(service), _) if service.version != here => {
            let says = format!("version {} runs (pid {}), this is {here}", service.version, service.pid);
            found(name, Level::Warn, says, Some("nexus restart; jobs go on"))
        }
        (Some(service), _) => {
            found(name, Level::Ok, format!("runs (pid {}, version {here}) on {}", service.pid, service.host), None)
        }
        (None, Some(error)) => {
            let why = error.told().why.map(|why| format!(": {why}")).unwrap_or_default();
            found(name, Level::Bad, format!("{error}{why}"), Some("nexus restart; service.log may tell more"))
        }
        (None, None) => match lock_holder::holder(&home.dir) {
            Some(holder) => {
                let Signature { pid, socket } = &holder.signature;
                let says = format!("runs (pid {pid}), and nobody answers on {}", socket.display());
                found(name, Level::Bad, says, Some("nexus stop ends it, its jobs go on; then nexus start"))
            }
            None => found(name, Level::Warn, "none runs in this home", Some("nexus start")),
        },
    }
}

fn home_check(home: &Home) -> Finding {
    let (name, shown) = ("home", home.dir.display());
    let exists = home.dir.exists();
    let place = nearest(&home.dir);
    let mend = Some("change its permissions, or set NEXUS_HOME to another folder");
    match access(place, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !place.is_dir() => found(name, Level::Bad, format!("{} is not a folder", place.display()), mend),
        Ok(()) if exists => found(name, Level::Ok, format!("{shown} is writable"), None),
        Ok(()) => found(name, Level::Ok, format!("{shown} will be made at first use"), None),
        Err(error) => {
            let says = format!("{} cannot be written: {error}", place.display());
            found(name, Level::Bad, says, mend)
        }
    }
}

/// Only where there is something to tell.
fn sockets_check(home: &Home) -> Option<Finding> {
    let unfit = socket_folder::unfit_runtime_dir(home)?;
    let mend =
        "set it to a folder that only you can enter; until then the sockets are in /tmp, in a folder of random name";
    Some(found("sockets", Level::Warn, format!("XDG_RUNTIME_DIR is not used: {unfit}"), Some(mend)))
}

fn config_check(config: Result<ConfigView, CliError>) -> Finding {
    let name = "config";
    match config {
        Err(CliError::Problem(problem @ Problem::BadConfig { .. })) => {
            let says = render::config::reason(&problem);
            found(name, Level::Bad, says, Some("nexus config edit; the service does not start with it"))
        }
        Err(error) => found(name, Level::Warn, format!("it cannot be looked at: {error}"), None),
        Ok(ConfigView { refused: Some(problem), .. }) => {
            let says = format!("the file on disk is not in force: {}", render::config::reason(&problem));
            found(name, Level::Bad, says, Some("nexus config edit; the old one stays in force until then"))
        }
        Ok(view) => {
            let waiting: Vec<&str> =
                view.keys.iter().filter(|key| key.after_restart.is_some()).map(|key| key.key.as_str()).collect();
            match waiting.is_empty() {
                true => found(name, Level::Ok, view.path, None),
                false => {
                    let says = format!("changed and not in force yet: {}", waiting.join(", "));
                    found(name, Level::Warn, says, Some("nexus restart; jobs go on"))
                }
            }
        }
    }
}

/// Nothing to look at where no file is named.
fn models_check(view: &ConfigView) -> Option<Finding> {
    let name = "models";
    let path = view.key("models.file")?.value.as_str().filter(|path| !path.is_empty())?;
    Some(match &view.models_refused {
        Some(problem) => {
            let mend = "correct it; until then jobs go by what was read before, or without it";
            found(name, Level::Bad, format!("not in force: {problem}"), Some(mend))
        }
        None => found(name, Level::Ok, path, None),
    })
}

/// Variables of a file that strangers can write are not given to jobs: each job fails to start.
fn env_file_check(view: &ConfigView) -> Option<Finding> {
    let name = "jobs.env_file";
    let path = view.key(name)?.value.as_str().filter(|path| !path.is_empty())?;
    Some(match trust::check(Path::new(path), &Writers::own()) {
        Ok(()) => found(name, Level::Ok, path, None),
        Err(error) => {
            let mend = "until then each job fails to start; nexus rerun starts those again";
            found(name, Level::Bad, format!("{path}: {error}"), Some(mend))
        }
    })
}

fn disk_check(home: &Home) -> Finding {
    let (name, place) = ("disk", nearest(&home.dir));
    let free = match statvfs(place) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => return found(name, Level::Bad, format!("{}: {error}", place.display()), None),
    };
    let says = format!("{:.1} GiB free in {}", free as f64 / (1u64 << 30) as f64, place.display());
    let mend = Some("make room; nexus forget deletes old jobs and their logs");
    match free {
        0..NO_DISK_BYTES => found(name, Level::Bad, says, mend),
        NO_DISK_BYTES..LITTLE_DISK_BYTES => found(name, Level::Warn, says, mend),
        _ => found(name, Level::Ok, says, None),
    }
}

/// Only where jobs wait for a person.
fn standstill_check(status: &Status) -> Option<Finding> {
    let standstill = status.standstill.as_ref()?;
    let all = |words: fn(&Blocker) -> &str| standstill.reasons.iter().map(words).collect::<Vec<_>>().join("; ");
    let says = format!("{}: {}", standstill.title, all(|reason| &reason.text));
    Some(found("queue", Level::Bad, says, Some(&all(|reason| &reason.hint))))
}

/// A watched file whose lines are not taken, or that others may write to on purpose. One that is not there yet may come.
fn watch_check(watched: &Watched) -> Option<Finding> {
    let (name, file) = ("watched", &watched.file);
    match (&watched.trouble, &watched.shared_with) {
        (Some(_), _) if !Path::new(file).exists() => None,
        (Some(trouble), _) => Some(found(name, Level::Bad, format!("{file} is not taken: {trouble}"), None)),
        (None, Some(group)) => {
            let says = format!("{file} is shared with group {group}: its members can queue commands that run as you");
            Some(found(name, Level::Ok, says, None))
        }
        (None, None) => None,
    }
}

/// Only where there is something to tell.
fn jobs_file_check(service: &Service) -> Option<Finding> {
    if let Some(trouble) = &service.jobs_file_trouble {
        return Some(found("jobs.txt", Level::Warn, format!("it is not kept: {trouble}"), None));
    }
    let lines = &service.jobs_file_refused;
    let mend = Some("correct them, without the #! before them, and delete the rest of the #! lines");
    (!lines.is_empty()).then(|| found("jobs.txt", Level::Warn, lines.join("; "), mend))
}

fn containment_check(service: Option<&Service>) -> Finding {
    let name = "containment";
    let mend = Some("log in through systemd (a user session with delegated cgroups) for stronger containment");
    match service.map(|service| service.containment.as_str()) {
        Some("cgroup") => found(name, Level::Ok, "each job has a cgroup", None),
        Some(other) => found(name, Level::Warn, format!("jobs are held together by {other}, not by a cgroup"), mend),
        None if has_cgroups() => {
            found(name, Level::Ok, "cgroups are there; the service says whether it may use them", None)
        }
        None => found(name, Level::Warn, "there are no unified cgroups (version 2)", mend),
    }
}

fn memory_check(service: Option<&Service>) -> Finding {
    let name = "memory";
    let mend = Some("run it as a systemd user service with Delegate=yes, so that it may limit its jobs");
    match service.map(|service| service.memory_limits) {
        Some(Some(true)) => found(name, Level::Ok, "a job that exceeds its own limit is ended", None),
        Some(Some(false)) => found(name, Level::Ok, "limits of jobs are not enforced: cgroups do not do so here", mend),
        Some(None) | None => found(name, Level::Ok, "the service says whether limits of jobs are enforced", None),
    }
}

fn has_cgroups() -> bool {
    let mounts = nexus_node::system_file::read_text("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"))
}

fn program_check(name: &'static str, without: &str, mend: &str) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |place: &Path| place.is_file() && access(place, Access::EXEC_OK).is_ok();
    match std::env::split_paths(&path).map(|dir| dir.join(name)).find(|place| is_there(place)) {
        Some(place) => found(name, Level::Ok, place.display().to_string(), None),
        None => found(name, Level::Warn, format!("not found: {without}"), Some(mend)),
    }
}

/// Many do without: it is no fault that there is none.
fn conda_check(tool: Option<String>) -> Finding {
    let says = tool.unwrap_or_else(|| "none found; only jobs with --conda need one".into());
    found("conda", Level::Ok, says, None)
}

fn gpu_check(status: Option<&Status>) -> Finding {
    let name = "gpus";
    let none = Some("if there should be some, check nvidia-smi; nexus add --gpus 0 runs jobs on the CPU");
    let Some(status) = status else {
        let count = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, |entries| entries.count());
        return match count {
            0 => found(name, Level::Warn, "the NVIDIA driver shows none", none),
            _ => found(name, Level::Ok, format!("the NVIDIA driver shows {}", counted(count as u64, "GPU")), None),
        };
    };
    let gpus = || status.machines.iter().flat_map(|machine| &machine.gpus);
    let simulated = gpus().filter(|gpu| gpu.simulated).count();
    match gpus().count() {
        0 => found(name, Level::Warn, "none found", none),
        count if simulated > 0 => {
            let says = format!("{}, {simulated} simulated", counted(count as u64, "GPU"));
            found(name, Level::Warn, says, Some("nexus start --simulate-gpus 0 ends the simulation"))
        }
        count => {
            let silent = gpus().filter(|gpu| matches!(gpu.obstacle, Some(Obstacle::Unreadable { .. }))).count();
            let says = counted(count as u64, "GPU");
            match silent {
                0 => found(name, Level::Ok, says, None),
                _ => found(name, Level::Bad, format!("{says}, {silent} cannot be read"), Some("nexus gpus says why")),
            }
        }
    }
}

/// Nothing to look at while GPUs are simulated.
fn driver_check(service: &Service) -> Option<Finding> {
    if service.simulated_gpus > 0 {
        return None;
    }
    let name = "driver";
    let driver = service.gpu_driver.as_deref().map(|version| format!("version {version}")).unwrap_or_default();
    Some(match (service.gpu_error.as_deref(), service.gpu_source.as_deref()) {
        (Some(error), _) => {
            let mend = "nvidia-smi must work; after an update of the driver the machine has to be restarted";
            found(name, Level::Bad, format!("GPUs cannot be read: {error}"), Some(mend))
        }
        (None, Some("nvml")) => {
            found(name, Level::Ok, format!("{driver}, read by NVML").trim_start_matches(", "), None)
        }
        (None, Some(source)) => {
            let says = format!("{driver}, read by {source}: NVML cannot be loaded");
            let mend = "install the driver's libnvidia-ml.so.1: readings are quicker and say more";
            found(name, Level::Warn, says.trim_start_matches(", "), Some(mend))
        }
        (None, None) => {
            found(name, Level::Warn, "there is no NVIDIA driver", Some("install it where there are NVIDIA GPUs"))
        }
    })
}

/// Services of different users keep off each other's GPUs by locks in a folder that all can write.
fn locks_check(service: &Service, status: Option<&Status>) -> Option<Finding> {
    let name = "gpu locks";
    let folder = Path::new(service.gpu_locks.as_deref()?);
    let shown = folder.display();
    let mend = format!("chmod 1777 {shown}");
    let gpus = || status.into_iter().flat_map(|status| status.machines.iter()).flat_map(|machine| &machine.gpus);
    let unlocked: Vec<_> = gpus().filter_map(|gpu| Some((gpu, gpu.lock_error.as_deref()?))).collect();
    if let Some((gpu, error)) = unlocked.first() {
        let more = if unlocked.len() > 1 { format!("; so {} more", unlocked.len() - 1) } else { String::new() };
        let says = format!("GPU {}: {error}: services of other users may take the same GPU{more}", gpu.index);
        let mend = format!("remove what is there, or have its owner or root do it: ls -l {shown}");
        return Some(Finding { name, level: Level::Bad, says, mend: Some(mend) });
    }
    Some(match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => Finding {
            name,
            level: Level::Bad,
            says: format!("{shown} is not a folder: GPUs cannot be locked"),
            mend: Some(format!("rm {shown}")),
        },
        // An administrator may keep strangers out: docs/recipes/sharing.md.
        Ok(meta) if meta.mode() & 0o1777 == 0o1770 && meta.uid() == 0 => match access(folder, Access::WRITE_OK) {
            Ok(()) => found(name, Level::Ok, format!("{shown} is open to its group"), None),
            Err(_) => found(name, Level::Bad, format!("{shown} is not open to you: GPUs cannot be locked"), None),
        },
        Ok(found) if found.mode() & 0o1777 != 0o1777 => {
            let says = format!("{shown} is not open to all: services of other users may take the same GPU");
            Finding { name, level: Level::Warn, says, mend: Some(mend) }
        }
        Ok(_) => found(name, Level::Ok, format!("{shown} is open to all"), None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            found(name, Level::Ok, format!("{shown} is made by the first job on a GPU"), None)
        }
        Err(error) => found(name, Level::Warn, format!("{shown}: {error}"), Some(&mend)),
    })
}

/// The path itself, or the nearest parent that exists.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use nexus_api::standstill::{BlockReason, Standstill};

    use super::*;
    use crate::render::samples;

    #[test]
    fn simulated_gpus_are_called_so() {
        let mut gpu = samples::gpu(0);
        gpu.simulated = true;
        let finding = gpu_check(Some(&samples::status(vec![gpu], vec![])));
        assert_eq!((finding.level, finding.says.as_str()), (Level::Warn, "1 GPU, 1 simulated"));
        assert_eq!(gpu_check(Some(&samples::status(vec![], vec![]))).level, Level::Warn);
    }

    fn service() -> Service {
        serde_json::from_str(include_str!("../../../api/frozen/v1/service.json")).unwrap()
    }

    #[test]
    fn the_driver_and_how_it_is_read() {
        let with = |source: Option<&str>, error: Option<&str>| {
            let service =
                Service { gpu_source: source.map(String::from), gpu_error: error.map(String::from), ..service() };
            let finding = driver_check(&service).unwrap();
            assert_eq!(finding.mend.is_none(), finding.level == Level::Ok);
            (finding.level, finding.says)
        };
        assert_eq!(with(Some("nvml"), None), (Level::Ok, "version 550.54.15, read by NVML".into()));
        assert_eq!(with(Some("nvidia-smi"), None).0, Level::Warn);
        assert_eq!(with(None, None), (Level::Warn, "there is no NVIDIA driver".into()));
        assert_eq!(with(Some("nvml"), Some("it hangs")), (Level::Bad, "GPUs cannot be read: it hangs".into()));
        assert_eq!(driver_check(&Service { simulated_gpus: 2, ..service() }), None);
    }

    #[test]
    fn locks_need_a_folder_that_all_can_write() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let look = |folder: &Path| {
            locks_check(&Service { gpu_locks: Some(folder.display().to_string()), ..service() }, None).unwrap()
        };
        let private = look(dir.path());
        assert_eq!((private.level, private.mend), (Level::Warn, Some(format!("chmod 1777 {}", dir.path().display()))));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(look(dir.path()).level, Level::Ok);
        assert_eq!(look(&dir.path().join("none")).level, Level::Ok);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(look(&file).level, Level::Bad);
        assert_eq!(locks_check(&Service { gpu_locks: None, ..service() }, None), None);
        let mut gpu = samples::gpu(0);
        gpu.lock_error = Some("the GPU is not locked: /locks/GPU-0 is a FIFO of user mallory, not a file".into());
        let status = samples::status(vec![gpu, samples::gpu(1)], vec![]);
        let found = locks_check(&Service { gpu_locks: Some("/locks".into()), ..service() }, Some(&status)).unwrap();
        assert_eq!(found.level, Level::Bad);
        assert!(
            found.says.contains("GPU 0: the GPU is not locked") && found.says.contains("mallory"),
            "{}",
            found.says
        );
    }

    #[test]
    fn gpus_that_cannot_be_read_are_bad() {
        let mut gpu = samples::gpu(0);
        assert_eq!(gpu_check(Some(&samples::status(vec![gpu.clone()], vec![]))).level, Level::Ok);
        gpu.obstacle = Some(Obstacle::Unreadable { error: "it fell off the bus".into() });
        let finding = gpu_check(Some(&samples::status(vec![gpu, samples::gpu(1)], vec![])));
        assert_eq!((finding.level, finding.says.as_str()), (Level::Bad, "2 GPUs, 1 cannot be read"));
    }

    #[test]
    fn a_queue_that_stands_still_is_bad() {
        let mut status = samples::status(vec![], vec![]);
        assert_eq!(standstill_check(&status), None);
        let reasons = vec![BlockReason::DiskFull, BlockReason::QueuePaused { after_failures: None }];
        status.standstill = Some(Standstill::new(String::new(), 2, Some(600), reasons));
        let finding = standstill_check(&status).unwrap();
        assert_eq!(
            (finding.level, finding.says.as_str(), finding.mend.as_deref()),
            (
                Level::Bad,
                "the queue stands still: 2 jobs wait, and none has started for 10m: the disk with the files of nexus is full; \
                 the queue is paused",
                Some("make room; nexus gc shows what may go; nexus resume")
            )
        );
    }

    #[test]
    fn without_a_service_the_way_to_start_is_named() {
        let home = nexus_node::home::node_home(Path::new("/there/is/none")).unwrap();
        assert_eq!(service_check(&home, None, None).mend.as_deref(), Some("nexus start"));
    }
}
