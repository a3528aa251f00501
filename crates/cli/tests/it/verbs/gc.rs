//! `gc` and `[retention]`: what nobody needs any more is shown, asked for, and deleted; nothing else is.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use crate::NEXUS;

/// A folder that nobody has touched for two hours.
fn old_folder(path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("data"), vec![b'x'; 9000]).unwrap();
    let then = SystemTime::now() - Duration::from_secs(7200);
    File::open(path).unwrap().set_modified(then).unwrap();
}

/// The same with all its times in that year.
fn in_2020(told: Value) -> Value {
    match told {
        Value::String(text) if text.len() >= 20 && text.ends_with('Z') && &text[10..11] == "T" => {
            format!("2020{}", &text[4..]).into()
        }
        Value::Array(all) => all.into_iter().map(in_2020).collect(),
        Value::Object(all) => all.into_iter().map(|(name, told)| (name, in_2020(told))).collect(),
        other => other,
    }
}

#[test]
fn what_no_job_names_is_shown_and_then_deleted() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("true");
    nexus.ended(&id);
    let home = nexus.home();
    let orphans = ["logs/job_zzzz", "results/zzzz", "checkpoints/zzzz", "code/0000", "snapshots/0000"];
    let orphans = orphans.map(|name| home.join(name));
    orphans.iter().for_each(|path| old_folder(path));
    let kept = ["logs/notes", "results/not an id", "logs/job_zzzy"].map(|name| home.join(name));
    kept.iter().take(2).for_each(|path| old_folder(path));
    fs::create_dir_all(&kept[2]).unwrap();

    let told = nexus.run(&["gc", "--dry-run"]).expect_code(0).stderr;
    assert!(told.contains("3 folders of jobs that are not in the history: 36K\n"), "{told}");
    assert!(told.contains("2 copies of a folder (--sync) that no job names: 24K\n"), "{told}");
    let refused = nexus.run(&["gc"]).expect_code(1).stderr;
    assert!(
        refused.contains("nothing was deleted: nobody can be asked here") && refused.contains("nexus gc -y"),
        "{refused}"
    );
    assert!(orphans.iter().all(|path| path.exists()));

    nexus.ok(&["gc", "-y"]);
    assert!(orphans.iter().all(|path| !path.exists()));
    assert!(kept.iter().all(|path| path.exists()), "one is new, the others are nobody's id");
    assert!(Path::new(nexus.job(&id)["stdout_path"].as_str().unwrap()).exists());
    let told = nexus.run(&["gc"]).expect_code(0).stderr;
    assert_eq!(told, "nothing to delete; nexus gc --older-than 90d forgets old jobs\n");
}

#[test]
fn jobs_that_ended_long_ago_are_forgotten_with_what_is_theirs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (old, waits) = (nexus.add("echo x > $NEXUS_RESULTS_DIR/x"), nexus.add_with(&["--hold"], "true"));
    nexus.ended(&old);
    let (logs, results) = (nexus.home().join(format!("logs/job_{old}")), nexus.home().join(format!("results/{old}")));
    assert!(logs.exists() && results.exists());
    let nothing = nexus.run(&["gc", "--older-than", "1h", "-y"]).expect_code(0).stderr;
    assert_eq!(nothing, "nothing to delete: no job ended over 1h ago\n");
    let done: Value =
        serde_json::from_str(&nexus.run(&["gc", "--older-than", "0s", "-y", "--json"]).expect_code(0).stdout).unwrap();
    assert_eq!(done["jobs"]["count"], 1, "{done}");
    assert!(done["jobs"]["bytes"].as_u64().unwrap() > 0, "{done}");
    assert!(!logs.exists() && !results.exists());
    nexus.run(&["show", &old]).expect_code(1);
    assert_eq!(nexus.job(&waits)["state"], "held");
    assert!(nexus.service_log().contains(&format!("Job {old} forgotten: it ended long enough ago\n")));
    let wrong = nexus.run(&["gc", "--older-than", "soon"]).expect_code(2).stderr;
    assert!(wrong.contains("soon is no duration"), "{wrong}");
}

#[test]
fn retention_forgets_by_itself_and_only_where_it_is_set() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let old = nexus.done("true");
    let old = old["id"].as_str().unwrap();
    // As if it had run years ago.
    let line = in_2020(serde_json::from_str(&nexus.ok(&["export"])).unwrap());
    nexus.ok(&["forget", "-y", old]);
    let file = nexus.file("past.jsonl", &line.to_string());
    nexus.ok(&["import", "--as-history", file.to_str().unwrap()]);
    let new = nexus.add("true");
    nexus.ended(&new);
    assert_eq!(nexus.job(old)["state"], "completed");
    let wrong = nexus.run(&["config", "set", "retention.jobs", "1m"]).expect_code(2).stderr;
    assert!(wrong.contains("an hour at least"), "{wrong}");
    nexus.ok(&["config", "set", "retention.jobs", "30d"]);
    until("the old one is forgotten", || (nexus.run(&["show", old]).code == 1).then_some(()));
    assert_eq!(nexus.job(&new)["state"], "completed");
}
