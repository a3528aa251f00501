//! `config`: what is set, where it comes from, and how it is changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use nexus_testkit::{Nexus, until};

use super::SCREEN;
use crate::NEXUS;

fn file(nexus: &Nexus) -> String {
    fs::read_to_string(nexus.home().join("config.toml")).expect("a configuration")
}

/// A home whose editor is this shell script; `$1` is the file.
fn with_editor(script: &str) -> Nexus {
    let nexus = Nexus::fresh(NEXUS);
    let editor = nexus.file("an editor", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).expect("its own file");
    let nexus = nexus.env("VISUAL", "").env("EDITOR", &format!("'{}'", editor.display()));
    nexus.start(1);
    nexus
}

/// Copies that an editor left.
fn copies(nexus: &Nexus) -> Vec<String> {
    let names = fs::read_dir(nexus.home()).expect("a home").map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("config.edit")).collect()
}

#[test]
fn without_a_service_it_reads_the_file_and_makes_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    let seen = nexus.ok(&["config"]);
    assert!(seen.starts_with(&format!("Config: {}/config.toml\n", nexus.home().display())), "{seen}");
    assert!(seen.lines().any(|line| line.split_whitespace().eq(["jobs.grace", "10s", "default"])), "{seen}");
    assert_eq!(nexus.ok(&["config", "path"]), nexus.home().join("config.toml").display().to_string());
    assert_eq!(nexus.ok(&["config", "get", "paths.log_dir"]), nexus.home().join("logs").display().to_string());
    assert!(!nexus.home().exists());
    nexus.config("[jobs]\n\ngrace = \"3s\"\n[log]\nlevel = \"debug\"\n");
    let seen = nexus.ok(&["config"]);
    assert!(seen.lines().any(|line| line.split_whitespace().eq(["jobs.grace", "3s", "line", "3"])), "{seen}");
    assert!(seen.lines().any(|line| line.split_whitespace().eq(["log.level", "debug", "line", "5"])), "{seen}");
    nexus.config("[jobs]\ngrace = 3\n");
    assert!(nexus.fails(1, &["config"]).contains("line 2 is wrong"));
}

#[test]
fn json_has_every_key() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "jobs.grace", "3s"]);
    let view = nexus.json(&["config", "--json"]);
    let keys = view["keys"].as_array().expect("keys");
    assert!(keys.len() > 30, "{}", keys.len());
    let grace = keys.iter().find(|key| key["key"] == "jobs.grace").expect("jobs.grace");
    assert_eq!((&grace["value"], &grace["default"], &grace["used"]), (&"3s".into(), &"10s".into(), &true.into()));
    assert!(grace["line"].as_u64().is_some_and(|line| line > 3) && grace["after_restart"].is_null(), "{grace}");
    assert_eq!(&nexus.json(&["config", "get", "jobs.grace", "--json"]), grace);
    assert!(view["refused"].is_null());
}

#[test]
fn set_changes_one_line_and_counts_at_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let before = file(&nexus);
    let said = nexus.run(&["config", "set", "jobs.grace", "3s"]).expect_code(0);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "jobs.grace 10s -> 3s\n"));
    assert_eq!(nexus.ok(&["config", "get", "jobs.grace"]), "3s");
    assert!(nexus.service_log().contains("] Config changed: jobs.grace 10s -> 3s\n"), "{}", nexus.service_log());
    let after = file(&nexus);
    let changed: Vec<&str> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    assert_eq!(changed, ["grace = \"3s\"                      # between TERM and KILL"]);
    assert_eq!(before.lines().count(), after.lines().count());
    nexus.ok(&["config", "set", "gpus.ignore", "Xorg,alice"]);
    nexus.ok(&["config", "set", "jobs.tty", "false"]);
    nexus.ok(&["config", "set", "import.csv_gpu_arg", "--gpu"]);
    assert_eq!(nexus.ok(&["config", "get", "gpus.ignore"]), "Xorg,alice");
    assert_eq!(nexus.run(&["config", "set", "jobs.tty", "false"]).expect_code(0).stderr, "jobs.tty is so already\n");
    for key in ["gpus.ignore", "jobs.tty", "import.csv_gpu_arg", "jobs.grace"] {
        nexus.ok(&["config", "unset", key]);
    }
    assert_eq!(file(&nexus), before);
}

#[test]
fn a_machine_has_settings_of_its_own() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "gpus.poll", "7s"]);
    assert_eq!(nexus.ok(&["config", "get", "machine.box.gpus.poll"]), "7s");
    nexus.ok(&["config", "set", "machine.box.gpus.poll", "9s"]);
    assert_eq!(nexus.ok(&["config", "get", "machine.box.gpus.poll"]), "9s");
    assert!(file(&nexus).ends_with("\n[machine.box.gpus]\npoll = \"9s\"\n"));
}

#[test]
fn what_the_service_would_refuse_is_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let before = file(&nexus);
    for (args, error) in [
        (&["set", "jobs.grce", "3s"][..], "error: there is no key jobs.grce; did you mean jobs.grace?\n"),
        (&["set", "grace", "3s"], "error: there is no key grace; did you mean jobs.grace?\n"),
        (&["unset", "jobs.poll"], "error: there is no key jobs.poll; did you mean gpus.poll?\n"),
        (&["get", "jbos.grace"], "error: there is no section [jbos]; did you mean [jobs]?\n"),
        (&["set", "jobs.grace", "soon"], "error: jobs.grace cannot be soon\nusage: nexus config set"),
        (&["set", "gpus.mem_threshold", "80"], "error: gpus.mem_threshold cannot be 80\nusage: "),
        (&["set", "jobs.grace"], "error: VALUE is missing\nusage: nexus config set"),
        (&["sett"], "error: there is no nexus config sett\nusage: nexus config"),
        (&["jobs.grace"], "error: there is no nexus config jobs.grace\nusage: nexus config"),
    ] {
        let said = nexus.fails(2, &[&["config"], args].concat());
        assert!(said.starts_with(error), "{args:?}: {said}");
        assert!(said.contains("hint: "), "{args:?}: {said}");
    }
    assert_eq!(file(&nexus), before);
    let hint = nexus.fails(2, &["config", "set", "jobs.grace", "soon"]);
    assert!(hint.ends_with("hint: it is a duration in quotes, with its unit: \"10s\", \"5m\", \"2h\"\n"), "{hint}");
    assert!(nexus.fails(2, &["config", "sett"]).ends_with("hint: nexus config set\n"));
    assert!(nexus.fails(2, &["config", "jobs.grace"]).ends_with("hint: nexus config get jobs.grace\n"));
}

#[test]
fn the_log_folder_waits_for_a_restart() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let (old, new) = (nexus.home().join("logs"), nexus.work().join("other logs"));
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let said = nexus.run(&["config", "set", "paths.log_dir", &new]).expect_code(0).stderr;
    assert_eq!(said, format!("paths.log_dir {old} -> {new}; it waits for nexus restart\n"));
    assert!(nexus.service_log().contains("; it waits for nexus restart\n"));
    assert_eq!(nexus.ok(&["config", "get", "paths.log_dir"]), old);
    assert!(nexus.ok(&["config"]).contains(&format!("waits for nexus restart: {new}")));
    assert!(nexus.ok(&["doctor"]).contains("changed and not in force yet: paths.log_dir"));
    assert!(nexus.done("true")["log_dir"].as_str().is_some_and(|dir| dir.starts_with(&old)));
    nexus.ok(&["restart"]);
    assert_eq!(nexus.ok(&["config", "get", "paths.log_dir"]), new);
    assert!(nexus.done("true")["log_dir"].as_str().is_some_and(|dir| dir.starts_with(&new)));
}

#[test]
fn many_changes_at_once_lose_none() {
    let nexus = Nexus::fresh(NEXUS);
    let wanted = [
        ("jobs.grace", "11s"),
        ("jobs.retry_wait", "12s"),
        ("jobs.retry_wait_max", "13s"),
        ("jobs.shell", "sh"),
        ("jobs.start_attempts", "14"),
        ("queue.patience", "15s"),
        ("gpus.poll", "16s"),
        ("log.keep", "17"),
        ("web.port", "18"),
        ("ssh.args", "-v"),
    ];
    let children: Vec<_> =
        wanted.iter().map(|(key, value)| nexus.command(&["config", "set", key, value]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for (key, value) in wanted {
        assert_eq!(nexus.ok(&["config", "get", key]), value);
    }
    assert_eq!(fs::metadata(nexus.home().join("config.toml")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn edit_checks_the_text_and_follows_a_link() {
    let nexus = with_editor("sed -i 's/^# grace = \"10s\"/grace = \"4s\"/' \"$1\"");
    let path = nexus.home().join("config.toml");
    let target = nexus.work().join("dotfiles.toml");
    fs::rename(&path, &target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&target, &path).unwrap();
    assert_eq!(nexus.run(&["config", "edit"]).expect_code(0).stderr, "jobs.grace 10s -> 4s\n");
    assert_eq!(nexus.ok(&["config", "get", "jobs.grace"]), "4s");
    assert!(path.is_symlink() && fs::read_to_string(&target).unwrap().contains("\ngrace = \"4s\""));
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(nexus.run(&["config", "edit"]).expect_code(0).stderr, "nothing was changed\n");
    assert_eq!(copies(&nexus), Vec::<String>::new());
    // And a change behind the link is seen as well.
    fs::write(&target, "[jobs]\ngrace = \"6s\"\n").unwrap();
    until("the change is in force", || (nexus.ok(&["config", "get", "jobs.grace"]) == "6s").then_some(()));
}

#[test]
fn a_wrong_text_is_refused_and_kept() {
    let nexus = with_editor("echo '[jobs]' > \"$1\"; echo 'grce = 3' >> \"$1\"");
    let before = file(&nexus);
    let said = nexus.fails(1, &["config", "edit"]);
    assert!(said.starts_with("error: the configuration was not changed\n"), "{said}");
    assert!(said.contains("line 2 is wrong: there is no key grce; did you mean grace?\n"), "{said}");
    let kept = said.trim_end().rsplit("hint: your text is kept in ").next().expect("a path").to_string();
    assert_eq!(fs::read_to_string(kept).expect("the text"), "[jobs]\ngrce = 3\n");
    assert_eq!(file(&nexus), before);
    assert_eq!(nexus.ok(&["config", "get", "jobs.grace"]), "10s");
}

#[test]
fn on_a_terminal_a_wrong_text_can_be_edited_again() {
    let nexus = with_editor(
        "if grep -q nonsense \"$1\"; then echo '[jobs]\ngrace = \"8s\"' > \"$1\"; else echo nonsense > \"$1\"; fi",
    );
    let seen = nexus.on_terminal(SCREEN, "y\n", &["config", "edit"]).expect_code(0).stdout;
    assert!(seen.contains("line 1 is wrong") && seen.contains("edit it again? [y/N]"), "{seen}");
    assert!(seen.contains("jobs.grace 10s -> 8s"), "{seen}");
    let seen = nexus.on_terminal(SCREEN, "n\n", &["config", "edit"]).expect_code(1).stdout;
    assert!(seen.contains("the configuration was not changed"), "{seen}");
}

#[test]
fn an_editor_that_fails_changes_nothing() {
    let nexus = with_editor("echo 'x = 1' > \"$1\"; exit 3");
    let before = file(&nexus);
    let said = nexus.fails(1, &["config", "edit"]);
    assert!(said.contains("it ended with exit 3\n") && said.contains("your text is kept in "), "{said}");
    let nexus = nexus.env("VISUAL", "/no/such/editor --wait");
    let said = nexus.fails(1, &["config", "edit"]);
    assert!(said.starts_with("error: the editor /no/such/editor --wait cannot be started\nNo such file"), "{said}");
    assert_eq!(file(&nexus), before);
    assert_eq!(copies(&nexus).len(), 1, "the one that was changed");
    let bare = Nexus::fresh(NEXUS);
    assert!(bare.fails(1, &["config", "edit"]).starts_with("error: there is no terminal to edit on\n"));
}

#[test]
fn a_change_made_meanwhile_is_not_overwritten() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let script =
        format!("NEXUS_HOME={} {NEXUS} config set jobs.grace 5s; echo '[log]' > \"$1\"", nexus.home().display());
    let editor = nexus.file("editor", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    let nexus = nexus.env("EDITOR", editor.to_str().expect("a path"));
    let said = nexus.fails(1, &["config", "edit"]);
    assert!(said.contains("somebody else has changed it meanwhile"), "{said}");
    assert_eq!(nexus.ok(&["config", "get", "jobs.grace"]), "5s");
}
