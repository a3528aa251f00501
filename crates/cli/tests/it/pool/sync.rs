//! `--sync`: jobs run the code as it was when they were added, wherever they run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_testkit::{Nexus, SshHosts, request, until};
use serde_json::Value;

use super::machines::{in_state, pool};
use crate::NEXUS;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A folder of code, as people have them.
fn project(nexus: &Nexus) -> PathBuf {
    let folder = nexus.work().join("my project");
    write(&folder, "main.sh", "echo first; cat data/small.txt; ls -1A . data sub; pwd");
    write(&folder, "data/small.txt", "small\n");
    write(&folder, "data/large.bin", "large");
    write(&folder, "sub/deep.txt", "deep\n");
    write(&folder, "sub/.gitignore", "*.log\n!kept.log\n");
    write(&folder, "sub/kept.log", "");
    write(&folder, "sub/gone.log", "");
    write(&folder, ".gitignore", "*.bin\n/build/\n");
    write(&folder, ".nexusignore", "notes.txt\n");
    write(&folder, "notes.txt", "mine");
    write(&folder, "build/out", "");
    write(&folder, ".git/HEAD", "");
    fs::set_permissions(folder.join("main.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("data/small.txt", folder.join("link")).unwrap();
    folder
}

fn add(nexus: &Nexus, folder: &Path, more: &[&str], command: &str) -> String {
    let (cwd, sync) = (folder.display().to_string(), folder.display().to_string());
    nexus.add_with(&[&["--cwd", &cwd, "--sync", &sync], more].concat(), command)
}

fn printed(nexus: &Nexus, id: &str) -> String {
    nexus.run_limited(&["logs", id]).expect_code(0).stdout
}

/// Folders of code that a host has.
fn contents(ssh: &SshHosts, number: usize) -> Vec<PathBuf> {
    let nodes = fs::read_dir(ssh.home(number).join("nodes")).unwrap().flatten();
    let code = nodes.flat_map(|node| fs::read_dir(node.path().join("code")).into_iter().flatten().flatten());
    code.map(|entry| entry.path()).collect()
}

#[test]
fn a_queued_job_runs_the_code_as_it_was() {
    let (ssh, nexus) = pool(1, 1);
    let folder = project(&nexus);
    nexus.ok(&["pause"]);
    let old = add(&nexus, &folder, &[], "./main.sh");
    let inside = add(&nexus, &folder, &["--cwd", &folder.join("sub").display().to_string()], "cat deep.txt ../link");
    write(&folder, "main.sh", "echo second");
    let new = add(&nexus, &folder, &[], "./main.sh");
    nexus.ok(&["resume"]);
    for id in [&old, &inside, &new] {
        let job = nexus.ended(id);
        assert_eq!((&job["state"], &job["machine"]), (&"completed".into(), &"host1".into()), "{job}");
    }
    let said = printed(&nexus, &old);
    assert!(said.starts_with("first\nsmall\n.:\n.gitignore\n.nexusignore\ndata\nlink\nmain.sh\nsub\n\n"), "{said}");
    assert!(said.contains("data:\nsmall.txt\n") && said.contains("sub:\n.gitignore\ndeep.txt\nkept.log\n"), "{said}");
    assert!(said.contains("/code/"), "{said}");
    assert_eq!(printed(&nexus, &inside), "deep\nsmall\n");
    assert_eq!(printed(&nexus, &new), "second\n");
    // One folder for each content; the same is not sent twice.
    assert_eq!(contents(&ssh, 1).len(), 2);
    let again = add(&nexus, &folder, &[], "./main.sh; touch made-by-a-job");
    assert_eq!(nexus.ended(&again)["state"], "completed");
    assert_eq!(contents(&ssh, 1).len(), 2);
    // What a job changes there is nowhere else.
    assert!(!folder.join("made-by-a-job").exists());
    let repeated = nexus.json(&["rerun", &old, "--json"])["jobs"][0]["id"].as_str().unwrap().to_string();
    nexus.ended(&repeated);
    assert!(printed(&nexus, &repeated).starts_with("first\n"));
}

#[test]
fn files_that_are_there_are_not_sent_again() {
    let (ssh, nexus) = pool(1, 1);
    let (folder, taken) = (project(&nexus), ssh.folder(1).join("taken"));
    write(&folder, "model.txt", &"weights ".repeat(200_000));
    // Its rsync writes down what it takes.
    let bin = ssh.folder(1).join("bin");
    let tells = format!(
        "#!/bin/sh\nshift\nexec {} --server --log-file={} --log-file-format=took:%f \"$@\"\n",
        program("rsync").display(),
        taken.display()
    );
    write(&bin, "rsync", &tells);
    fs::set_permissions(bin.join("rsync"), fs::Permissions::from_mode(0o755)).unwrap();
    with_path(&ssh, &nexus, &format!("{}:$PATH", bin.display()));
    assert_eq!(nexus.ended(&add(&nexus, &folder, &[], "true"))["state"], "completed");
    let first = fs::read_to_string(&taken).unwrap();
    let took = |name: &str, log: &str| log.lines().any(|line| line.contains("took:") && line.ends_with(name));
    assert!(took("model.txt", &first) && took("main.sh", &first), "{first}");
    write(&folder, "main.sh", "echo third");
    let id = add(&nexus, &folder, &[], "./main.sh && wc -c < model.txt");
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(printed(&nexus, &id), "third\n1600000\n");
    let both = fs::read_to_string(&taken).unwrap();
    let second = &both[first.len()..];
    assert!(took("main.sh", second) && !took("model.txt", second), "{second}");
}

/// Where a program is, here and on the hosts.
fn program(name: &str) -> PathBuf {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed"))
}

/// The shell of the first host finds programs there, from its next connection on.
fn with_path(ssh: &SshHosts, nexus: &Nexus, path: &str) {
    let file = ssh.folder(1).join("sshd_config");
    let config = fs::read_to_string(&file).unwrap();
    let forced = format!("ForceCommand PATH={path}; export PATH; eval \"$SSH_ORIGINAL_COMMAND\"\n");
    fs::write(file, config + &forced).unwrap();
    ssh.end_sshd(1);
    ssh.power_on(1);
    in_state(nexus, "host1", "unreachable");
    nexus.ok(&["machine", "resume", "host1"]);
    in_state(nexus, "host1", "ready");
}

#[test]
fn the_services_own_host_runs_a_copy_too() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let folder = project(&nexus);
    nexus.ok(&["pause"]);
    let id = add(&nexus, &folder, &[], "./main.sh; echo changed > main.sh");
    let twin = add(&nexus, &folder, &[], "cat main.sh");
    write(&folder, "main.sh", "echo other");
    nexus.ok(&["resume"]);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert!(printed(&nexus, &id).starts_with("first\nsmall\n"));
    // Jobs of one content share their folder, as jobs of one folder do.
    nexus.ended(&twin);
    assert_eq!(printed(&nexus, &twin), "changed\n");
    let shown = nexus.ok(&["show", &id]);
    assert!(shown.contains("Code:") && shown.contains("my project"), "{shown}");
}

#[test]
fn what_cannot_be_sent_says_why() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let folder = project(&nexus);
    let missing = nexus.fails(1, &["add", "--sync", "no-such-folder", "true"]);
    assert!(missing.contains("no-such-folder cannot be read"), "{missing}");
    let large = fs::File::create(folder.join("model.weights")).unwrap();
    large.set_len(3 << 30).unwrap();
    let told = nexus.fails(1, &["add", "--sync", &folder.display().to_string(), "true"]);
    assert!(told.contains("is more than code") && told.contains("of it in model.weights"), "{told}");
    assert!(told.contains(".gitignore or .nexusignore"), "{told}");
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 0);
}

#[test]
fn a_machine_without_rsync_says_so() {
    let (ssh, nexus) = pool(1, 1);
    let folder = project(&nexus);
    // Its shell finds everything but that.
    let bin = ssh.folder(1).join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["sh", "bash", "env", "cat", "head", "mkdir", "chmod", "mv", "rm", "uname"] {
        std::os::unix::fs::symlink(program(name), bin.join(name)).unwrap();
    }
    with_path(&ssh, &nexus, &bin.display().to_string());
    let id = add(&nexus, &folder, &[], "true");
    // It is tried again, later and later; what is wrong is told from the first time on.
    let job = until("its first try failed", || Some(nexus.job(&id)).filter(waits_after_a_try));
    let error = job["runs"][0]["outcome"]["error"].as_str().unwrap();
    assert!(error.contains("rsync is not installed there"), "{job}");
    assert!(nexus.ok(&["why", &id]).contains("rsync is not installed there"));
    // However the engine and the store are asked while it fails: the run that it waits after is in the answer.
    for _ in 0..20 {
        let id = add(&nexus, &folder, &[], "true");
        std::thread::scope(|scope| {
            for path in ["", "/why"].repeat(2) {
                let (nexus, path) = (&nexus, format!("/v1/jobs/{id}{path}"));
                scope.spawn(move || {
                    let job =
                        (0..10_000).map(|_| get(nexus, &path)).find(waits_after_a_try).expect("its first try fails");
                    assert_ne!(job["runs"][0]["outcome"], Value::Null, "{path}: {job}");
                });
            }
        });
    }
}

fn waits_after_a_try(job: &Value) -> bool {
    job["waiting"]["kind"] == "retry"
}

fn get(nexus: &Nexus, path: &str) -> Value {
    let (status, answer) = request(&nexus.home().join("nexus.sock"), "GET", path, "");
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

/// To ssh, rsync and the shells on the way.
#[test]
fn names_that_look_like_options_and_commands_are_only_names() {
    let (ssh, nexus) = (SshHosts::start(1), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    let evil = "it's \"-e\" $(touch taken) `touch taken` ;touch taken; --rsh=touch";
    let home = ssh.folder(1).join(evil);
    let added = ["machine", "add", "host1", "--simulate-gpus", "1", "--home", &home.display().to_string()];
    nexus.run_limited(&added).expect_code(0);
    let folder = nexus.work().join("--rsh=touch taken");
    for name in ["--delete", "-e touch taken", "$(touch taken)", "`touch taken`", "a\nb", "it's; touch taken"] {
        write(&folder, name, name);
    }
    let id = add(&nexus, &folder, &["--name=-X quit", "--project=--help"], "ls -1A | wc -l; cat -- --delete; pwd");
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["machine"]), (&"completed".into(), &"host1".into()), "{job}");
    let said = printed(&nexus, &id);
    assert!(said.starts_with("7\n--delete"), "{said}");
    assert!(said.contains(evil), "{said}");
    let folders = [nexus.work(), nexus.home(), ssh.user_home(1), ssh.folder(1), folder, "/".into()];
    let made: Vec<_> = folders.iter().map(|folder| folder.join("taken")).filter(|path| path.exists()).collect();
    assert!(made.is_empty(), "a name was a command: {made:?}");
}
