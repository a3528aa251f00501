//! Manual pages: one for each verb, and none of what is hidden.

use std::process::Command;

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn every_verb_has_a_page_that_man_can_show() {
    let nexus = Nexus::fresh(NEXUS);
    let folder = nexus.work().join("man1");
    nexus.ok(&["__man", folder.to_str().unwrap()]);
    let mut pages: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    pages.sort();
    for page in ["nexus.1", "nexus-add.1", "nexus-service-install.1", "nexus-sweep-show.1"] {
        assert!(pages.iter().any(|known| known == page), "{page} of {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("__") || page.contains("node")), "{pages:?}");
    let text = std::fs::read_to_string(folder.join("nexus-kill.1")).unwrap();
    assert!(text.contains(".SH NAME\nnexus\\-kill \\- ") && text.contains("nexus kill"), "{text}");
    for page in pages {
        // Where groff is not installed nobody can be asked.
        let groff =
            Command::new("groff").args(["-Kutf8", "-man", "-Tutf8", "-ww", "-z"]).arg(folder.join(&page)).output();
        if let Ok(done) = groff {
            assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{page}");
        }
    }
    assert!(!nexus.home().exists());
}
