//! The references in `docs/` say what the program says. `UPDATE_DOCS=1` writes them anew.

use std::path::PathBuf;

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn the_command_reference_is_what_help_says() {
    let nexus = Nexus::fresh(NEXUS);
    let all = nexus.ok(&["help", "all"]);
    let verbs: Vec<&str> =
        all.lines().filter_map(|line| line.strip_prefix("  nexus ")?.split_whitespace().next()).collect();
    assert!(verbs.len() > 20, "{all}");
    let mut text = String::from("# Commands\n\nMade from the program's own help.\n");
    for verb in ["all", "selectors"].iter().chain(&verbs) {
        let help = nexus.ok(&["help", verb]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus help {verb}\n\n```\n{}\n```\n", lines.join("\n")));
    }
    compare("docs/cli.md", &text);
}

#[test]
fn the_configuration_reference_is_the_file_made_at_first_use() {
    let nexus = Nexus::with_gpus(NEXUS, 0);
    let made = std::fs::read_to_string(nexus.home().join("config.toml")).expect("made at first use");
    let text = format!(
        "# Configuration\n\n`~/.nexus/config.toml`, as it is made at first use. A wrong key or value stops \
         `nexus start` and is named with its line.\n\n```toml\n{made}```\n"
    );
    compare("docs/config.md", &text);
}

fn compare(name: &str, expected: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).expect("the docs are writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} is out of date: UPDATE_DOCS=1 ./test writes it anew");
}
