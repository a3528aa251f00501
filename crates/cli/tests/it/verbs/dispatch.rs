//! `run --commands-file`: a file of commands, each of them a job; a log of each, and a file that says what became of them.

use std::collections::BTreeSet;
use std::path::Path;

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

/// Objects of a file of jobs, in their order.
pub fn objects(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// What became of the job with this command: its states, one after the other.
fn states(objects: &[Value], command: &str) -> Vec<String> {
    let own = objects.iter().filter(|object| object["command"] == command);
    own.map(|object| object["status"].as_str().unwrap().to_string()).collect()
}

/// A program called python that says what it was given.
fn with_python(nexus: Nexus) -> Nexus {
    use std::os::unix::fs::PermissionsExt;
    let bin = nexus.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let python = nexus.file("bin/python", "#!/bin/sh\necho \"$@ on $CUDA_VISIBLE_DEVICES\"\n");
    std::fs::set_permissions(python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    nexus.env("PATH", &path)
}

#[test]
fn the_quick_start_of_the_document() {
    let nexus = with_python(Nexus::fresh(NEXUS));
    nexus.start(1);
    nexus.file("commands.txt", "python train.py --batch-size 128\npython inference.py --input-dir ./data\n");
    let words = ["run", "--commands-file", "commands.txt", "--min-free-mem-mb", "8000"];
    let done = nexus.run_limited(&words).expect_code(0);
    assert_eq!(done.stdout, "", "all that it says is talk");
    assert!(done.stderr.contains("queueing 2 commands; "), "{done}");
    assert!(done.stderr.ends_with("2 jobs: all completed\n"), "{done}");
    let shown = nexus.ok(&["run", "--status"]);
    let expected = "\
[✓] python train.py --batch-size 128       → GPU 0 → Completed
[✓] python inference.py --input-dir ./data → GPU 0 → Completed";
    assert_eq!(shown, expected);
    let objects = objects(&nexus.work().join("jobs.jsonl"));
    assert_eq!(states(&objects, "python train.py --batch-size 128"), ["pending", "running", "completed"]);
    let keys = "id command status pid gpu_id start_time end_time exit_code log_file time";
    for object in &objects {
        let found: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, keys.split(' ').collect());
    }
    let last = objects.iter().rfind(|object| object["command"] == "python train.py --batch-size 128").unwrap();
    let job = nexus.job(last["id"].as_str().unwrap());
    assert_eq!((&job["request"]["vram_mib"], &job["cwd"]), (&json!(8000), &json!(nexus.work())));
    for (name, of_job) in
        [("pid", "pid"), ("exit_code", "exit_code"), ("start_time", "started_at"), ("end_time", "ended_at")]
    {
        assert_eq!(last[name], job[of_job], "{name}");
    }
    let log = last["log_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(log).unwrap(), "train.py --batch-size 128 on 0\n");
    assert!(log.starts_with(nexus.work().join("job_logs/job_").to_str().unwrap()), "{log}");
}

#[test]
fn the_configuration_of_the_document_and_options_over_it() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let config = "gpu_ids: [0, 1, 2]          # Which GPUs to use\nmin_free_mem_mb: 10000\npoll_interval: 30\n\
        commands_file: jobs.txt\nlog_dir: ./job_logs\njobs_file: ./queue.jsonl\n";
    nexus.file("config.yaml", config);
    nexus.file("jobs.txt", "# comments start with #\necho resnet\n\necho data --workers 4\n");
    nexus.run_limited(&["run", "--config", "config.yaml"]).expect_code(0);
    let objects = objects(&nexus.work().join("queue.jsonl"));
    assert_eq!(states(&objects, "echo data --workers 4"), ["pending", "running", "completed"]);
    let job = nexus.job("last");
    assert_eq!((&job["request"]["on"], &job["request"]["vram_mib"]), (&json!([0, 1, 2]), &json!(10000)));
    assert_eq!(std::fs::read_dir(nexus.work().join("job_logs")).unwrap().count(), 2);
    // Options of add hold for every command; those of the dispatcher go over the file.
    let more = ["--gpu-ids", "3", "--log-dir", "elsewhere/deep", "--jobs-file", "other.jsonl", "--env", "A=b", "-q"];
    nexus.file("jobs.txt", "echo $A\n#@ vram=1G priority=-2\necho own\n");
    let done = nexus.run_limited(&[&["run", "--config", "config.yaml"], &more[..]].concat()).expect_code(0);
    assert_eq!(done.stderr, "", "quiet says nothing");
    let job = nexus.job("last");
    assert_eq!((&job["request"]["on"], &job["gpus"]), (&json!([3]), &json!([3])));
    assert_eq!((&job["request"]["vram_mib"], &job["priority"]), (&json!(1024), &json!(-2)), "said above the line");
    let shown = nexus.ok(&["run", "--status", "--config", "config.yaml"]);
    assert_eq!(shown.lines().count(), 2, "the file of jobs that the configuration names: {shown}");
    let shown = nexus.json(&["run", "--status", "--jobs-file", "other.jsonl", "--json"]);
    let log = shown[0]["log_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(log).unwrap(), "b\n", "{shown}");
    assert!(log.starts_with(nexus.work().join("elsewhere/deep/").to_str().unwrap()), "{log}");
}

#[test]
fn without_a_minimum_each_command_has_its_gpu_alone() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.file("c", &"until [ -e go ]; do sleep 0.02; done\n".repeat(3));
    let run = nexus.piped(&["run", "--commands-file", "c"]);
    let shown = || nexus.run(&["run", "--status"]).stdout;
    until("two of three run", || (shown().matches("→ Running (PID ").count() == 2).then_some(()));
    assert_eq!(shown().matches("[ ] until [ -e go ]; do sleep 0.02; done → GPU N/A → Pending\n").count(), 1);
    nexus.file("go", "");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    let gpus: Vec<Value> =
        nexus.json(&["run", "--status", "--json"]).as_array().unwrap().iter().map(|it| it["gpu_id"].clone()).collect();
    assert!(gpus.iter().all(Value::is_number), "{gpus:?}");
}

#[test]
fn the_status_has_a_line_for_each_state() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let file = nexus.work().join("jobs.jsonl");
    nexus.file("c", &format!("true\nexit 3\nkill -9 $$\n{LONG}\necho waits\n"));
    let run = nexus.piped(&["run", "--commands-file", "c", "--gpu-ids", "1"]);
    let object = until("the long one runs", || {
        objects(&file).into_iter().find(|object| object["command"] == LONG && object["status"] == "running")
    });
    let expected = format!(
        "\
[✓] true       → GPU 1 → Completed
[!] exit 3     → GPU 1 → Failed (exit 3)
[!] kill -9 $$ → GPU 1 → Failed (signal 9)
[→] sleep 1000 → GPU 1 → Running (PID {})
[ ] echo waits → GPU N/A → Pending",
        object["pid"]
    );
    let before = std::fs::read(&file).unwrap();
    assert_eq!(nexus.ok(&["run", "--status"]), expected);
    assert_eq!(std::fs::read(&file).unwrap(), before, "a look writes nothing");
    nexus.ok(&["remove", "/echo waits/"]);
    nexus.ok(&["kill", object["id"].as_str().unwrap()]);
    let done = run.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stderr));
    let shown = nexus.ok(&["run", "--status"]);
    assert!(shown.contains("[!] sleep 1000 → GPU 1 → Failed (killed)\n"), "{shown}");
    assert!(shown.ends_with("[!] echo waits → GPU N/A → Failed (killed)"), "{shown}");
    nexus.ok(&["stop", "-y"]);
    let shown = nexus.run(&["run", "--status"]).expect_code(0);
    assert!(shown.stdout.contains("[!] sleep 1000 → GPU 1 → Failed\n"), "{shown}");
    assert!(shown.stdout.contains("[!] kill -9 $$ → GPU 1 → Failed (signal 9)\n"), "{shown}");
    assert!(shown.stderr.starts_with("note: no service runs: this is what "), "{shown}");
    assert!(!nexus.home().join("nexus.sock").exists(), "a look starts no service");
    let array = nexus.json(&["run", "--status", "--json"]);
    let last: Vec<&str> = array.as_array().unwrap().iter().map(|object| object["status"].as_str().unwrap()).collect();
    assert_eq!(last, ["completed", "failed", "failed", "failed", "failed"]);
    assert_eq!((&array[3]["exit_code"], &array[2]["exit_code"]), (&Value::Null, &json!(-9)));
}

#[test]
fn logs_of_one_second_are_apart() {
    let nexus = Nexus::with_gpus(NEXUS, 12);
    nexus.file("c", &"echo $NEXUS_JOB_ID; echo err >&2\n".repeat(12));
    nexus.run_limited(&["run", "--commands-file", "c"]).expect_code(0);
    let jobs = nexus.json(&["run", "--status", "--json"]);
    let mut names = BTreeSet::new();
    let (mut plain, mut own) = (0, 0);
    for job in jobs.as_array().unwrap() {
        let (id, log) = (job["id"].as_str().unwrap(), job["log_file"].as_str().unwrap());
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains(&format!("{id}\n")) && text.len() == id.len() + 5, "{log}: {text}");
        let name = Path::new(log).file_stem().unwrap().to_str().unwrap().to_string();
        let parts: Vec<&str> = name.split('_').collect();
        assert!(matches!(parts[..], ["job", day, time, ..] if day.len() == 8 && time.len() == 6), "{name}");
        match parts.get(3) {
            None => plain += 1,
            Some(suffix) => {
                assert_eq!(*suffix, id);
                own += 1;
            }
        }
        assert_eq!(nexus.job(id)["runs"][0]["out"], log);
        assert!(names.insert(name));
    }
    assert!(plain >= 1 && own >= 1, "twelve jobs do not take twelve seconds: {names:?}");
}

#[test]
fn a_retry_has_a_log_of_its_own() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(1);
    let command = "echo attempt $NEXUS_ATTEMPT; exit $((3 - NEXUS_ATTEMPT))";
    nexus.file("c", &format!("{command}\n"));
    nexus.run_limited(&["run", "--commands-file", "c", "--retries", "2"]).expect_code(0);
    let runs = nexus.job("last")["runs"].as_array().unwrap().clone();
    let log = |run: &Value| std::fs::read_to_string(run["out"].as_str().unwrap()).unwrap();
    assert_eq!(runs.iter().map(log).collect::<Vec<_>>(), ["attempt 1\n", "attempt 2\n", "attempt 3\n"]);
    let last = objects(&nexus.work().join("jobs.jsonl")).pop().unwrap();
    assert_eq!((&last["status"], &last["log_file"]), (&json!("completed"), &runs[2]["out"]));
    assert!(nexus.ok(&["show", "last"]).contains(&format!("Copy:        {}", runs[2]["out"].as_str().unwrap())));
}

#[test]
fn the_folder_is_kept_when_the_queue_is_edited() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.file("c", "echo x\n");
    let run = nexus.piped(&["run", "--commands-file", "c", "--log-dir", "logs"]);
    until("it waits", || (nexus.json(&["queue", "--json"])[0]["state"] == "queued").then_some(()));
    let text = until("jobs.txt has it", || {
        let text = std::fs::read_to_string(nexus.home().join("jobs.txt")).ok()?;
        text.contains("echo x").then_some(text)
    });
    assert!(text.contains(&format!("out-dir={}", nexus.work().join("logs").display())), "{text}");
    nexus.ok(&["edit", "last", "--priority", "3"]);
    let said = nexus.fails(1, &["edit", "last", "--out", "x"]);
    assert!(said.contains("one further copy of the output"), "{said}");
    nexus.ok(&["resume"]);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(std::fs::read_dir(nexus.work().join("logs")).unwrap().count(), 1);
}
