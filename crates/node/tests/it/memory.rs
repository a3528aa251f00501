//! Runs that fail for want of memory: the GPU's, by what they print, and the machine's, by the kernel's word.

use std::path::PathBuf;

use nexus_api::run_dir::{Cause, ExitStatus, Oom, RunSpec};
use nexus_core::run::{Memory, Outcome};
use nexus_node::{Containment, cgroup};

use crate::stage::{Stage, exited};

const MESSAGE: &str = "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB' >&2";

/// Should no group limit it, the greedy program fails by itself, and the machine does not suffer.
const BOUND: &str = "ulimit -v 1000000";

fn on_a_gpu(mut spec: RunSpec) -> RunSpec {
    spec.env.push("NEXUS_GPU_ID", "0");
    spec
}

#[test]
fn a_failure_that_speaks_of_gpu_memory_is_one_of_it() {
    let stage = Stage::new();
    let record = stage.run(on_a_gpu(stage.shell("aaa.1", &format!("{MESSAGE}; echo cleaning up; exit 3"))));
    assert_eq!((&record.status, record.oom), (&exited(3), Some(Oom::Gpu)));
    assert_eq!(record.outcome(), Outcome::OutOfMemory { of: Memory::Gpu, code: Some(3), signal: None });
    let record = stage.run(on_a_gpu(stage.shell("bbb.1", &format!("{MESSAGE}; kill -ABRT $$"))));
    assert_eq!((&record.status, record.oom), (&ExitStatus::Signaled { signal: libc::SIGABRT }, Some(Oom::Gpu)));
    let table = [
        ("ccc.1", on_a_gpu(stage.shell("ccc.1", &format!("{MESSAGE}; exit 0"))), "it made do"),
        ("ddd.1", stage.shell("ddd.1", &format!("{MESSAGE}; exit 1")), "it had no GPU"),
        ("eee.1", on_a_gpu(stage.shell("eee.1", "kill -9 $$")), "somebody killed it"),
        ("fff.1", on_a_gpu(stage.shell("fff.1", &format!("{MESSAGE}; no-such-program"))), "it could not start"),
    ];
    for (run, spec, why) in table {
        let record = stage.run(spec);
        assert_eq!(record.oom, None, "{run}: {why}");
    }
}

#[test]
fn who_was_stopped_or_ran_too_long_did_not_end_for_memory() {
    let stage = Stage::new();
    let text = format!("{MESSAGE}; echo > up; exec sleep 600");
    stage.start(on_a_gpu(stage.shell("aaa.1", &text)));
    stage.wait_for_file("up");
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    assert_eq!((record.cause, record.oom), (Cause::Asked, None));
    let spec = RunSpec { time_limit_ms: Some(300), ..on_a_gpu(stage.shell("bbb.1", &text)) };
    let record = stage.run(spec);
    assert_eq!((record.cause, record.oom), (Cause::Timeout, None));
}

#[test]
fn a_run_that_exceeds_its_memory_is_the_one_that_ends() {
    let stage = Stage::new();
    let Containment::Cgroup(base) = stage.node().containment() else {
        return eprintln!("skipped: there are no cgroups to use here");
    };
    if !cgroup::limits_memory(&base) {
        return eprintln!("skipped: cgroups do not limit memory here");
    }
    // Looks for the last line of a file that has none: it keeps all it has read.
    let greedy = format!("{BOUND}; tail /dev/zero; exit $?");
    stage.start(stage.shell("bbb.1", "while ! [ -e go ]; do sleep 0.01; done; exit 4"));
    stage.start_of("bbb.1");
    let record = stage.run(RunSpec { memory_max_mib: Some(64), ..stage.shell("aaa.1", &greedy) });
    assert_eq!((record.cause, record.oom), (Cause::Own, Some(Oom::Host)), "{record:?}");
    let killed = [ExitStatus::Signaled { signal: libc::SIGKILL }, exited(128 + libc::SIGKILL)];
    assert!(killed.contains(&record.status), "{record:?}");
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("bbb.1").status, exited(4), "others do not notice");
    let within = RunSpec { memory_max_mib: Some(64), ..stage.shell("ccc.1", "exit 5") };
    let record = stage.run(within);
    assert_eq!((record.status, record.oom), (exited(5), None));
    let left = |group: PathBuf| group.exists();
    assert!(!left(base.join("aaa.1")) && !cgroup::memory_twin(&base.join("aaa.1")).is_some_and(left));
}

#[test]
fn the_kernels_log_tells_of_a_run_whose_memory_nobody_counts() {
    let stage = Stage::with_cgroups(false);
    // A group of the test's own, which the run enters by itself.
    let Some(group) = cgroup::memory_twin(&PathBuf::from(format!("nexus-test/{}", std::process::id()))) else {
        return eprintln!("skipped: needs cgroups of version 1");
    };
    let limited =
        std::fs::create_dir_all(&group).and_then(|()| std::fs::write(group.join("memory.limit_in_bytes"), "64M"));
    let readable = std::process::Command::new("dmesg").output().is_ok_and(|output| output.status.success());
    let first = std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]");
    if limited.is_err() || !readable || !first {
        return eprintln!("skipped: needs root, and the kernel's log");
    }
    let text = format!("{BOUND}; echo $$ > {}/cgroup.procs; exec tail /dev/zero", group.display());
    let record = stage.run(stage.shell("aaa.1", &text));
    cgroup::remove(&group);
    let _ = std::fs::remove_dir(group.parent().unwrap());
    assert_eq!((record.status, record.oom), (ExitStatus::Signaled { signal: libc::SIGKILL }, Some(Oom::Host)));
}
