//! `start` with options that go over keys of the configuration, until the next start.

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use crate::NEXUS;

fn key(nexus: &Nexus, name: &str) -> Value {
    nexus.json(&["config", "get", name, "--json"])
}

/// Value, and what the file says beneath it.
fn over(nexus: &Nexus, name: &str) -> (Value, Value) {
    let key = key(nexus, name);
    (key["value"].clone(), key["overridden"].clone())
}

#[test]
fn options_go_over_their_keys_until_the_next_start() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nstart_attempts = 7\n[machine.local.gpus]\nuse = \"1\"\n");
    nexus.file("llm_config.json", "{\"models\": {\"m\": 0.25}}");
    let words = "start --gpus 2 --llm-config llm_config.json --mem-threshold 0.7 --load-threshold 60% \
                 --max-assign-attempts 3 --assign-retry-wait 2 --monitor-interval 30 --state-interval 20";
    let said = nexus.run(&words.split_whitespace().collect::<Vec<_>>()).expect_code(0).stderr;
    for line in [
        "note: --monitor-interval is not needed: changes are seen at once\n",
        "note: --state-interval is not needed: changes are seen at once\n",
        "gpus.use is 0-1 until the next start\n",
        "jobs.retry_wait is 2s until the next start\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let models = nexus.work().join("llm_config.json").display().to_string();
    assert_eq!(over(&nexus, "gpus.use"), (json!("0-1"), json!("all")));
    assert_eq!(over(&nexus, "models.file"), (json!(models), json!("")));
    assert_eq!(over(&nexus, "gpus.mem_threshold"), (json!(0.7), json!(0.8)));
    assert_eq!(over(&nexus, "gpus.load_threshold"), (json!(0.6), json!(0.8)));
    assert_eq!(over(&nexus, "jobs.start_attempts"), (json!(3), json!(7)));
    assert_eq!(over(&nexus, "jobs.retry_wait"), (json!("2s"), json!("5s")));
    assert_eq!(over(&nexus, "jobs.grace"), (json!("10s"), Value::Null));
    let shown = nexus.ok(&["config"]);
    let row = ["jobs.start_attempts", "3", "nexus", "start", "until", "the", "next", "start;", "else", "7"];
    assert!(shown.lines().any(|line| line.split_whitespace().eq(row)), "{shown}");
    let id = nexus.add_with(&["--hold"], "t --llm m");
    assert_eq!(nexus.job(&id)["request"]["gpus"], 0.25);
    // The file may change beneath; what start said stays over it.
    let said = nexus.run(&["config", "set", "jobs.start_attempts", "9"]).expect_code(0).stderr;
    assert!(said.contains("note: jobs.start_attempts is as nexus start said until the next start\n"), "{said}");
    assert_eq!(over(&nexus, "jobs.start_attempts"), (json!(3), json!(9)));
    nexus.ok(&["start"]);
    assert_eq!(over(&nexus, "jobs.start_attempts"), (json!(3), json!(9)), "it runs already");
    nexus.ok(&["restart"]);
    for name in ["gpus.use", "models.file", "jobs.start_attempts", "jobs.retry_wait"] {
        assert_eq!(key(&nexus, name)["overridden"], Value::Null, "{name}");
    }
    assert_eq!(key(&nexus, "jobs.start_attempts")["value"], 9);
}

#[test]
fn a_service_that_runs_takes_them_at_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.run(&["start", "--max-assign-attempts", "2", "--gpus", "0,2"]).expect_code(0).stderr;
    assert!(said.contains("runs already") && said.contains("gpus.use is 0,2 until the next start\n"), "{said}");
    assert_eq!(over(&nexus, "gpus.use"), (json!("0,2"), json!("all")));
    nexus.ok(&["start"]);
    assert_eq!(over(&nexus, "jobs.start_attempts"), (json!(2), json!(5)), "nothing was said");
    nexus.ok(&["start", "--assign-retry-wait", "90s"]);
    for name in ["jobs.start_attempts", "gpus.use"] {
        assert_eq!(key(&nexus, name)["overridden"], Value::Null, "{name}: what was said before is replaced");
    }
    assert_eq!(over(&nexus, "jobs.retry_wait"), (json!("90s"), json!("5s")));
    for line in [
        "] Config changed until the next start: jobs.start_attempts 5 -> 2\n",
        "] Config changed back to the file: jobs.start_attempts 2 -> 5\n",
    ] {
        assert!(nexus.service_log().contains(line), "{}", nexus.service_log());
    }
    let said = nexus.fails(1, &["start", "--max-assign-attempts", "8", "--llm-config", "nowhere.json"]);
    assert!(said.contains("nowhere.json is wrong\nthere is no such file\n"), "{said}");
    assert_eq!(over(&nexus, "jobs.retry_wait"), (json!("90s"), json!("5s")), "all or none");
    nexus.kill_service();
    nexus.add_with(&["--hold"], "true");
    assert_eq!(over(&nexus, "jobs.retry_wait"), (json!("5s"), Value::Null), "a start by itself knows nothing of them");
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let nexus = Nexus::fresh(NEXUS);
    for (option, value, told) in [
        ("--gpus", "0", "--gpus 0 would use none"),
        ("--gpus", "x", "--gpus cannot be x"),
        ("--mem-threshold", "1.5", "--mem-threshold cannot be 1.5"),
        ("--load-threshold", "-1", "--load-threshold cannot be -1"),
        ("--max-assign-attempts", "0", "--max-assign-attempts cannot be 0"),
        ("--assign-retry-wait", "soon", "--assign-retry-wait cannot be soon"),
    ] {
        let said = nexus.fails(2, &["start", option, value]);
        assert!(said.starts_with(&format!("error: {told}\n")), "{said}");
    }
    assert!(!nexus.home().exists(), "nothing was started");
    let said = nexus.fails(1, &["start", "--llm-config", "nowhere.json"]);
    assert!(said.contains("nowhere.json is wrong\nthere is no such file\n"), "{said}");
}
