//! Notices, told to real servers on this machine and to a real command.

mod blocked;
mod server;

use std::time::{Duration, Instant};

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use self::server::{Answer, Server};
use crate::NEXUS;

/// Waits of a few milliseconds between attempts, and three seconds for each.
const TIMES: &str = "5,3000";

/// The same, and little patience with servers that hang.
const IMPATIENT: &str = "5,300";

/// A service that tells `webhooks`, and whatever else these lines of `[notify]` say.
fn told(times: &str, webhooks: &[&Server], more: &str) -> Nexus {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_NOTIFY_TIMES", times);
    let addresses: Vec<String> = webhooks.iter().map(|server| server.address("json")).collect();
    nexus.config(&format!("[notify]\nwebhooks = {}\n{more}", json!(addresses)));
    nexus.start(2);
    nexus
}

/// The line of service.log with this in it.
#[track_caller]
fn log_line(nexus: &Nexus, part: &str) -> String {
    until(&format!("service.log says {part}"), || {
        nexus.service_log().lines().find(|line| line.contains(part)).map(String::from)
    })
}

/// What somebody would see of a notice.
fn seen(notice: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    (text(&notice["event"]), text(&notice["job"]["id"]))
}

#[test]
fn failures_are_told_and_other_ends_where_somebody_asked() {
    let server = Server::start(&[]);
    let nexus = told(TIMES, &[&server], "");
    nexus.done("true");
    let failed = nexus.done("echo 'no \"module\"' >&2; exit 3");
    let notice = server.next();
    assert_eq!(seen(&notice), ("failure".into(), failed["id"].as_str().unwrap().into()));
    assert_eq!(
        (&notice["format"], &notice["job"]["exit_code"], &notice["last_line"]),
        (&json!(1), &json!(3), &json!("no \"module\""))
    );
    let text = notice["text"].as_str().unwrap();
    assert!(
        text.contains("failed on GPU 0 after")
            && text.ends_with("it exited with code 3\necho 'no \"module\"' >&2; exit 3\nno \"module\""),
        "{text}"
    );
    let asked = nexus.add_with(&["--notify", "--name", "night"], "true");
    let notice = server.next();
    assert_eq!(seen(&notice), ("end".into(), asked.clone()));
    assert_eq!((&notice["job"]["state"], &notice["job"]["name"]), (&json!("completed"), &json!("night")));
    let shown = nexus.ok(&["show", &asked]);
    assert!(shown.contains("Notify:      when it ends\n"), "{shown}");
    let again = nexus.ok(&["rerun", &asked]);
    assert_eq!(seen(&server.next()), ("end".into(), again), "it is part of the job");
    let held = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["edit", &held, "--notify"]);
    nexus.ok(&["release", &held]);
    assert_eq!(seen(&server.next()), ("end".into(), held));
    assert_eq!(server.left(), 0);
}

#[test]
fn each_event_can_be_asked_for() {
    let server = Server::start(&[]);
    let nexus = told(TIMES, &[&server], "on = [\"start\", \"end\", \"sweep-end\", \"queue-empty\"]\n");
    let id = nexus.add("true");
    let told = [server.next(), server.next(), server.next()].map(|notice| seen(&notice));
    assert_eq!(told, [("start".into(), id.clone()), ("end".into(), id), ("queue-empty".into(), String::new())]);
    nexus.ok(&["config", "set", "notify.on", "sweep-end"]);
    let held = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["sweep", "--name", "grid", "exit {code}", "code=0,1,0"]);
    let notice = server.next();
    assert_eq!(notice["event"], "sweep-end");
    let sweep = json!({"name": "grid", "command": "exit {code}", "jobs": 3, "completed": 2, "failed": 1, "killed": 0});
    assert_eq!(notice["sweep"], sweep);
    nexus.ok(&["config", "set", "notify.on", "queue-empty"]);
    // That a held one goes leaves the queue as empty as it was.
    nexus.ok(&["remove", &held]);
    nexus.ok(&["sweep", "--notify", "exit {code}", "code=0,1"]);
    let last = [server.next(), server.next()];
    assert_eq!(
        last.each_ref().map(|notice| seen(notice).0),
        ["sweep-end", "queue-empty"],
        "of a sweep, its end was asked for"
    );
    assert_eq!(server.left(), 0);
}

#[test]
fn without_anybody_to_tell_it_is_said_what_to_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for typed in [
        &["add", "--notify", "true"][..],
        &["sweep", "--notify", "exit {x}", "x=1,2"],
        &["notify", "test"],
        &["add", "--notify", "--dry-run", "true"],
    ] {
        let said = nexus.fails(1, typed);
        assert!(
            said.contains("there is nobody to be told") && said.contains("hint: nexus config set notify.webhooks"),
            "{said}"
        );
    }
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
}

#[test]
fn jobs_go_on_while_servers_hang_refuse_and_fail() {
    let (hangs, refuses, good) = (Server::start(&[Answer::Hang]), Server::closed(), Server::start(&[]));
    let (slow, broken) =
        (Server::start(&[Answer::After(Duration::from_millis(200))]), Server::start(&[Answer::Status(500)]));
    let nexus = told(IMPATIENT, &[&hangs, &refuses, &slow, &broken, &good], "on = [\"end\"]\n");
    let began = Instant::now();
    let ids: Vec<String> = (0..20).map(|_| nexus.add("true")).collect();
    nexus.ok(&["wait", "--all"]);
    assert!(began.elapsed() < Duration::from_secs(30), "they waited: {:?}", began.elapsed());
    let mut heard = 0;
    while heard < ids.len() {
        heard += good.next()["digest"].as_object().map_or(1, |digest| digest["completed"].as_u64().unwrap() as usize);
    }
    for (server, why) in [
        (&hangs, "it did not answer within 0.3s"),
        (&refuses, "the connection was refused"),
        (&broken, "it answered 500 Internal Server Error: no"),
    ] {
        let line = log_line(&nexus, &format!("{}: the end of job", server.shown()));
        assert!(line.ends_with(&format!("was not told after 5 attempts: {why}")), "{line}");
    }
    assert!(!nexus.service_log().contains("s3cret"), "{}", nexus.service_log());
}

#[test]
fn a_server_that_recovers_gets_the_notice_once() {
    let server = Server::start(&[Answer::Status(500), Answer::Status(429), Answer::Status(503), Answer::Status(200)]);
    let nexus = told(TIMES, &[&server], "");
    let failed = nexus.done("exit 1");
    let told: Vec<_> = (0..4).map(|_| seen(&server.next()).1).collect();
    assert!(told.iter().all(|id| failed["id"] == **id), "{told:?}");
    let after = nexus.done("exit 2");
    assert_eq!(failed["state"], "failed");
    assert_eq!(server.next()["job"]["id"], after["id"], "the one before was taken");
    assert!(!nexus.service_log().contains("not told"), "{}", nexus.service_log());
}

#[test]
fn what_no_second_attempt_mends_is_given_up_at_once() {
    let (gone, moved) = (Server::start(&[Answer::Status(404)]), Server::start(&[Answer::Moved]));
    let nexus = told(TIMES, &[&gone, &moved], "");
    nexus.done("exit 1");
    let line = log_line(&nexus, &gone.shown());
    assert!(line.ends_with("was not told: it answered 404 Not Found: no"), "{line}");
    let line = log_line(&nexus, &moved.shown());
    assert!(line.contains("redirects are not followed"), "{line}");
    gone.next();
    moved.next();
    assert_eq!((gone.left(), moved.left()), (0, 0), "each was asked once");
}

#[test]
fn what_piles_up_at_a_slow_server_comes_as_one() {
    let (server, hold) = Server::held();
    let nexus = told("5,60000", &[&server], "on = [\"end\"]\n");
    nexus.done("true");
    let first = server.next();
    assert_eq!(first["event"], "end");
    nexus.ok(&["sweep", "--gpus", "0", "exit {x}", "x=0..10"]);
    nexus.run(&["wait", "--all"]);
    // All have ended; that the last was collected shows in a second server that is quick.
    let quick = Server::start(&[]);
    nexus.ok(&["config", "set", "notify.webhooks", &format!("{},{}", server.address("json"), quick.address("json"))]);
    let last = nexus.done("true");
    until("the last was told", || (quick.next()["job"]["id"] == last["id"]).then_some(()));
    drop(hold);
    let digest = server.next();
    assert_eq!(digest["event"], "digest");
    let (completed, failed) =
        (digest["digest"]["completed"].as_u64().unwrap(), digest["digest"]["failed"].as_u64().unwrap());
    assert_eq!((completed, failed), (2, 10));
    assert_eq!(digest["digest"]["failures"].as_array().unwrap().len(), 10);
}

#[test]
fn a_digest_counts_what_happened_in_its_time() {
    let server = Server::start(&[]);
    let nexus = told(TIMES, &[&server], "on = [\"end\", \"queue-empty\"]\ndigest = \"1h\"\n");
    for command in ["true", "exit 3", "true"] {
        nexus.done(command);
    }
    // A change counts at once: what was collected is told now.
    nexus.ok(&["config", "unset", "notify.digest"]);
    let notice = server.next();
    assert_eq!(notice["event"], "digest");
    let digest = &notice["digest"];
    assert_eq!((&digest["completed"], &digest["failed"], &digest["queue_empty"]), (&json!(2), &json!(1), &json!(true)));
    assert_eq!(digest["failures"][0]["exit_code"], 3);
    assert!(notice["text"].as_str().unwrap().contains("2 completed, 1 failed\n"), "{notice}");
    nexus.ok(&["config", "set", "notify.digest", "1s"]);
    nexus.ok(&["config", "set", "notify.on", "end"]);
    let id = nexus.add("true");
    assert_eq!(seen(&server.next()), ("end".into(), id), "alone it stays what it is");
}

#[test]
fn a_command_has_its_environment_and_the_notice_on_standard_input() {
    let nexus = Nexus::fresh(NEXUS);
    let (file, part) = (nexus.work().join("told"), nexus.work().join("part"));
    let names = ["EVENT", "JOB_ID", "STATE", "EXIT_CODE", "NAME", "COMMAND", "REASON", "GPUS"];
    let echo: Vec<String> = names.iter().map(|name| format!("echo \"$NEXUS_{name}\"")).collect();
    let script = format!("{{ {}; cat; }} > {1} && mv {1} {2}", echo.join("; "), part.display(), file.display());
    nexus.config(&format!("[notify]\ncommand = {}\n", json!(script)));
    nexus.start(1);
    let id = nexus.add_with(&["--name", "a b"], "echo \"$HOME\"; exit 4");
    let told = until("the command has run", || std::fs::read_to_string(&file).ok());
    let mut lines = told.lines();
    let values: Vec<&str> = lines.by_ref().take(names.len()).collect();
    assert_eq!(values, ["failure", &id, "failed", "4", "a b", "echo \"$HOME\"; exit 4", "exit", "0"]);
    let notice: Value = serde_json::from_str(&lines.collect::<String>()).expect("JSON");
    assert_eq!(seen(&notice), ("failure".into(), id.clone()));
    nexus.ok(&["config", "set", "notify.command", "echo so not >&2; exit 7"]);
    nexus.done("exit 1");
    let line = log_line(&nexus, "the command of notify.command");
    assert!(line.ends_with("was not told: exit 7: so not"), "{line}");
    let said = nexus.run(&["notify", "test"]).expect_code(1).stdout;
    assert!(said.starts_with("the command of notify.command: not told: exit 7: so not, "), "{said}");
}

#[test]
fn a_test_shows_what_each_answers() {
    let (good, bad, slack) = (Server::start(&[]), Server::start(&[Answer::Status(403)]), Server::start(&[]));
    let nexus = told(TIMES, &[&good, &bad], "command = \"true\"\n");
    let tried = nexus.run(&["notify", "test", "--json"]).expect_code(1);
    let tried: Value = serde_json::from_str(&tried.stdout).unwrap();
    assert_eq!(
        (&tried[0]["recipient"], &tried[0]["answer"], &tried[0]["error"]),
        (&json!(good.shown()), &json!("200 OK: no"), &Value::Null)
    );
    assert_eq!((&tried[1]["answer"], &tried[1]["error"]), (&Value::Null, &json!("it answered 403 Forbidden: no")));
    assert_eq!((&tried[2]["answer"], &tried[2]["error"]), (&json!("exit 0"), &Value::Null));
    assert_eq!(good.next()["event"], "test");
    nexus.ok(&["config", "set", "notify.webhooks", &slack.address("slack")]);
    nexus.ok(&["config", "unset", "notify.command"]);
    let said = nexus.ok(&["notify", "test"]);
    assert!(said.starts_with("slack:http://127.0.0.1:") && said.contains("told (200 OK: no), "), "{said}");
    assert!(slack.next()["text"].as_str().unwrap().ends_with("a test of nexus: notices arrive"));
}

#[test]
fn a_template_says_what_a_server_of_ones_own_gets() {
    let server = Server::start(&[]);
    let nexus = told(
        TIMES,
        &[&server],
        "template = '{\"id\": \"{job.id}\", \"code\": \"{job.exit_code}\", \"say\": \"it was: {job.command}\"}'\n",
    );
    let id = nexus.add("echo '\"}, {' \"\\\\\"; exit 5");
    assert_eq!(server.next(), json!({"id": id, "code": 5, "say": "it was: echo '\"}, {' \"\\\\\"; exit 5"}));
    let said = nexus.fails(2, &["config", "set", "notify.template", "{\"id\": \"{job.di}\"}"]);
    assert!(said.contains("{job.di} is none"), "{said}");
}

#[test]
fn an_address_is_shown_shortened_wherever_it_is_shown() {
    let server = Server::start(&[]);
    let nexus = told(TIMES, &[&server], "");
    let other = server.address("json").replace("s3cret", "s3cret2");
    let changed = nexus.run(&["config", "set", "notify.webhooks", &other]).expect_code(0).stderr;
    assert!(changed.contains(&format!("notify.webhooks {0} -> {0}", server.shown())), "{changed}");
    let bad = nexus.fails(2, &["config", "set", "notify.webhooks", "slack:hooks.slack.com/s3cret"]);
    nexus.config("[notify]\nwebhooks = [\"teams:https://example.org/s3cret\"]\n");
    let refused = log_line(&nexus, "Config refused: line 2: webhooks must be a list of addresses");
    let shown = nexus.ok(&["config"]);
    assert!(shown.contains(&server.shown()), "{shown}");
    let all = [
        changed,
        bad,
        refused,
        shown,
        nexus.ok(&["config", "get", "notify.webhooks"]),
        nexus.ok(&["config", "--json"]),
        nexus.service_log(),
    ];
    for text in all {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_stop_tries_what_is_left_and_says_what_was_not_told() {
    let (hangs, good) = (Server::start(&[Answer::Hang]), Server::start(&[]));
    let nexus = told("60000,60000", &[&hangs, &good], "digest = \"1h\"\n");
    let failed = nexus.done("exit 1");
    let began = Instant::now();
    nexus.ok(&["stop"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(good.next()["job"]["id"], failed["id"]);
    let line = log_line(&nexus, &hangs.shown());
    assert!(line.ends_with("1 notice was not told before the service stopped"), "{line}");
    assert!(!nexus.service_log().contains(&good.shown()), "{}", nexus.service_log());
}

#[test]
fn what_ended_while_the_service_was_away_is_told_by_the_next() {
    let server = Server::start(&[]);
    let nexus = told(TIMES, &[&server], "");
    let go = nexus.work().join("go");
    let id = nexus.add("until [ -e go ]; do sleep 0.02; done; exit 9");
    nexus.in_state(&id, "running");
    nexus.kill_service();
    std::fs::write(go, "").unwrap();
    nexus.ok(&["start"]);
    let notice = server.next();
    assert_eq!((&notice["job"]["id"], &notice["job"]["exit_code"]), (&json!(id), &json!(9)));
}
