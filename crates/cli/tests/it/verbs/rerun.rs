//! `rerun`: the same spec, a new job.

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

#[test]
fn the_same_spec_linked_to_the_old_job() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let options = ["--name", "n", "--tag", "t", "--gpus", "2", "--priority", "3", "--env", "X=old", "--cwd", "/"];
    let old = nexus.add_with(&options, "echo $X; pwd; exit 5");
    nexus.ended(&old);
    let new = nexus.ok(&["rerun", &old]);
    let job = nexus.ended(&new);
    assert_eq!(job["rerun_of"], old.as_str());
    let before = nexus.job(&old);
    for field in ["name", "tags", "request", "priority", "command", "cwd", "env_names", "exit_code"] {
        assert_eq!(job[field], before[field], "{field}");
    }
    assert_eq!(nexus.stdout_of(&new), "old\n/\n");
    assert!(nexus.ok(&["show", &new]).contains(&format!("Rerun of:    {old}")));
    let told = nexus.on_terminal(SCREEN, "", &["--color", "never", "rerun", &old]).expect_code(0).stdout;
    assert!(told.contains("  starts now on GPUs 0,1") || told.contains("  starts next"), "{told}");
}

#[test]
fn failed_alone_of_a_group() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let good = nexus.add_with(&["--tag", "t"], "true");
    let bad = nexus.add_with(&["--tag", "t"], "false");
    nexus.run(&["wait", &good, &bad]);
    let new = nexus.ok(&["rerun", "--failed", "tag:t"]);
    assert_eq!(nexus.job(&new)["rerun_of"], bad.as_str());
    nexus.ended(&new);
    let said = nexus.fails(1, &["rerun", "--failed", &good]);
    assert_eq!(said, format!("error: nothing of {good} has failed\nhint: nexus rerun without --failed\n"));
    assert_eq!(nexus.ok(&["rerun", "tag:t"]).lines().count(), 3);
}

#[test]
fn jobs_repeated_together_keep_their_order() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let outside = nexus.add("exit 1");
    nexus.ended(&outside);
    let live = nexus.add_with(&["--hold"], "true");
    let first = nexus.add("echo a >> order; [ -e good ]");
    let second = nexus.add_with(&["--after", &first, "--after-any", &outside], "echo b >> order");
    let third = nexus.add_with(&["--after-any", &second, "--after", &live], "echo c >> order");
    assert_eq!(nexus.ended(&first)["state"], "failed");
    assert_eq!(nexus.ended(&second)["reason"], "dependency");
    nexus.file("good", "");
    // In whichever order they are named.
    let new = nexus.ok(&["rerun", &third, &second, &first]);
    let new: Vec<&str> = new.lines().collect();
    assert_eq!(nexus.ended(new[1])["state"], "completed");
    assert_eq!(nexus.job(new[2])["state"], "completed");
    let waits = &nexus.job(new[0])["waiting"];
    assert_eq!(
        (&waits["kind"], &waits["jobs"]),
        (&"after".into(), &serde_json::json!([live])),
        "one that has not ended"
    );
    nexus.ok(&["release", &live]);
    assert_eq!(nexus.ended(new[0])["state"], "completed");
    let order = std::fs::read_to_string(nexus.work().join("order")).unwrap();
    assert!(order.starts_with("a\na\nb\n"), "{order}");
    // Alone it comes after nothing: what it came after has ended.
    let alone = nexus.ok(&["rerun", &second]);
    assert_eq!(nexus.ended(&alone)["state"], "completed");
    nexus.ok(&["forget", "-y", &first]);
    let alone = nexus.ok(&["rerun", &second]);
    assert_eq!(nexus.ended(&alone)["state"], "completed");
}
