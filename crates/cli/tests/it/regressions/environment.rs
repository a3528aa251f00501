//! 16, 20: a job sees the GPUs it was given and no others; a secret is seen by the job and nobody else.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_testkit::{Nexus, Output, proc, until};

use super::wait_for;
use crate::NEXUS;

#[test]
fn r16_the_gpus_of_a_job_cannot_be_overridden() {
    let nexus = Nexus::fresh(NEXUS)
        .env("CUDA_VISIBLE_DEVICES", "7")
        .env("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
        .env("NEXUS_GPU_ID", "7")
        .env("NEXUS_JOB_ID", "forged");
    nexus.start(3);
    let show = "cat /proc/self/environ | tr '\\0' '\\n' | grep -E '^(CUDA_|NEXUS_GPU_ID|NEXUS_JOB_ID)' | sort";
    for (options, gpus) in [
        (&["--on", "1"][..], "1"),
        (&["--gpus", "2", "--on", "0,2"], "0,2"),
        (&["--gpus", "3"], "0,1,2"),
        (&["--gpus", "0"], ""),
    ] {
        let id = nexus.add_with(options, show);
        nexus.ended(&id);
        let expected = format!(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES={gpus}\nNEXUS_GPU_ID={gpus}\nNEXUS_JOB_ID={id}\n"
        );
        assert_eq!(nexus.stdout_of(&id), expected, "{options:?}");
    }

    nexus.file("vars", "A=1\nCUDA_VISIBLE_DEVICES=7\n");
    for options in
        [&["--env", "CUDA_VISIBLE_DEVICES=7"][..], &["--env", "CUDA_DEVICE_ORDER=x"], &["--env-file", "vars"]]
    {
        let told = nexus.fails(2, &[&["add"], options, &["true"]].concat());
        assert!(told.contains("is set by nexus itself"), "{told}");
    }
    assert_eq!(nexus.json(&["ls", "--json"]), serde_json::json!([]));
    // A job that a job submits has its own, and the rerun of one too.
    let outer =
        nexus.add_with(&["--on", "1", "--env", &format!("SHOW={show}")], &format!("{NEXUS} add -q --on 2 \"$SHOW\""));
    assert_eq!(nexus.ended(&outer)["state"], "completed");
    let inner = nexus.stdout_of(&outer).trim_end().to_string();
    for id in [inner.clone(), nexus.ok(&["rerun", &inner])] {
        nexus.ended(&id);
        let seen = nexus.stdout_of(&id);
        assert!(seen.contains("CUDA_VISIBLE_DEVICES=2\n") && seen.contains(&format!("NEXUS_JOB_ID={id}\n")), "{seen}");
    }
}

const SECRET: &str = "hf-vErYsEcReT-0123456789";

/// Files of the home, by name or content, in which a secret stands.
pub fn files_with(nexus: &Nexus, secret: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, secret: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            // Files come and go while the service works.
            let Ok(kind) = entry.file_type() else { continue };
            let bytes = if kind.is_file() { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
            let inside = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            if inside || path.to_string_lossy().contains(secret) {
                found.push(path.clone());
            }
            if kind.is_dir() {
                walk(&path, secret, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(&nexus.home(), secret, &mut found);
    found
}

#[track_caller]
pub fn vanishes(nexus: &Nexus, secret: &str, when: &str) {
    let mut left = Vec::new();
    let start = std::time::Instant::now();
    // Long enough for an idle moment of a busy service; shorter than the deadline, so that the files are named.
    while start.elapsed() < std::time::Duration::from_secs(10) {
        left = files_with(nexus, secret);
        if left.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{when}: the secret stands in {left:?}");
}

#[track_caller]
fn views_hide(nexus: &Nexus, ids: &[&str]) {
    let lists: &[&[&str]] = &[&["status"], &["ls"], &["queue"], &["history"], &["doctor"]];
    let shows = ids.iter().map(|id| vec!["show", *id]);
    for view in lists.iter().map(|view| view.to_vec()).chain(shows) {
        for json in [false, true] {
            let shown = nexus.run(&[&view[..], if json { &["--json"][..] } else { &[] }].concat());
            assert!(!shown.stdout.contains(SECRET) && !shown.stderr.contains(SECRET), "{shown}");
        }
    }
    let argv: Vec<u32> = proc::all().into_iter().filter(|pid| proc::cmdline(*pid).contains(SECRET)).collect();
    assert_eq!(argv, [0; 0], "in an argv");
}

/// Leaves what it got outside of the home.
const USE_IT: &str = "printf %s \"$HF_TOKEN\" > got-$NEXUS_JOB_ID";

fn got(nexus: &Nexus, id: &str) -> String {
    std::fs::read_to_string(nexus.work().join(format!("got-{id}"))).unwrap()
}

fn with_secret(nexus: &Nexus, args: &[&str]) -> String {
    let done = nexus.command(args).env("HF_TOKEN", SECRET).output().unwrap();
    Output::new(args.join(" "), done).expect_code(0).stdout.trim_end().to_string()
}

#[test]
fn r20_a_secret_is_nowhere_once_its_job_has_ended() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (command, state) in [(USE_IT.to_string(), "completed"), (format!("{USE_IT}; exit 3"), "failed")] {
        let id = with_secret(&nexus, &["add", &command]);
        assert_eq!(nexus.ended(&id)["state"], state);
        assert_eq!(got(&nexus, &id), SECRET);
        vanishes(&nexus, SECRET, state);
        assert!(nexus.job(&id)["env_names"].as_array().unwrap().iter().any(|name| name == "HF_TOKEN"));
        assert!(!nexus.ok(&["show", &id, "--env", "--json"]).contains(SECRET));
    }

    let command = format!("{USE_IT}; {}", wait_for("never"));
    let running = with_secret(&nexus, &["add", "--name", "n", "--tag", "t", &command]);
    nexus.in_state(&running, "running");
    let queued = with_secret(&nexus, &["add", USE_IT]);
    let held = with_secret(&nexus, &["add", "--hold", USE_IT]);
    views_hide(&nexus, &[&running, &queued, &held]);
    assert!(!files_with(&nexus, SECRET).is_empty(), "it is kept while it is needed, or this test looks at nothing");
    nexus.ok(&["remove", "-y", &queued, &held]);
    until("the job has it", || (got(&nexus, &running) == SECRET).then_some(()));
    nexus.ok(&["kill", &running]);
    vanishes(&nexus, SECRET, "killed and removed");
    views_hide(&nexus, &[&running, &queued, &held]);
}

#[test]
fn r20_a_secret_does_not_outlive_its_job_through_stop_or_crash() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = with_secret(&nexus, &["add", &wait_for("never")]);
    nexus.in_state(&id, "running");
    nexus.ok(&["stop", "-y"]);
    vanishes(&nexus, SECRET, "stopped with its job");

    nexus.ok(&["start"]);
    let service = nexus.service_pid();
    let id = with_secret(&nexus, &["add", "--hold", "true"]);
    nexus.ok(&["remove", &id]);
    nexus_testkit::kill(service, nexus_testkit::signal::SIGKILL);
    until("the service is gone", || (!nexus_testkit::alive(service)).then_some(()));
    nexus.ok(&["start"]);
    vanishes(&nexus, SECRET, "crashed after its job was removed");
}

#[test]
fn r20_a_secret_goes_even_while_the_service_is_never_idle() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.add_with(&["--hold"], "true");
    let id = with_secret(&nexus, &["add", "--hold", "true"]);
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As a page or a script does that asks again and again.
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                nexus.ok(&["queue"]);
            }
        });
        nexus.ok(&["remove", &id]);
        let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vanishes(&nexus, SECRET, "while asked")));
        enough.store(true, Ordering::Relaxed);
        gone.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn r20_rerun_takes_secrets_from_its_caller() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = with_secret(&nexus, &["add", "--env", "OPEN=kept", &format!("{USE_IT}; echo $OPEN")]);
    nexus.ended(&id);
    let mut rerun = nexus.command(&["rerun", &id]);
    rerun.env("HF_TOKEN", "another-value").env("WANDB_API_KEY", "not-asked-for");
    let said = Output::new("rerun".into(), rerun.output().unwrap()).expect_code(0);
    assert_eq!(said.stderr, "", "nothing is missing");
    let again = said.stdout.trim_end().to_string();
    assert_eq!(nexus.ended(&again)["state"], "completed");
    assert_eq!((got(&nexus, &again).as_str(), nexus.stdout_of(&again).as_str()), ("another-value", "kept\n"));
    let said = nexus.run(&["rerun", &id]).expect_code(0);
    let without = said.stdout.trim_end().to_string();
    let expected =
        format!("note: job {without} without HF_TOKEN: such values are dropped when a job ends, and none is set here;");
    assert!(said.stderr.starts_with(&expected), "{}", said.stderr);
    assert!(said.stderr.contains("export HF_TOKEN=…") && said.stderr.contains("nexus var set"), "{}", said.stderr);
    nexus.ended(&without);
    assert_eq!(got(&nexus, &without), "", "who has none gives none");
    for secret in [SECRET, "another-value", "not-asked-for"] {
        vanishes(&nexus, secret, "reruns");
    }
}
