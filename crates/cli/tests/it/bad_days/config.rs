//! A wrong `config.toml` stops a start, with its line; while the service runs it is refused, and the old one stays.

use std::fs;

use nexus_testkit::{Nexus, until};

use super::lives;
use crate::NEXUS;

#[test]
fn a_wrong_key_or_type_is_named_with_its_line() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.home().join("config.toml").display().to_string();
    for (text, line, why) in [
        ("[jobs]\n\ngrce = \"3s\"\n", 3, "there is no key grce; did you mean grace?"),
        ("[jbos]\n", 1, "there is no section [jbos]; did you mean [jobs]?"),
        ("[jobs]\npoll = \"3s\"\n", 2, "poll belongs to [gpus]"),
        ("[jobs]\ngrace = 3\n", 2, "grace cannot be 3; it is a duration in quotes"),
        ("[jobs]\ntty = \"yes\"\n", 2, "tty cannot be \"yes\"; it is true or false"),
        ("[gpus]\nmem_threshold = 1.5\n", 2, "mem_threshold cannot be 1.5; it is a part from 0 to 1"),
        ("[jobs\n", 1, ""),
        ("[log]\nmax_size = \"big\"\n", 2, "max_size cannot be \"big\"; it is a size in quotes"),
    ] {
        nexus.config(text);
        for args in [&["start"][..], &["add", "true"]] {
            let said = nexus.fails(1, args);
            assert!(said.starts_with(&format!("error: {path}, line {line} is wrong\n{why}")), "{text}: {said}");
            assert!(said.ends_with(&format!("hint: correct {path}, or move it away for a fresh one\n")), "{said}");
        }
    }
    nexus.config("[jobs]\ngrace = \"3s\"\n");
    nexus.start(1);
    lives(&nexus);
}

#[test]
fn what_is_no_text_is_called_so() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.home().join("config.toml");
    let says = |words: &str| {
        for args in [&["start"][..], &["config"]] {
            let said = nexus.fails(1, args);
            assert!(said.starts_with(&format!("error: {}", path.display())) && said.contains(words), "{said}");
        }
        let seen = nexus.run(&["doctor"]).expect_code(1).stdout;
        assert!(seen.contains("bad   config") && seen.contains(words), "{seen}");
    };
    nexus.config("");
    fs::write(&path, b"[jobs]\n# gr\xe4ce\n").unwrap();
    says("line 2 is wrong\nit is not text in UTF-8".split('\n').next_back().unwrap());
    fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    says("it is larger than 1024 KiB");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    says("it is a folder");
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("/no/such/place", &path).unwrap();
    says("No such file or directory");
}

#[test]
fn a_bad_edit_is_refused_told_and_mended() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "jobs.shell", "sh"]);
    let right = fs::read_to_string(nexus.home().join("config.toml")).unwrap();
    let logged = |line: &str| until(line, || nexus.service_log().contains(line).then_some(()));
    nexus.config("[jobs]\nshell = \"bash\"\ngrce = \"3s\"\n");
    let why = "line 3: there is no key grce; did you mean grace?";
    logged(&format!("] Config refused: {why}; the old one stays in force\n"));
    assert_eq!(nexus.ok(&["config", "get", "jobs.shell"]), "sh");
    let seen = nexus.ok(&["config"]);
    assert!(seen.lines().nth(1).is_some_and(|line| line.ends_with(&format!("not in force: {why}"))), "{seen}");
    assert_eq!(nexus.json(&["config", "--json"])["refused"]["problem"], "bad_config");
    let seen = nexus.run(&["doctor"]).expect_code(1).stdout;
    assert!(seen.contains(&format!("the file on disk is not in force: {why}")), "{seen}");
    assert!(nexus.fails(1, &["config", "set", "jobs.grace", "3s"]).contains("line 3 is wrong"));
    assert!(nexus.fails(1, &["restart"]).contains("line 3 is wrong"));
    lives(&nexus);
    nexus.config(&right);
    logged("] Config on disk is the one in force again\n");
    assert!(nexus.json(&["config", "--json"])["refused"].is_null());
    nexus.ok(&["restart"]);
    assert_eq!(nexus.ok(&["config", "get", "jobs.shell"]), "sh");
}

#[test]
fn a_file_that_is_gone_changes_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "jobs.shell", "sh"]);
    fs::remove_file(nexus.home().join("config.toml")).unwrap();
    let line = "Config refused: it is gone; nexus restart makes a fresh one; the old one stays in force\n";
    until(line, || nexus.service_log().contains(line).then_some(()));
    assert_eq!(nexus.ok(&["config", "get", "jobs.shell"]), "sh");
    nexus.ok(&["restart"]);
    assert_eq!(nexus.ok(&["config", "get", "jobs.shell"]), "bash");
    lives(&nexus);
}

#[test]
fn a_bad_edit_does_not_stop_the_service_that_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.config("nonsense\n");
    lives(&nexus);
}

#[test]
fn the_first_use_writes_one_with_every_key() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let text = fs::read_to_string(nexus.home().join("config.toml")).unwrap();
    for key in nexus.json(&["config", "--json"])["keys"].as_array().unwrap() {
        let (section, name) = key["key"].as_str().unwrap().split_once('.').unwrap();
        assert!(text.contains(&format!("\n[{section}]\n")) && text.contains(&format!("\n# {name} = ")), "{key}");
    }
}
