//! The state file: a view of the GPUs that others read, and pause GPUs in.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, alive, kill, signal, until};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

/// Over a moment: what is written so long after our own writing was written by somebody who saw that.
const LATER: Duration = Duration::from_secs(1);

/// For which a text that is not as it should be is left.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// The file that the tests' homes have.
fn path(nexus: &Nexus) -> PathBuf {
    nexus.work().join("state.json")
}

/// A home with such a file and simulated GPUs.
fn kept(gpus: u16) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config(&format!("[paths]\nstate_file = \"{}\"\n", path(&nexus).display()));
    nexus.start(gpus);
    nexus
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Waits until the file says this.
#[track_caller]
fn shows(path: &Path, status: Value, paused: Value) {
    let expected = format!("{{\"gpu_status\":{status},\"paused_gpus\":{paused}}}\n");
    until(&format!("the file is {expected}it is {}", text(path)), || (text(path) == expected).then_some(()));
}

fn paused(nexus: &Nexus) -> Vec<u64> {
    let machines = nexus.json(&["gpus", "--json"]);
    let gpus = machines[0]["gpus"].as_array().expect("a list");
    gpus.iter().filter(|gpu| gpu["paused"] == true).map(|gpu| gpu["index"].as_u64().expect("a number")).collect()
}

/// Waits until just these are paused.
#[track_caller]
fn are_paused(nexus: &Nexus, gpus: &[u64]) {
    until(&format!("{gpus:?} are paused"), || (paused(nexus) == gpus).then_some(()));
}

#[track_caller]
fn told(nexus: &Nexus, line: &str) {
    until(&format!("service.log tells: {line}"), || nexus.service_log().contains(&format!("] {line}\n")).then_some(()));
}

fn times_told(nexus: &Nexus, part: &str) -> usize {
    nexus.service_log().matches(part).count()
}

fn with_pauses(list: Value) -> String {
    json!({"paused_gpus": list}).to_string()
}

/// Puts a file into its place, as of a time.
fn replaced(path: &Path, content: &str, at: SystemTime) {
    let beside = path.with_extension("new");
    let mut file = std::fs::File::create(&beside).expect("the folder is writable");
    file.write_all(content.as_bytes()).and_then(|()| file.set_modified(at)).expect("it can be written");
    std::fs::rename(beside, path).expect("it can be replaced");
}

/// The same by somebody who has seen what stood there.
fn changed(path: &Path, content: &str) {
    replaced(path, content, SystemTime::now() + LATER);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn it_says_what_jobs_hold_of_each_gpu() {
    let nexus = kept(3);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([]));
    assert_eq!(mode(&file), 0o600);
    let whole = nexus.add_with(&["--on", "1"], LONG);
    shows(&file, json!([0.0, 1.0, 0.0]), json!([]));
    let parts: Vec<String> =
        ["0.25", "0.5"].iter().map(|part| nexus.add_with(&["--on", "0", "--gpus", part], LONG)).collect();
    shows(&file, json!([0.75, 1.0, 0.0]), json!([]));
    nexus.ok(&["pause", "2"]);
    shows(&file, json!([0.75, 1.0, 0.0]), json!([2]));
    nexus.ok(&["kill", &parts[1]]);
    shows(&file, json!([0.25, 1.0, 0.0]), json!([2]));
    // A job on the CPU holds no GPU, one on two GPUs both.
    nexus.add_with(&["--gpus", "0"], LONG);
    nexus.ok(&["kill", "-y", &whole, &parts[0]]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([2]));
    nexus.add_with(&["--gpus", "2"], LONG);
    shows(&file, json!([1.0, 1.0, 0.0]), json!([2]));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    nexus.ok(&["resume", "2"]);
    shows(&file, json!([1.0, 1.0, 0.0]), json!([]));
    assert_eq!(mode(&file), 0o644, "its mode is kept");
    let beside: Vec<_> = std::fs::read_dir(nexus.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["state.json"], "nothing is left beside it");
}

#[test]
fn memory_counts_as_its_part_of_the_gpu() {
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b').with("memory_mib", 12_288)]);
    let nexus = Nexus::fresh(NEXUS).fake_gpus(&fake);
    let file = path(&nexus);
    nexus.ok(&["start", "--state-file", "state.json"]);
    shows(&file, json!([0.0, 0.0]), json!([]));
    nexus.add_with(&["--on", "0", "--vram", "8G"], LONG);
    shows(&file, json!([0.3333, 0.0]), json!([]));
    nexus.add_with(&["--on", "0", "--vram", "8G"], LONG);
    shows(&file, json!([0.6667, 0.0]), json!([]));
    nexus.add_with(&["--on", "1", "--vram", "3G"], LONG);
    nexus.add_with(&["--on", "1", "--gpus", "0.5", "--vram", "1G"], LONG);
    shows(&file, json!([0.6667, 0.75]), json!([]));
    nexus.ok(&["pause", "1"]);
    shows(&file, json!([0.6667, 0.75]), json!([1]));
}

#[test]
fn what_others_write_pauses_and_resumes() {
    let nexus = kept(4);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([]));
    // In place.
    std::fs::write(&file, with_pauses(json!([1]))).unwrap();
    are_paused(&nexus, &[1]);
    told(&nexus, "GPU 1 paused by the state file");
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([1]));
    // Replaced.
    changed(&file, &with_pauses(json!([3, 2, 2])));
    are_paused(&nexus, &[2, 3]);
    told(&nexus, "GPU 1 resumed by the state file");
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([2, 3]));
    // Deleted and made anew.
    std::fs::remove_file(&file).unwrap();
    changed(&file, "{\"gpu_status\": \"nobody reads this\", \"paused_gpus\": [0, 2, 3]}");
    are_paused(&nexus, &[0, 2, 3]);
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([0, 2, 3]));
    // Deleted: it is written anew, and means nothing.
    std::fs::remove_file(&file).unwrap();
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([0, 2, 3]));
    changed(&file, &with_pauses(json!([])));
    are_paused(&nexus, &[]);
    // A job that waited for the GPU starts.
    nexus.ok(&["pause", "0"]);
    shows(&file, json!([0.0, 0.0, 0.0, 0.0]), json!([0]));
    let waits = nexus.add_with(&["--on", "0"], LONG);
    changed(&file, &with_pauses(json!([])));
    nexus.in_state(&waits, "running");
    shows(&file, json!([1.0, 0.0, 0.0, 0.0]), json!([]));
    for line in ["GPU 0 resumed by the state file", "GPU 2 resumed by the state file"] {
        assert!(nexus.service_log().contains(line), "{line}");
    }
    assert!(!nexus.service_log().contains("state file /"), "nothing was wrong:\n{}", nexus.service_log());
}

#[test]
fn only_pauses_are_read_and_the_rest_is_put_right() {
    let nexus = kept(2);
    let file = path(&nexus);
    nexus.ok(&["pause", "1"]);
    shows(&file, json!([0.0, 0.0]), json!([1]));
    changed(&file, "{\"gpu_status\": [1.0, 1.0, 1.0], \"paused_gpus\": [1], \"more\": 3}");
    shows(&file, json!([0.0, 0.0]), json!([1]));
    assert_eq!(paused(&nexus), [1]);
    assert_eq!(times_told(&nexus, "by the state file"), 0);
}

#[test]
fn a_link_stays_one_and_what_it_leads_to_is_watched() {
    let nexus = Nexus::fresh(NEXUS);
    let (file, far) = (path(&nexus), nexus.home().join("far.json"));
    nexus.config(&format!("[paths]\nstate_file = \"{}\"\n", file.display()));
    symlink(&far, &file).unwrap();
    nexus.start(2);
    shows(&far, json!([0.0, 0.0]), json!([]));
    assert!(file.is_symlink());
    std::fs::write(&file, with_pauses(json!([0]))).unwrap();
    are_paused(&nexus, &[0]);
    shows(&far, json!([0.0, 0.0]), json!([0]));
    changed(&far, &with_pauses(json!([0, 1])));
    are_paused(&nexus, &[0, 1]);
    shows(&far, json!([0.0, 0.0]), json!([0, 1]));
    assert!(file.is_symlink());
    // It leads elsewhere now.
    let other = nexus.work().join("other.json");
    std::fs::write(&other, with_pauses(json!([1]))).unwrap();
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(SystemTime::now() + LATER).unwrap();
    symlink(&other, nexus.work().join("next")).unwrap();
    std::fs::rename(nexus.work().join("next"), &file).unwrap();
    are_paused(&nexus, &[1]);
    shows(&other, json!([0.0, 0.0]), json!([1]));
    changed(&other, &with_pauses(json!([])));
    are_paused(&nexus, &[]);
    assert!(file.is_symlink());
}

#[test]
fn what_cannot_be_taken_changes_nothing_and_is_told_once() {
    let nexus = kept(2);
    let file = path(&nexus);
    nexus.ok(&["pause", "1"]);
    shows(&file, json!([0.0, 0.0]), json!([1]));
    let shown = file.display();
    let table = [
        ("{\"paused_gpus\": [0", "it is no JSON: EOF while parsing a list at line 1 column 18"),
        ("{\"paused_gpus\": [0, 7]}", "there is no GPU 7"),
        ("{\"paused_gpus\": \"0\"}", "paused_gpus is no list of GPU numbers, such as [0, 2]"),
        ("{\"gpu_status\": []}", "it has no paused_gpus"),
        ("", "it is empty"),
    ];
    for (content, why) in table {
        let written = Instant::now();
        std::fs::write(&file, content).unwrap();
        let then = "pauses stay as they are, and it is put right if it stays so";
        told(&nexus, &format!("Error: state file {shown}: {why}; {then}"));
        // Jobs come and go meanwhile: what somebody may still be writing is left to them.
        let job = nexus.add("true");
        assert_eq!(nexus.ended(&job)["state"], "completed");
        // On a machine that is this slow its time may be over.
        let is_over = written.elapsed() > LEFT_ALONE / 2;
        assert!(is_over || text(&file) == content, "it is left alone for a while: {}", text(&file));
        assert_eq!(paused(&nexus), [1], "{content}");
    }
    shows(&file, json!([0.0, 0.0]), json!([1]));
    assert_eq!(paused(&nexus), [1]);
    for (_, why) in table {
        assert_eq!(times_told(&nexus, why), 1, "{}", nexus.service_log());
    }
    told(&nexus, &format!("State file {shown} is in order again"));
}

#[test]
fn one_who_writes_slowly_is_waited_for() {
    let nexus = kept(2);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0]), json!([]));
    let mut writer = std::fs::File::create(&file).unwrap();
    writer.write_all(b"{\"paused_gpus\": [0").unwrap();
    let shown = file.display();
    told(
        &nexus,
        &format!(
            "Error: state file {shown}: it is no JSON: EOF while parsing a list at line 1 column 18; pauses stay as they are, and it is put right if it stays so"
        ),
    );
    // Even for one that was taken for broken, and replaced.
    shows(&file, json!([0.0, 0.0]), json!([]));
    writer.write_all(b"]}").unwrap();
    are_paused(&nexus, &[0]);
    shows(&file, json!([0.0, 0.0]), json!([0]));
}

#[test]
fn what_is_no_file_is_left_alone() {
    let nexus = kept(2);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0]), json!([]));
    std::fs::remove_file(&file).unwrap();
    // It may have been written anew in between.
    until("a folder is there", || {
        let _ = std::fs::remove_file(&file);
        std::fs::create_dir(&file).ok()
    });
    let shown = file.display();
    told(&nexus, &format!("Error: state file {shown}: it is a folder; it is left alone"));
    nexus.ok(&["pause", "0"]);
    std::fs::remove_dir(&file).unwrap();
    shows(&file, json!([0.0, 0.0]), json!([0]));
    let pipe = nexus.work().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(&pipe, &file).unwrap();
    told(&nexus, &format!("Error: state file {shown}: it is not a file; it is left alone"));
    nexus.ok(&["resume", "0"]);
    std::fs::write(nexus.work().join("big"), vec![b' '; 2 << 20]).unwrap();
    std::fs::rename(nexus.work().join("big"), &file).unwrap();
    told(&nexus, &format!("Error: state file {shown}: it is larger than 1024 KiB; it is left alone"));
    let job = nexus.add("true");
    assert_eq!(nexus.ended(&job)["state"], "completed");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 << 20);
    changed(&file, &with_pauses(json!([1])));
    are_paused(&nexus, &[1]);
    told(&nexus, &format!("State file {shown} is in order again"));
    assert_eq!(times_told(&nexus, "it is a folder"), 1);
}

#[test]
fn a_folder_that_is_missing_is_told_and_waited_for() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let folder = nexus.work().join("later/still");
    let file = folder.join("state.json");
    nexus.ok(&["config", "set", "paths.state_file", file.to_str().unwrap()]);
    let why = format!("it cannot be written: there is no folder {}", folder.display());
    told(&nexus, &format!("Error: state file {}: {why}", file.display()));
    std::fs::create_dir_all(&folder).unwrap();
    shows(&file, json!([0.0]), json!([]));
    assert_eq!(times_told(&nexus, &why), 1);
}

#[test]
fn setting_changing_and_unsetting_it_count_at_once() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let (one, two) = (nexus.work().join("one.json"), nexus.work().join("two.json"));
    nexus.ok(&["config", "set", "paths.state_file", one.to_str().unwrap()]);
    shows(&one, json!([0.0, 0.0]), json!([]));
    nexus.ok(&["start", "--state-file", "two.json"]);
    shows(&two, json!([0.0, 0.0]), json!([]));
    nexus.ok(&["pause", "0"]);
    shows(&two, json!([0.0, 0.0]), json!([0]));
    assert!(text(&one).ends_with("\"paused_gpus\":[]}\n"), "the first is kept no more");
    std::fs::write(&one, with_pauses(json!([1]))).unwrap();
    // The next start goes back to the file's: what was changed there meanwhile counts.
    nexus.ok(&["restart"]);
    are_paused(&nexus, &[0, 1]);
    shows(&one, json!([0.0, 0.0]), json!([0, 1]));
    nexus.ok(&["config", "unset", "paths.state_file"]);
    nexus.ok(&["resume", "0,1"]);
    // Nobody reads or writes it, and the one who comes back to it is not taken for its changes.
    assert!(text(&one).ends_with("\"paused_gpus\":[0,1]}\n"));
    nexus.ok(&["config", "set", "paths.state_file", one.to_str().unwrap()]);
    shows(&one, json!([0.0, 0.0]), json!([]));
    assert_eq!(paused(&nexus), [0; 0]);
    assert_eq!(nexus.json(&["config", "get", "paths.state_file", "--json"])["needs_restart"], false);
}

#[test]
fn at_first_use_its_pauses_are_taken_and_nothing_is_resumed() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    nexus.ok(&["pause", "0"]);
    let old = r#"{"gpu_status": [0.5, 0, 0, 0], "paused_gpus": [2, 3], "jobs": {"a1": {"status": "running"}}}"#;
    nexus.file("state.json", old);
    nexus.ok(&["start", "--state-file", "state.json"]);
    are_paused(&nexus, &[0, 2, 3]);
    shows(&path(&nexus), json!([0.0, 0.0, 0.0, 0.0]), json!([0, 2, 3]));
}

#[test]
fn a_file_that_was_never_a_state_file_is_not_touched() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let dear = "{\"name\": \"my thesis\"}";
    nexus.file("state.json", dear);
    nexus.ok(&["start", "--state-file", "state.json"]);
    let shown = path(&nexus).display().to_string();
    let hint = "it is left alone; name another with nexus config set paths.state_file, or move it away";
    told(&nexus, &format!("Error: state file {shown}: it has no paused_gpus; {hint}"));
    // What does not happen can only be waited for.
    let told_at = Instant::now();
    until("one that had been ours would be put right", || (told_at.elapsed() > LEFT_ALONE).then_some(()));
    nexus.ok(&["pause", "0"]);
    nexus.ok(&["restart"]);
    let blank = nexus.file("blank.json", "");
    nexus.ok(&["start", "--state-file", "blank.json"]);
    shows(&blank, json!([0.0, 0.0]), json!([0]));
    assert_eq!(text(&path(&nexus)), dear);
}

#[test]
fn a_change_made_while_no_service_runs_counts_and_an_old_file_does_not() {
    let nexus = kept(3);
    let file = path(&nexus);
    nexus.ok(&["pause", "0,1"]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([0, 1]));
    nexus.kill_service();
    changed(&file, &with_pauses(json!([1, 2])));
    nexus.ok(&["start"]);
    are_paused(&nexus, &[1, 2]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([1, 2]));
    // The same file as before, and other pauses: the database is right.
    nexus.ok(&["stop", "-y"]);
    let before = text(&file);
    nexus.config("");
    nexus.ok(&["resume", "1"]);
    nexus.ok(&["stop", "-y"]);
    assert_eq!(text(&file), before);
    nexus.config(&format!("[paths]\nstate_file = \"{}\"\n", file.display()));
    nexus.ok(&["start"]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([2]));
    assert_eq!(paused(&nexus), [2]);
    // Gone while nobody looked: that means nothing.
    nexus.kill_service();
    std::fs::remove_file(&file).unwrap();
    nexus.ok(&["start"]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([2]));
}

#[test]
fn jobs_that_run_through_a_restart_are_in_it_and_a_stop_leaves_none() {
    let nexus = kept(2);
    let file = path(&nexus);
    let job = nexus.add(LONG);
    nexus.in_state(&job, "running");
    shows(&file, json!([1.0, 0.0]), json!([]));
    nexus.kill_service();
    std::fs::write(&file, "{\"gpu_status\":[0.0,0.0],\"paused_gpus\":[]}\n").unwrap();
    nexus.ok(&["start"]);
    shows(&file, json!([1.0, 0.0]), json!([]));
    nexus.ok(&["restart"]);
    shows(&file, json!([1.0, 0.0]), json!([]));
    nexus.ok(&["stop", "-y"]);
    assert_eq!(text(&file), "{\"gpu_status\":[0.0,0.0],\"paused_gpus\":[]}\n");
}

#[test]
fn a_change_is_taken_once_though_the_service_is_killed() {
    let nexus = kept(2);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0]), json!([]));
    let kill_after = |change: &dyn Fn()| {
        let pid = nexus.service_pid();
        change();
        kill(pid, signal::SIGKILL);
        until("the service is gone", || (!alive(pid)).then_some(()));
        nexus.ok(&["start"]);
    };
    for _ in 0..6 {
        kill_after(&|| changed(&file, &with_pauses(json!([0]))));
        are_paused(&nexus, &[0]);
        kill_after(&|| drop(nexus.ok(&["resume", "0"])));
        shows(&file, json!([0.0, 0.0]), json!([]));
        assert_eq!(paused(&nexus), [0; 0], "{}", nexus.service_log());
    }
}

/// What a writer who did not see our last writing leaves out was not taken away.
#[test]
fn r15_a_pause_given_while_the_file_is_written_is_not_lost() {
    let nexus = kept(3);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([]));
    nexus.ok(&["pause", "0"]);
    shows(&file, json!([0.0, 0.0, 0.0]), json!([0]));
    let ours = std::fs::metadata(&file).unwrap().modified().unwrap();
    replaced(&file, &with_pauses(json!([1])), ours + Duration::from_millis(3));
    are_paused(&nexus, &[0, 1]);
    told(&nexus, "GPU 0 stays paused: the state file was written at the same moment");
    shows(&file, json!([0.0, 0.0, 0.0]), json!([0, 1]));
    // Later the same is meant.
    changed(&file, &with_pauses(json!([1])));
    are_paused(&nexus, &[1]);
}

#[test]
fn r15_pauses_by_command_and_by_file_at_once_are_all_kept() {
    let nexus = kept(16);
    let file = path(&nexus);
    until("it is there", || file.exists().then_some(()));
    let ids: Vec<String> = (0..4).map(|_| nexus.add("while :; do sleep 0.05; done")).collect();
    nexus.in_state(&ids[3], "running");
    // Somebody adds one after another to what stands there, while others are paused by command and jobs come and go.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for gpu in 8..12 {
                nexus.ok(&["pause", &gpu.to_string()]);
            }
        });
        scope.spawn(|| (0..6).for_each(|_| drop(nexus.ended(&nexus.add("true")))));
        for gpu in 12..16_u64 {
            let before: Value = until("it can be read", || serde_json::from_str(&text(&file)).ok());
            let mut list = before["paused_gpus"].as_array().expect("a list").clone();
            list.push(gpu.into());
            let beside = file.with_extension("new");
            std::fs::write(&beside, with_pauses(list.into())).unwrap();
            std::fs::rename(&beside, &file).unwrap();
            until("it is paused", || paused(&nexus).contains(&gpu).then_some(()));
        }
    });
    are_paused(&nexus, &(8..16).collect::<Vec<_>>());
    until("the file says so", || {
        let now: Value = serde_json::from_str(&text(&file)).ok()?;
        (now["paused_gpus"] == json!((8..16).collect::<Vec<_>>())).then_some(())
    });
    assert_eq!(times_told(&nexus, " resumed by"), 0, "{}", nexus.service_log());
}

#[test]
fn many_changes_are_few_writings() {
    let nexus = kept(2);
    let file = path(&nexus);
    shows(&file, json!([0.0, 0.0]), json!([]));
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let writings = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                seen.extend(std::fs::metadata(&file).map(|found| (found.ino(), found.mtime_nsec())));
                std::thread::yield_now();
            }
            seen.len()
        });
        let ids = nexus.ok(&["add", "-x", "60", "--gpus", "0.5", "sleep 0.0$RANDOM"]);
        ids.lines().for_each(|id| assert_eq!(nexus.ended(id)["state"], "completed"));
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    // However slow the machine is: so many for each second, and not one for each change.
    let most = 3 + began.elapsed().as_millis() / 300;
    assert!(writings as u128 <= most, "{writings} writings in {:?}", began.elapsed());
    shows(&file, json!([0.0, 0.0]), json!([]));
}
