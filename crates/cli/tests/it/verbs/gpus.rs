//! `gpus`: one line a GPU.

use nexus_testkit::Nexus;
use serde_json::json;

use super::LONG;
use crate::NEXUS;

#[test]
fn each_gpu_has_its_line_and_its_jobs() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let wide = nexus.add_with(&["--gpus", "2"], LONG);
    nexus.in_state(&wide, "running");
    nexus.ok(&["pause", "1,2"]);
    let expected = format!(
        "\
[0] simulated |   ?°C,   ? % | ? / 24576 MB | {wide}
[1] simulated |   ?°C,   ? % | ? / 24576 MB | {wide} paused
[2] simulated |   ?°C,   ? % | ? / 24576 MB | paused"
    );
    assert_eq!(nexus.ok(&["gpus"]), expected);
    let told = nexus.json(&["gpus", "--json"]);
    assert_eq!(told, nexus.json(&["status", "--json"])["machines"], "one type for both");
    let gpu = &told[0]["gpus"][1];
    assert_eq!((&gpu["jobs"], &gpu["paused"], &gpu["simulated"]), (&json!([wide]), &json!(true), &json!(true)));
    assert_eq!((&gpu["used_mib"], &gpu["obstacle"], &gpu["processes"]), (&json!(null), &json!(null), &json!([])));
}

#[test]
fn watching_redraws_until_it_is_broken_off() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut watch = nexus.command(&["gpus", "-w"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
    let mut wait_for = |text: &str| assert!(lines.any(|line| line.unwrap().ends_with(text)), "{text}");
    wait_for("24576 MB |");
    nexus.ok(&["pause", "0"]);
    wait_for("24576 MB | paused");
    nexus_testkit::kill(watch.id(), 2);
    assert!(watch.wait().unwrap().success());
}

#[test]
fn it_reads_and_starts_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.fails(3, &["gpus"]);
    nexus.fails(3, &["gpus", "-w"]);
    assert!(!nexus.home().exists());
}
