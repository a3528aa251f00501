//! Limits of the system (`ulimit`) that are met while jobs run: an answer with a reason, a service that goes on, and jobs that never
//! notice.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use nexus_testkit::{Limited, LimitedProcesses, Nexus, Output, proc, tasks_of, until};

use super::{is_root, lives};
use crate::NEXUS;

/// Threads of a process, by their names.
fn threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives").flatten();
    tasks.filter_map(|task| Some(std::fs::read_to_string(task.path().join("comm")).ok()?.trim().into())).collect()
}

fn serving_threads(pid: u32) -> usize {
    threads(pid).iter().filter(|name| *name == "nexus-http").count()
}

/// tokio's own threads ended ten seconds after their last work. The next `nexus status` needed a new one.
#[test]
fn at_the_limit_of_processes_the_service_answers() {
    const USER: u32 = 61_001;
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS).of_user(USER);
    nexus.start(3);
    let running = ["first", "second"].map(|name| nexus.add(&format!("echo {name}; exec sleep 1000")));
    for id in &running {
        nexus.in_state(id, "running");
    }
    let service = nexus.service_pid();
    assert_eq!(serving_threads(service), 10, "made at start: {:?}", threads(service));
    if std::env::var_os("NEXUS_TEST_LONG").is_some() {
        // Twice as long as tokio keeps an idle thread by itself: time is what is tried here.
        std::thread::sleep(Duration::from_secs(20));
        assert_eq!(serving_threads(service), 10, "kept: {:?}", threads(service));
    }

    let limited = LimitedProcesses::of(service, USER).expect("the service runs");
    for _ in 0..3 {
        for args in [&["status"][..], &["queue"], &["history"], &["config"], &["export"], &["logs", &running[0]]] {
            nexus.ok(args);
        }
    }
    // What a limit of processes leaves no room for is told, and everything else goes on.
    let held = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["sweep", "--hold", "echo {x}", "x=1,2,3"]);
    assert_eq!(nexus.service_pid(), service);
    for id in &running {
        assert_eq!(nexus.job(id)["state"], "running");
    }
    drop(limited);
    nexus.ok(&["release", &held]);
    assert_eq!(nexus.ended(&held)["state"], "completed");
    assert_eq!(nexus.service_pid(), service);
    assert!(!nexus.service_log().contains("Bug"), "{}", nexus.service_log());
}

/// Like `nexus start` behind `ulimit`.
fn start_limited(nexus: &Nexus, resource: u32, most: u64) -> Output {
    let mut command = nexus.command(&["start"]);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: setrlimit(2) is async-signal-safe.
    let done = unsafe {
        command.pre_exec(move || match libc::setrlimit(resource, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    Output::new(format!("ulimit: {most}; nexus start"), done.output().expect("the binary runs"))
}

#[test]
fn a_limit_of_processes_that_is_met_at_the_start_is_told() {
    const USER: u32 = 61_002;
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS).of_user(USER);
    for room in [2, 5, 11, 20] {
        let most = tasks_of(USER) + room;
        let refused = start_limited(&nexus, libc::RLIMIT_NPROC, most).expect_code(1);
        assert!(refused.stderr.starts_with("error: the service did not start"), "{refused}");
        assert!(refused.stderr.contains("Resource temporarily unavailable"), "{refused}");
        let told = format!("this user may have {most} processes and threads (ulimit -u)");
        assert!(refused.stderr.contains(&told), "{refused}");
        until("its processes are gone", || (tasks_of(USER) == 0).then_some(()));
    }
    nexus.start(1);
    lives(&nexus);
}

#[test]
fn at_the_limit_of_open_files_the_service_goes_on() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let running = nexus.add("exec sleep 1000");
    nexus.in_state(&running, "running");
    let service = nexus.service_pid();
    let limited = Limited::no_descriptor(service).expect("the service runs");
    let mut asked = nexus.command(&["status"]).stdout(std::process::Stdio::null()).spawn().expect("the binary runs");
    // The client waits: it is connected, and the service cannot take the connection.
    until("the client is connected", || proc::connection(asked.id()));
    let before = processor_time(service);
    std::thread::sleep(Duration::from_millis(500));
    let spent = processor_time(service) - before;
    assert!(spent <= 10, "the service spins: {spent} hundredths of a second in half a second");
    assert!(asked.try_wait().unwrap().is_none(), "it was answered");
    drop(limited);
    assert!(asked.wait().unwrap().success(), "it is answered as soon as there is a descriptor");
    assert_eq!(nexus.service_pid(), service);
    assert_eq!(nexus.job(&running)["state"], "running");
    lives(&nexus);
}

#[test]
fn a_service_that_cannot_write_ends_down_stops_all_the_same() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let running = nexus.add("trap 'touch asked' TERM; until [ -e go ]; do sleep 0.01; done; exit 3");
    nexus.in_state(&running, "running");
    let service = nexus.service_pid();
    let mut stop = nexus.command(&["stop", "-y"]).spawn().expect("the binary runs");
    until("the job is asked to end", || nexus.work().join("asked").exists().then_some(()));
    // The order to end the job is on the disk. From here on no write succeeds, so that the end cannot be stored.
    let _limited = Limited::file_bytes(service, 0).expect("the service runs");
    nexus.file("go", "");
    assert!(stop.wait().unwrap().success());
    assert!(!nexus_testkit::alive(service));
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&running)["state"], "killed", "its run directory says how it ended");
}

#[test]
fn a_limit_of_open_files_that_is_met_at_the_start_is_told() {
    let nexus = Nexus::fresh(NEXUS);
    let refused = start_limited(&nexus, libc::RLIMIT_NOFILE, 40).expect_code(1);
    assert!(refused.stderr.contains("it needs 64 open files at least, and may have 40 (ulimit -n)"), "{refused}");
    nexus.start(1);
    lives(&nexus);
}

/// In hundredths of a second.
fn processor_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

/// A write beyond `ulimit -f` sends SIGXFSZ, which ends a process that does not ignore it.
#[test]
fn at_the_limit_of_file_sizes_the_service_goes_on() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let running = nexus.add("echo here; exec sleep 1000");
    nexus.in_state(&running, "running");
    let service = nexus.service_pid();
    let length = |name: &str| std::fs::metadata(nexus.home().join(name)).map_or(0, |found| found.len());
    let limited = Limited::file_bytes(service, length("service.log")).expect("the service runs");
    let refused = nexus.run(&["add", "--hold", "true"]);
    nexus.ok(&["queue"]);
    assert_eq!(nexus.service_pid(), service, "{refused}");
    drop(limited);
    assert_eq!(nexus.service_pid(), service);
    assert_eq!(nexus.job(&running)["state"], "running");
    nexus.ok(&["kill", "-y", &running]);
    lives(&nexus);
    assert!(Path::new(&nexus.home()).join("nexus.db").exists());
}
