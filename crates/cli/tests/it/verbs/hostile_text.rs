//! Text of others on a terminal: control characters and bidirectional overrides are shown, and a terminal obeys none.

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

/// Clears the screen, sets a title, turns text round, and is a C1 sequence.
const HOSTILE: &str = "true '\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}\u{9b}31m\u{61c}'";
const SHOWN: &str = "true '\\x1b[2J\\x1b]0;x\\x07\\u202e\\u009b31m\\u061c'";

/// Where a terminal would obey something. Lines of a terminal end with a carriage return, and colours are nexus's own.
#[track_caller]
fn obeys_nothing(what: &str, shown: &str) {
    let plain = shown.replace("\r\n", "\n");
    let found = plain.find(|c: char| c.is_control() && !"\n\t".contains(c) || "\u{202e}\u{61c}".contains(c));
    assert_eq!(found, None, "{what}: {plain:?}");
}

#[test]
fn hostile_text_is_shown_wherever_a_person_reads_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let failed = nexus.add(&format!("{HOSTILE}; printf '\\033[2J\\0\\342\\200\\256last'; exit 3"));
    nexus.ended(&failed);
    let waits = nexus.add_with(&["--hold", "--tag", "t"], HOSTILE);
    let log = nexus.service_log();
    obeys_nothing("service.log", &log);
    assert!(log.contains(SHOWN), "{log}");
    for args in [
        &["why", &failed][..],
        &["why", &waits],
        &["show", &waits],
        &["show", &waits, "--json"],
        &["queue"],
        &["history"],
        &["ls", "--json"],
        &["export", "--format", "csv"],
        &["export"],
        &["report", "--columns", "id,command", "--format", "csv"],
        &["report", "--columns", "id,command"],
        &["edit", &waits, "--cwd", "/\u{1b}[2J\u{202e}"],
        &["show", "name:\u{1b}[2J\u{202e}"],
        &["\u{1b}[2J\u{202e}"],
        &["add", "--gpus", "\u{1b}[2J\u{202e}", "true"],
        &["kill", &waits],
    ] {
        let args = [&["--color", "never"], args].concat();
        let said = nexus.on_terminal(SCREEN, "", &args);
        obeys_nothing(&args.join(" "), &said.stdout);
        // Talk is for people wherever it goes.
        obeys_nothing(&args.join(" "), &nexus.run(&args).stderr);
    }
    // In a table a colour is not nexus's own either.
    nexus.add_with(&["--hold", "--name", "red"], "true '\u{1b}[31mred'");
    nexus.ok(&["sweep", "--name", "colours", "true '\u{1b}[31m{x}'", "x=\u{1b}[31mred"]);
    for args in [
        &["export", "--format", "csv"][..],
        &["report", "--columns", "command", "--format", "csv"],
        &["report", "--columns", "command", "--map", "command=cat", "--format", "csv"],
        &["sweep", "csv", "colours"],
    ] {
        let table = nexus.on_terminal(SCREEN, "", args).stdout;
        obeys_nothing(&args.join(" "), &table);
        assert!(table.contains("\\x1b[31m"), "{args:?}: {table}");
        assert!(args[0] == "sweep" || table.contains(SHOWN), "{args:?}: {table}");
    }
    // A file or a program gets what there is.
    for args in [&["export", "--format", "csv"][..], &["report", "--columns", "command", "--format", "csv"]] {
        assert!(nexus.ok(args).contains(HOSTILE), "{args:?}");
    }
    let json = nexus.on_terminal(SCREEN, "", &["show", &waits, "--json"]).stdout;
    let job: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(job["command"], HOSTILE, "it means the same");
}

#[test]
fn a_report_has_no_formulas_and_an_export_has_what_was_typed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.add_with(&["--hold", "--name", "=1+1", "--priority", "-3"], "@echo x");
    let report = nexus.ok(&["report", "--columns", "name,priority,command", "--format", "csv"]);
    assert_eq!(report, "name,priority,command\n'=1+1,-3,'@echo x");
    let export = nexus.ok(&["export", "--format", "csv"]);
    assert!(export.contains(",=1+1,") && export.contains(",@echo x,"), "{export}");
}
