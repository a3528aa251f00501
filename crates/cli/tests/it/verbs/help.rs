//! `help`: short, all, one verb, selectors.

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn short_by_default_and_all_on_request() {
    let nexus = Nexus::fresh(NEXUS);
    let short = nexus.ok(&["help"]);
    assert!(short.ends_with("\nmore: nexus help all"), "{short}");
    for verb in ["add", "run", "queue", "history", "why", "kill", "remove", "pause", "logs", "stop"] {
        assert!(short.contains(&format!("nexus {verb} ")), "{verb}: {short}");
    }
    assert_eq!(nexus.ok(&["--help"]), short);
    assert_eq!(nexus.ok(&["-h"]), short);
    let all = nexus.ok(&["help", "all"]);
    for line in all.lines().filter(|line| line.starts_with("  nexus ")) {
        let verb = line.split_whitespace().nth(1).unwrap();
        let own = nexus.ok(&["help", verb]);
        assert_eq!(own, nexus.ok(&[verb, "--help"]), "{verb}");
        assert!(own.contains(&format!("Usage: nexus {verb}")) && own.contains("\nExample"), "{own}");
    }
    assert!(!nexus.home().exists());
}

#[test]
fn topics() {
    let nexus = Nexus::fresh(NEXUS);
    let add = nexus.ok(&["help", "add"]);
    for option in ["--gpus", "--on", "--priority", "--time", "--env-file", "--dry-run", "Lower runs first"] {
        assert!(add.contains(option), "{option}");
    }
    let selectors = nexus.ok(&["help", "selectors"]);
    for selector in ["last:3", "tag:x", "name:x", "project:x", "/regex/", "box:0"] {
        assert!(selectors.contains(selector), "{selector}");
    }
    let said = nexus.fails(2, &["help", "kil"]);
    assert!(
        said.starts_with("error: there is no verb kil\n") && said.ends_with("hint: nexus kill, or nexus help\n"),
        "{said}"
    );
    assert_eq!(nexus.ok(&["--version"]), format!("nexus {}", env!("CARGO_PKG_VERSION")));
}
