//! Rules and the table of models: what a job needs where it does not say so itself.

use std::io::Write;

use nexus_testkit::{Nexus, until};
use serde_json::{Value, json};

use crate::NEXUS;

const SEED: &str = include_str!("../../../../../examples/llm_config.json");

const RULES: &str = "[[rule]]\nmatch = \"--llm qwen2.5-3b-*\"\ngpus = 0.5\n\
                     [[rule]]\nmatch = \"--llm big\"\ngpus = 1.5\n\
                     [[rule]]\nmatch = \"*render.py\"\nvram = \"8G\"\n";

/// A home with these settings whose queue is paused.
fn paused(settings: &str) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config(settings);
    nexus.start(4);
    nexus.ok(&["pause"]);
    nexus
}

/// With a file of models beside the tests' own files.
fn with_models(text: &str) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.file("llm_config.json", text);
    nexus.config(&format!("[models]\nfile = \"{}\"\n", path.display()));
    nexus.start(4);
    nexus.ok(&["pause"]);
    nexus
}

/// GPUs, their memory, and the rule that said so.
fn needs(nexus: &Nexus, id: &str) -> (Value, Value, Value) {
    let job = nexus.job(id);
    (job["request"]["gpus"].clone(), job["request"]["vram_mib"].clone(), job["by_rule"].clone())
}

#[test]
fn a_rule_says_what_a_job_needs_unless_that_says_so_itself() {
    let nexus = paused(RULES);
    let words = ["add", "python", "t.py", "--llm=qwen2.5-3b-inst"];
    let id = nexus.ok(&words);
    assert_eq!(needs(&nexus, &id), (json!(0.5), Value::Null, json!("--llm qwen2.5-3b-*")));
    let shown = nexus.ok(&["show", &id]);
    assert!(shown.contains("\nNeeds:       0.5 GPU\nBy rule:     --llm qwen2.5-3b-*\n"), "{shown}");
    let id = nexus.add("cd x && python render.py --fast; true");
    assert_eq!(needs(&nexus, &id), (json!(1), json!(8192), json!("*render.py")));
    let id = nexus.add_with(&["--gpus", "1"], "python render.py --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id), (json!(1), Value::Null, Value::Null));
    let id = nexus.add_with(&["--vram", "2G"], "python t.py --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id), (json!(1), json!(2048), Value::Null));
    let id = nexus.add("python t.py --llm other");
    assert_eq!(needs(&nexus, &id), (json!(1), Value::Null, Value::Null));
    let said = nexus.fails(1, &["add", "--on", "0", "t --llm big"]);
    assert!(said.contains("2 GPUs are asked for by the rule --llm big, and only 1 allowed"), "{said}");
}

#[test]
fn more_than_one_is_rounded_up_and_told() {
    let nexus = paused(RULES);
    let told = "note: 1.5 GPUs by the rule --llm big are rounded up to 2\n";
    let added = nexus.run(&["add", "-x", "3", "t --llm big"]).expect_code(0);
    assert_eq!((added.stderr.as_str(), added.stdout.lines().count()), (told, 3));
    assert_eq!(needs(&nexus, added.stdout.lines().next().unwrap()).0, json!(2));
    assert_eq!(nexus.run(&["add", "--dry-run", "--json", "t --llm big"]).expect_code(0).stderr, told);
    let line = "] Note: 1.5 GPUs by the rule --llm big are rounded up to 2\n";
    until("service.log tells it, once", || (nexus.service_log().matches(line).count() == 1).then_some(()));
    let note = &nexus.json(&["add", "--json", "t --llm big"])["notes"][0];
    assert_eq!(*note, json!({"note": "rounded-up", "rule": "--llm big", "asked": 1.5, "gpus": 2}));
}

#[test]
fn every_way_to_queue_a_job_asks_the_rules() {
    let nexus = paused(RULES);
    let half = |command: &str| {
        let job = until(&format!("{command} is queued"), || {
            let jobs = nexus.json(&["ls", "--json"]);
            jobs.as_array()?.iter().find(|job| job["command"] == command).cloned()
        });
        assert_eq!(job["request"]["gpus"], 0.5, "{command}");
        job["id"].as_str().unwrap().to_string()
    };
    let jobs_txt = nexus.home().join("jobs.txt");
    let mut file = until("jobs.txt is made", || std::fs::File::options().append(true).open(&jobs_txt).ok());
    file.write_all(b"file --llm qwen2.5-3b-a\n").unwrap();
    let id = half("file --llm qwen2.5-3b-a");
    let mut edit = nexus.command(&["edit"]);
    edit.env("EDITOR", "sh -c 'echo edited --llm qwen2.5-3b-b >> \"$1\"; echo t --llm big >> \"$1\"' -");
    let edited = edit.output().unwrap();
    assert!(edited.status.success(), "{edited:?}");
    let told = "note: 1.5 GPUs by the rule --llm big are rounded up to 2\n";
    assert!(String::from_utf8_lossy(&edited.stderr).contains(told), "{edited:?}");
    half("edited --llm qwen2.5-3b-b");
    // What a job was taken with stays, whatever the rules say later.
    nexus.config("");
    until("no rule is left", || (!nexus.ok(&["config"]).contains("rule.1")).then_some(()));
    assert_eq!(needs(&nexus, &id), (json!(0.5), Value::Null, json!("--llm qwen2.5-3b-*")));
    let again = nexus.ok(&["rerun", &id]);
    assert_eq!(needs(&nexus, &again), (json!(0.5), Value::Null, json!("--llm qwen2.5-3b-*")));
    nexus.ok(&["edit", &id, "--priority", "3"]);
    assert_eq!(needs(&nexus, &id).2, "--llm qwen2.5-3b-*");
    nexus.ok(&["edit", &id, "--gpus", "2"]);
    assert_eq!(needs(&nexus, &id), (json!(2), Value::Null, Value::Null));
}

#[test]
fn run_asks_the_rules() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[[rule]]\nmatch = \"--llm big\"\ngpus = 1.5\n");
    nexus.start(4);
    let ran = nexus.run(&["run", "echo $NEXUS_GPU_ID --llm big"]).expect_code(0);
    assert_eq!(ran.stdout, "0,1 --llm big\n");
    assert!(ran.stderr.contains("note: 1.5 GPUs by the rule --llm big are rounded up to 2\n"), "{}", ran.stderr);
}

#[test]
fn the_table_of_models_and_changes_of_it() {
    let nexus = with_models(SEED);
    let path = nexus.work().join("llm_config.json");
    let by = |model: &str| json!(format!("--llm {model} in {}", path.display()));
    let id = nexus.add("python t.py --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id), (json!(0.5), Value::Null, by("qwen2.5-3b-inst")));
    let id = nexus.add("python t.py --llm llama");
    assert_eq!(needs(&nexus, &id).2, json!(format!("default_requirement in {}", path.display())));
    assert_eq!(needs(&nexus, &nexus.add("python t.py")).2, Value::Null);
    for round in 0..5 {
        let gpus = 0.25 + f64::from(round) / 100.0;
        std::fs::write(&path, format!("{{\"models\": {{\"llama\": {gpus}}}}}")).unwrap();
        let id = nexus.add("python t.py --llm llama");
        assert_eq!(needs(&nexus, &id), (json!(gpus), Value::Null, by("llama")), "at once");
    }
    assert!(nexus.service_log().contains(&format!("] Models changed: 1 in {}\n", path.display())));
    assert!(nexus.ok(&["doctor"]).contains(&format!("models       {}", path.display())));
}

#[test]
fn a_wrong_table_is_told_and_the_old_one_stays() {
    let nexus = with_models(SEED);
    let path = nexus.work().join("llm_config.json");
    std::fs::write(&path, "{\n\"models\": {\n\"qwen2.5-3b-inst\": \"half\"\n}}").unwrap();
    let why = format!("{}, line 3 is wrong: invalid type: string \"half\", expected a number of GPUs", path.display());
    let id = nexus.add("python t.py --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id).0, json!(0.5));
    assert!(nexus.service_log().contains(&format!("] Models refused: {why}")), "{}", nexus.service_log());
    assert!(nexus.ok(&["config"]).contains(&format!("The file of models is not in force: {why}")));
    assert_eq!(nexus.json(&["config", "--json"])["models_refused"]["line"], 3);
    assert!(nexus.run(&["doctor"]).expect_code(1).stdout.contains(&format!("bad   models       not in force: {why}")));
    std::fs::remove_file(&path).unwrap();
    let id = nexus.add("python t.py --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id).0, json!(0.5));
    assert!(nexus.ok(&["config"]).contains("there is no such file"));
    std::fs::write(&path, SEED).unwrap();
    assert!(nexus.json(&["config", "--json"])["models_refused"].is_null());
    // The line is the engine's, whom nobody waits for who only looks at the configuration.
    until("it is said", || nexus.service_log().contains("are those in force again\n").then_some(()));
    nexus.ok(&["restart"]);
}

#[test]
fn a_wrong_table_keeps_no_service_down() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.file("llm_config.json", "{\n\"models\": 3\n}");
    nexus.config(&format!("[models]\nfile = \"{}\"\n[[rule]]\nmatch = \"--llm tiny\"\ngpus = 0.25\n", path.display()));
    let goes_on = |how: &str| {
        let id = nexus.add_with(&["--hold"], "t --llm qwen2.5-3b-inst");
        assert_eq!(needs(&nexus, &id), (json!(1), Value::Null, Value::Null), "{how}: there is no table");
        let id = nexus.add_with(&["--hold"], "t --llm tiny");
        assert_eq!(needs(&nexus, &id).0, json!(0.25), "{how}: rules count");
        assert!(nexus.ok(&["config"]).contains("line 2 is wrong"), "{how}");
        assert!(nexus.run(&["doctor"]).expect_code(1).stdout.contains("bad   models       not in force: "), "{how}");
    };
    goes_on("started by itself");
    let line = format!("] Models refused: {}, line 2 is wrong: invalid type: integer `3`", path.display());
    let told = || nexus.service_log().lines().filter(|told| told.contains(&line)).count();
    assert_eq!(told(), 1, "{}", nexus.service_log());
    assert!(nexus.service_log().contains("; none are in force\n"), "{}", nexus.service_log());
    nexus.ok(&["restart"]);
    goes_on("restarted");
    // One whose doctor finds nothing wrong can be asked for its process.
    std::fs::write(&path, SEED).unwrap();
    nexus.kill_service();
    std::fs::write(&path, "{\n\"models\": 3\n}").unwrap();
    nexus.ok(&["start"]);
    goes_on("started after a crash");
    assert_eq!(told(), 3, "once for every start: {}", nexus.service_log());
    std::fs::write(&path, SEED).unwrap();
    let id = nexus.add_with(&["--hold"], "t --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id).0, json!(0.5), "it is right, and counts at once");
}

#[test]
fn a_wrong_table_cannot_be_set() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.file("llm_config.json", "{\n\"models\": 3\n}");
    nexus.start(1);
    let said = nexus.fails(1, &["config", "set", "models.file", "/no/such/file"]);
    assert!(said.starts_with("error: /no/such/file is wrong\nthere is no such file\n"), "{said}");
    assert_eq!(nexus.ok(&["config", "get", "models.file"]), "");
    std::fs::write(&path, SEED).unwrap();
    nexus.ok(&["config", "set", "models.file", path.to_str().unwrap()]);
    let id = nexus.add_with(&["--hold"], "t --llm qwen2.5-3b-inst");
    assert_eq!(needs(&nexus, &id).0, json!(0.5));
}
