//! A wrong `config.toml` stops a start, with its line.

use nexus_testkit::Nexus;

use super::lives;
use crate::NEXUS;

#[test]
fn a_wrong_key_or_type_is_named_with_its_line() {
    let nexus = Nexus::fresh(NEXUS);
    let path = nexus.home().join("config.toml").display().to_string();
    for (text, line, why) in [
        ("[jobs]\n\ngrce = \"3s\"\n", 3, "there is no key grce; did you mean grace?"),
        ("[jbos]\n", 1, "there is no key jbos; did you mean jobs?"),
        ("[jobs]\ngrace = 3\n", 2, "invalid type: integer `3`"),
        ("[jobs]\ntty = \"yes\"\n", 2, "invalid type: string \"yes\""),
        ("[jobs]\ngrace = \"soon\"\n", 2, "\"soon\" is no duration: write 10s, 5m or 2h"),
        ("[jobs\n", 1, ""),
        ("[log]\nmax_size = \"big\"\n", 2, "\"big\" is no size: write 50MB or 1GB"),
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
fn a_bad_edit_does_not_stop_the_service_that_runs() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.config("nonsense\n");
    lives(&nexus);
}

#[test]
fn the_first_use_writes_one_with_every_key() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let text = std::fs::read_to_string(nexus.home().join("config.toml")).unwrap();
    for key in ["[paths]", "# log_dir", "[jobs]", "# grace", "# retry_wait", "[log]", "# max_size"] {
        assert!(text.contains(key), "{key}: {text}");
    }
}
