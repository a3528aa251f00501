//! Ended jobs of an export in the history of another home.

use std::path::Path;

use nexus_testkit::{Nexus, request, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

/// Sends lines as `nexus import --as-history` does; the answer.
#[track_caller]
fn take_over(nexus: &Nexus, first_line: u64, lines: &str) -> Value {
    let path = format!("/v1/history?first_line={first_line}");
    let (status, answer) = request(&nexus.home().join("nexus.sock"), "POST", &path, lines);
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

fn took(taken: u64, known: u64) -> Value {
    json!({"taken": taken, "known": known, "refused": []})
}

/// A home with a job for each way to end, and two that have not.
fn of_all_kinds() -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1s\"\n");
    nexus.start(2);
    let options = ["--name", "n", "--project", "p", "--tag", "b", "--tag", "a", "--env", "A=1", "--env", "MY_TOKEN=x"];
    nexus.add_with(&options, "echo \"$A-$MY_TOKEN-$HOME\"; ls / >/dev/null");
    nexus.ok(&["add", "--gpus", "0.5", "--vram", "1G", "--", "sh", "-c", "exit 3", "a b"]);
    nexus.add_with(&["--retries", "1", "--priority", "-3", "--gpus", "2"], "exit $NEXUS_ATTEMPT");
    nexus.add_with(&["--time", "1s", "--grace", "1s"], LONG);
    let killed = nexus.add("kill -9 $$");
    nexus.add_with(&["--after", &killed], "echo 'two\nlines'");
    nexus.add("/no/such/program");
    let user = nexus.add(LONG);
    nexus.in_state(&user, "running");
    nexus.ok(&["kill", &user]);
    let removed = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["remove", &removed]);
    nexus.run(&["wait", "--all"]);
    nexus.add_with(&["--hold"], "echo waits");
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    nexus
}

/// A listing without what lies elsewhere: the folder of the logs is that of the home.
fn told(nexus: &Nexus, args: &[&str]) -> Value {
    let mut jobs = nexus.json(args);
    for job in jobs.as_array_mut().unwrap() {
        for field in ["log_dir", "stdout_path", "stderr_path"] {
            let path = job[field].as_str().unwrap().to_string();
            let inside = Path::new(&path).strip_prefix(nexus.home()).expect("it is in the home");
            job[field] = json!(inside);
        }
    }
    jobs
}

/// A line with changes in it.
fn changed(line: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut job: Value = serde_json::from_str(line).unwrap();
    change(&mut job);
    format!("{job}\n")
}

/// An id like none of those that are given out at first.
fn letters(mut number: usize) -> String {
    let mut text = String::from("z");
    for _ in 0..5 {
        text.push(char::from(b"abcdefghijkmnopqrstuvwxyz"[number % 25]));
        number /= 25;
    }
    text
}

#[test]
fn history_comes_back_as_it_was() {
    let old = of_all_kinds();
    let new = Nexus::with_gpus(NEXUS, 1);
    let mine = new.done("echo mine")["id"].as_str().unwrap().to_string();
    let all = old.ok(&["export", "--state", "ended"]) + "\n";
    let count = all.lines().count() as u64;
    assert_eq!(count, 9);
    assert_eq!(take_over(&new, 1, &all), took(count, 0));

    let listing = ["history", "--all", "--json"];
    let (before, mut after) = (told(&old, &listing), told(&new, &listing));
    // They ended before the one that was here.
    assert_eq!(after.as_array_mut().unwrap().pop().map(|job| job["id"].clone()), Some(json!(mine)));
    assert_eq!(before, after);
    let again = new.ok(&["export", "--state", "ended"]) + "\n";
    let elsewhere = |nexus: &Nexus| nexus.home().display().to_string();
    let (first, last) = again.trim_end().rsplit_once('\n').unwrap();
    assert!(last.contains(&mine), "{last}");
    assert_eq!(first.replace(&elsewhere(&new), &elsewhere(&old)), all.trim_end());

    // Nothing twice, and nothing else.
    assert_eq!(take_over(&new, 1, &all), took(0, count));
    assert_eq!(new.ok(&["export", "--state", "ended"]) + "\n", again);
    let status = new.json(&["status", "--json"]);
    assert_eq!((&status["completed"], &status["failed"], &status["killed"]), (&json!(2), &json!(6), &json!(2)));
    assert_eq!(status["failures"], json!([]), "no news");
    assert!(new.service_log().contains("9 ended jobs taken over as history by user\n"));
    assert_eq!(new.json(&["show", "last", "--json"])["id"], mine.as_str(), "the newest job is one of this home");
    new.ok(&["restart"]);
    assert_eq!(new.ok(&["export", "--state", "ended"]) + "\n", again);
    assert_eq!(new.json(&["show", "last", "--json"])["id"], mine.as_str());
    assert_eq!(new.done("true")["state"], "completed");
}

#[test]
fn a_whole_home_moves_by_two_commands() {
    let old = of_all_kinds();
    let new = Nexus::with_gpus(NEXUS, 1);
    let file = new.work().join("all.jsonl").display().to_string();
    let said = old.run(&["export", "-o", &file]).expect_code(0).stderr;
    assert_eq!(said, format!("wrote 11 jobs to {file}\n"));
    let report = new.json(&["import", "--as-history", "--json", &file]);
    assert_eq!((&report["history"]["taken"], &report["history"]["known"]), (&json!(9), &json!(0)), "{report}");
    assert_eq!(told(&old, &["history", "--all", "--json"]), told(&new, &["history", "--all", "--json"]));
    let waits = new.json(&["queue", "--json"]);
    assert_eq!(
        (&waits[0]["command"], &waits[0]["state"], &waits[1]),
        (&json!("echo waits"), &json!("held"), &Value::Null)
    );
    let again = new.json(&["import", "--as-history", "--json", &file]);
    assert_eq!((&again["history"]["taken"], &again["history"]["known"]), (&json!(0), &json!(9)), "{again}");
    assert_eq!(new.json(&["queue", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_job_that_was_taken_over_is_shown_and_can_be_run_again() {
    let old = of_all_kinds();
    let new = Nexus::with_gpus(NEXUS, 2);
    let all = old.ok(&["export", "--state", "ended"]);
    take_over(&new, 1, &all);
    let id = |name: &str| {
        let job = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut found = job.filter(|job| job["command"].as_str().unwrap().contains(name));
        found.next().unwrap()["id"].as_str().unwrap().to_string()
    };
    let printed = id("MY_TOKEN");
    let shown = new.ok(&["show", &printed]);
    assert!(shown.contains("completed") && shown.contains("Tags:"), "{shown}");
    assert_eq!(new.job(&printed)["env_names"], json!(["A", "MY_TOKEN"]));
    for selector in ["tag:a", "name:n", "project:p", "/MY_TOKEN/"] {
        assert_eq!(new.json(&["show", selector, "--json"])["id"], printed.as_str(), "{selector}");
    }
    let dir = new.home().join("logs").join(format!("job_{printed}"));
    assert_eq!(
        new.fails(1, &["logs", &printed]),
        format!(
            "error: the logs of job {printed} are not here\nthere is no {}: they were deleted, or the job was taken \
             over from another home without them\nhint: nexus show {printed} tells how it ended\n",
            dir.display()
        )
    );
    let why = new.ok(&["why", &id("two\nlines")]);
    assert!(why.contains(&id("kill -9")), "{why}");

    let again = new.command(&["rerun", &printed]).env("MY_TOKEN", "y").output().unwrap();
    let again = String::from_utf8_lossy(&again.stdout).trim_end().to_string();
    let job = new.ended(&again);
    assert_eq!((&job["state"], &job["rerun_of"]), (&json!("completed"), &json!(printed)), "{job}");
    assert_eq!(new.stdout_of(&again), format!("1-y-{}\n", new.home().parent().unwrap().display()));
    // An identical job has completed, wherever that was.
    let ran = id("echo \"$A-$MY_TOKEN");
    assert_eq!(ran, printed);
    let cwd = old.work().display().to_string();
    let said = new.fails(1, &["add", "--unique", "--cwd", &cwd, "echo \"$A-$MY_TOKEN-$HOME\"; ls / >/dev/null"]);
    assert!(said.starts_with("error: an identical job is there already\n"), "{said}");
}

#[test]
fn what_does_not_fit_is_told_by_its_line_and_the_rest_counts() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("true")["id"].as_str().unwrap().to_string();
    let live = nexus.add_with(&["--hold"], "echo live");
    let text = nexus.ok(&["export"]);
    let (ended, waits) = text.split_once('\n').unwrap();
    let with_id = |id: &str| changed(ended, |job| job["id"] = json!(id));
    let lines = [
        with_id("zaa"),
        "\n".into(),
        "nonsense\n".into(),
        format!("{waits}\n"),
        with_id("queue"),
        with_id(&live),
        changed(ended, |job| job["submitted_at"] = json!("2020-01-31T12:00:00Z")),
        format!("{ended}\n"),
        with_id("zaa"),
        changed(&with_id("zaa"), |job| job["command"] = json!("another")),
        with_id("zab"),
    ];
    let answer = take_over(&nexus, 101, &lines.concat());
    let refused: Vec<(u64, &str)> = answer["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["error"].as_str().unwrap()))
        .collect();
    let expected = [
        (103, "it is no job of an export: expected ident"),
        (104, &*format!("{live} is held, and only what has ended is history")),
        (105, "queue is a word of nexus, and no id of a job"),
        (106, &*format!("{live} is a job here that has not ended")),
        (107, &*format!("{id} is another job here")),
        (110, "zaa is another job here"),
    ];
    assert_eq!(refused, expected);
    assert_eq!((&answer["taken"], &answer["known"]), (&json!(2), &json!(2)));
    assert_eq!(nexus.job(&live)["state"], "held");
    assert_eq!(nexus.json(&["status", "--json"])["completed"], 3);
    let many = "\n".repeat(20_000);
    let (status, said) = request(&nexus.home().join("nexus.sock"), "POST", "/v1/history", &many);
    assert_eq!((status, said.contains("at most 10000 are taken at once")), (400, true), "{said}");
}

#[test]
fn to_forget_one_deletes_nothing_elsewhere() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("true");
    let ended = nexus.ok(&["export"]);
    let elsewhere = nexus.work().join("logs/job_zaa");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("stdout.log"), "precious").unwrap();
    let lines = changed(&ended, |job| {
        job["id"] = json!("zaa");
        for field in ["log_dir", "stdout_path", "stderr_path"] {
            job[field] = json!(elsewhere);
        }
        job["runs"][0]["log_dir"] = json!(elsewhere);
    });
    let work = nexus.work();
    let work = work.file_name().unwrap().to_str().unwrap();
    let leads_away = changed(&ended, |job| {
        job["id"] = json!("zab");
        job["checkpoint_of"] = json!(format!("../../{work}/logs"));
    });
    let answer = take_over(&nexus, 1, &(lines + &leads_away));
    assert_eq!((&answer["taken"], &answer["refused"][0]["line"]), (&json!(1), &json!(2)), "{answer}");
    // Nor is it shown what is not its own.
    assert!(nexus.fails(1, &["logs", "zaa"]).contains("are not here"));
    nexus.ok(&["forget", "-y", "zaa"]);
    assert_eq!(std::fs::read_to_string(elsewhere.join("stdout.log")).unwrap(), "precious");
    nexus.fails(1, &["show", "zaa"]);
    assert_eq!(nexus.json(&["status", "--json"])["completed"], 1);
}

#[test]
fn a_crash_in_the_middle_leaves_nothing_half_and_nothing_twice() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.done("true")["id"].as_str().unwrap().to_string();
    let ended = nexus.ok(&["export"]);
    let lines: Vec<String> =
        (0..6000).map(|number| changed(&ended, |job| job["id"] = json!(letters(number)))).collect();
    let chunks: Vec<String> = lines.chunks(1000).map(|chunk| chunk.concat()).collect();
    assert_eq!(take_over(&nexus, 1, &chunks[0]), took(1000, 0));
    let service = nexus.service_pid();
    let socket = nexus.home().join("nexus.sock");
    std::thread::scope(|scope| {
        for chunk in &chunks[1..] {
            // Some are taken, one is cut off, the others find nobody.
            let socket = &socket;
            scope.spawn(move || std::panic::catch_unwind(|| request(socket, "POST", "/v1/history", chunk)));
        }
        let log = nexus.home().join("nexus.db-wal");
        let written_at = || std::fs::metadata(&log).unwrap().modified().unwrap();
        let before = written_at();
        until("something is being written", || (written_at() != before).then_some(()));
        nexus_testkit::kill(service, nexus_testkit::signal::SIGKILL);
    });
    until("the service is gone", || (!nexus_testkit::alive(service)).then_some(()));
    nexus.ok(&["start"]);
    let count = nexus.ok(&["export", "--state", "ended"]).lines().count() - 1;
    assert_eq!(count % 1000, 0, "each request is taken whole or not at all");
    let answers: Vec<Value> = chunks.iter().map(|chunk| take_over(&nexus, 1, chunk)).collect();
    let sum = |field: &str| answers.iter().map(|answer| answer[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("taken"), sum("known")), (6000 - count as u64, count as u64));
    let all = nexus.ok(&["export", "--state", "ended"]);
    let mut ids: Vec<String> = all
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_string())
        .collect();
    assert_eq!((ids.len(), ids.last()), (6001, Some(&id)), "what was here comes last");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6001);
    assert_eq!(nexus.json(&["status", "--json"])["completed"], 6001);
    // Ids that are given out now are longer: so many are in use.
    assert_eq!(nexus.add("true").len(), 4);
}

#[test]
fn ids_that_were_taken_over_are_given_to_no_other_job() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.done("true");
    let ended = nexus.ok(&["export"]);
    nexus.ok(&["pause"]);
    let import = |from: usize| {
        let lines: String = (from..from + 24_000).map(|number| format!("echo {number}\n")).collect();
        nexus.file("jobs", &lines);
        nexus.ok(&["import", "-q", "--format", "lines", "jobs"]).lines().count()
    };
    assert_eq!(import(0), 24_000);
    // A twentieth of those with four letters, wherever the first jobs may lie among them.
    let lines: Vec<String> = (0..25usize.pow(4))
        .step_by(19)
        .map(|number| changed(&ended, |job| job["id"] = json!(&letters(number)[1..5])))
        .collect();
    for chunk in lines.chunks(5_000) {
        take_over(&nexus, 1, &chunk.concat());
    }
    assert_eq!(import(24_000), 24_000, "none of them has an id that another has");
}
