//! 1, 3, 4, 26, 32: the service dies, is replaced, the machine reboots. Nothing accepted is lost, nothing is mixed up.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use nexus_testkit::{DEADLINE, Nexus, alive, kill, signal, until};
use serde_json::{Value, json};

use super::{open_gate, wait_for};
use crate::NEXUS;

/// Submits over the socket, and leaves the answer to be read.
fn submit_raw(nexus: &Nexus) -> UnixStream {
    let body = json!([{ "command": { "shell": "true" }, "cwd": nexus.work(), "hold": true }]).to_string();
    let mut socket = UnixStream::connect(nexus.home().join("nexus.sock")).expect("the service listens");
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: nexus\r\nContent-Type: application/json\r\n";
    write!(socket, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("the service reads");
    socket
}

#[test]
fn r01_an_acknowledged_add_survives_kill_9() {
    let nexus = Nexus::with_gpus(NEXUS, 0);
    let mut acknowledged = 0;
    for round in 0..6 {
        let service = nexus.service_pid();
        if round % 2 == 0 {
            let held = nexus.hold_writes();
            let mut socket = submit_raw(&nexus);
            let mut first = [0; 12];
            socket.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
            assert!(socket.read_exact(&mut first).is_err(), "it was acknowledged before it could be on disk");
            drop(held);
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            socket.read_exact(&mut first).expect("the service answers");
            // At the first byte of the answer, sooner than any client can.
            kill(service, signal::SIGKILL);
            assert_eq!(String::from_utf8_lossy(&first), "HTTP/1.1 200");
            acknowledged += 1;
        } else {
            let ids = nexus.ok(&["add", "--hold", "-x", "20", "true"]);
            kill(service, signal::SIGKILL);
            acknowledged += ids.lines().count();
        }
        until("the service is gone", || (!alive(service)).then_some(()));
        nexus.ok(&["start"]);
        let there = nexus.json(&["ls", "--json"]);
        assert_eq!(there.as_array().unwrap().len(), acknowledged, "round {round}");
    }
}

#[test]
fn r03_a_crash_loses_neither_exit_code_nor_gpu() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    // A folder stands while a job uses the GPU: if that is given away, its second user fails with 66.
    let on_gpu = |gate: &str, code: u8| {
        let folder = "gpu-$CUDA_VISIBLE_DEVICES";
        format!("mkdir {folder} || exit 66; echo here; {}; rmdir {folder}; exit {code}", wait_for(gate))
    };
    let early = nexus.add(&on_gpu("early", 7));
    let late = nexus.add(&on_gpu("late", 9));
    let before: Vec<Value> = [&early, &late].map(|id| nexus.in_state(id, "running")).into();
    until("both are on their GPU", || {
        [&early, &late].iter().all(|id| nexus.stdout_of(id).contains("here")).then_some(())
    });
    let queued = [nexus.add(&on_gpu("rest", 0)), nexus.add(&on_gpu("rest", 0))];
    let shim = nexus.shim(&early);

    nexus.kill_service();
    open_gate(&nexus, "early");
    until("the first job has ended unseen", || (!alive(shim)).then_some(()));
    nexus.ok(&["start"]);

    let job = nexus.ended(&early);
    assert_eq!((&job["state"], &job["reason"], &job["exit_code"]), (&json!("failed"), &json!("exit"), &json!(7)));
    let next = nexus.in_state(&queued[0], "running");
    assert_eq!(next["gpus"], before[0]["gpus"], "the GPU that is free");
    let waits = nexus.job(&queued[1]);
    assert_eq!((&waits["state"], &waits["waiting"]["kind"]), (&json!("queued"), &json!("gpus")), "{waits}");
    let job = nexus.job(&late);
    assert_eq!((&job["state"], &job["pid"], &job["gpus"]), (&json!("running"), &before[1]["pid"], &before[1]["gpus"]));

    open_gate(&nexus, "late");
    let job = nexus.ended(&late);
    assert_eq!((&job["state"], &job["reason"], &job["exit_code"]), (&json!("failed"), &json!("exit"), &json!(9)));
    assert_eq!(job["runs"].as_array().unwrap().len(), 1, "{job}");
    open_gate(&nexus, "rest");
    for id in &queued {
        let job = nexus.ended(id);
        assert_eq!(job["state"], "completed", "{job}");
    }
}

#[test]
fn r04_no_lease_outlives_its_job() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let [ends, orphaned, dead] = ["ends", "never", "never"].map(|gate| nexus.add(&wait_for(gate)));
    let all = [&ends, &orphaned, &dead];
    let shims = all.map(|id| nexus.shim(id));
    let pids = all.map(|id| nexus.in_state(id, "running")["pid"].as_u64().unwrap() as u32);

    nexus.kill_service();
    open_gate(&nexus, "ends");
    kill(shims[1], signal::SIGKILL);
    kill(shims[2], signal::SIGKILL);
    kill(pids[2], signal::SIGKILL);
    until("all shims are gone", || shims.iter().all(|pid| !alive(*pid)).then_some(()));
    nexus.ok(&["start"]);

    assert_eq!(nexus.ended(&ends)["state"], "completed");
    for id in [&orphaned, &dead] {
        let job = nexus.ended(id);
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("lost")), "{job}");
    }
    assert!(pids.iter().all(|pid| !alive(*pid)), "a lost job still runs while its GPU is free");
    let status = nexus.json(&["status", "--json"]);
    for gpu in status["machines"][0]["gpus"].as_array().unwrap() {
        assert_eq!(gpu["jobs"], json!([]), "{gpu}");
    }
    let wide = nexus.add_with(&["--gpus", "3"], "true");
    assert_eq!(nexus.ended(&wide)["state"], "completed");
}

/// A process of somebody else's, in a session of its own.
struct Foreign(Child);

impl Foreign {
    fn start() -> Foreign {
        Foreign(Command::new("setsid").args(["sleep", "300"]).spawn().expect("sleep runs"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// As field 22 of `/proc/PID/stat` says.
    fn start_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(19).unwrap().parse().unwrap()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn r26_a_reused_pid_is_no_running_job() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let rebooted = nexus.add(&wait_for("never"));
    let retried = nexus.add_with(&["--retries", "1"], &wait_for("never"));
    let same_boot = nexus.add(&wait_for("never"));
    let all = [&rebooted, &retried, &same_boot];
    let records: Vec<Value> = all.iter().map(|id| nexus.started(id)).collect();
    for id in all {
        nexus.in_state(id, "running");
    }

    nexus.kill_service();
    let foreign = [Foreign::start(), Foreign::start(), Foreign::start()];
    for ((id, mut record), foreign) in all.into_iter().zip(records).zip(&foreign) {
        for pid in ["shim_pid", "pid"].map(|name| record[name].as_u64().unwrap() as u32) {
            kill(pid, signal::SIGKILL);
            until("it is gone", || (!alive(pid)).then_some(()));
        }
        record["shim_pid"] = json!(foreign.pid());
        record["pid"] = json!(foreign.pid());
        if *id == same_boot {
            // Started long before: whoever has the pid now got it later.
            for began in ["shim_start", "started_ticks"] {
                assert!(record[began].is_u64(), "{began}");
                record[began] = json!(foreign.start_ticks().saturating_sub(100_000));
            }
        } else {
            record["shim_start"] = json!(foreign.start_ticks());
            record["boot_id"] = json!("a-boot-before-this-one");
        }
        std::fs::write(nexus.run_dir(id, 1).join("started"), record.to_string()).unwrap();
    }
    nexus.ok(&["start"]);

    for id in [&rebooted, &same_boot] {
        let job = nexus.ended(id);
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("lost")), "{job}");
    }
    let job = nexus.in_state(&retried, "queued");
    assert_eq!((&job["waiting"]["kind"], &job["attempt"]), (&json!("retry"), &json!(1)), "{job}");
    assert_eq!(job["runs"][0]["outcome"]["word"], "lost", "{job}");
    let wide = nexus.add_with(&["--gpus", "3"], "true");
    assert_eq!(nexus.ended(&wide)["state"], "completed");
    for foreign in &foreign {
        assert!(alive(foreign.pid()), "a foreign process was taken for a job");
    }
}

#[test]
fn r32_jobs_outlive_stop_restart_and_upgrade() {
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("nexus");
    std::fs::copy(NEXUS, &program).unwrap();
    let nexus = Nexus::with_gpus(program.to_str().unwrap(), 2);
    let id = nexus.add(&format!("echo before; {}; echo after; exit 5", wait_for("end")));
    let pid = nexus.in_state(&id, "running")["pid"].clone();
    let runs_on = |when: &str| {
        let job = nexus.job(&id);
        assert_eq!((&job["state"], &job["pid"], &job["attempt"]), (&json!("running"), &pid, &json!(1)), "{when}");
    };

    nexus.ok(&["stop", "--keep-jobs"]);
    assert!(alive(pid.as_u64().unwrap() as u32));
    nexus.ok(&["start"]);
    runs_on("after stop --keep-jobs and start");

    let service = nexus.service_pid();
    nexus.ok(&["restart"]);
    assert_ne!(nexus.service_pid(), service);
    runs_on("after restart");

    let newer = programs.path().join("newer");
    std::fs::copy(NEXUS, &newer).unwrap();
    std::fs::rename(&newer, &program).unwrap();
    runs_on("after the program was replaced");
    assert_eq!(nexus.done("true")["state"], "completed", "the old service goes on");
    nexus.ok(&["restart"]);
    runs_on("after the upgrade");
    assert_eq!(nexus.done("true")["state"], "completed", "the new service runs jobs");

    open_gate(&nexus, "end");
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["exit_code"]), (&json!("failed"), &json!(5)), "{job}");
    assert_eq!(job["runs"].as_array().unwrap().len(), 1, "{job}");
    assert_eq!(nexus.stdout_of(&id), "before\nafter\n");
}
