//! Any text as what a client or another program says to the service beside JSON: ranges of a log, cursors, addresses of
//! machines by line; the state file, a table of models and a command that is told its GPUs as a whole.

use std::path::Path;

use nexus_api::command::Command;
use nexus_daemon::fuzzing::{Address, Behind, Memory, Range, Table, paused, told};

pub fn hold(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    text.lines().for_each(one_line);
    match paused(&text) {
        Ok(gpus) => {
            let list: Vec<String> = gpus.iter().map(|index| index.to_string()).collect();
            assert_eq!(paused(&format!("{{\"paused_gpus\":[{}]}}", list.join(","))), Ok(gpus));
        }
        Err(why) => assert!(!why.is_empty() && why.len() < 1000, "{why}"),
    }
    let memory = Memory::read(Some(&text));
    assert_eq!(Memory::read(Some(&memory.note().1)), memory);
    memory.of(Path::new("/a"));
    if let Ok(table) = Table::parse(&text, "llm_config.json") {
        let words = ["train", "--llm", "a"].map(String::from).to_vec();
        assert!(table.need(&[words]).is_none_or(|(_, need)| need.is_finite() && need >= 0.0));
        assert!(table.count() <= bytes.len());
    }
    let once = told(Command::Shell(text.to_string()), "--cuda", "0,1");
    // A file that output goes to may be called like the option.
    if !text.contains(['>', '<']) {
        assert_eq!(told(once.clone(), "--cuda", "0,1"), once, "who is told again hears the same");
    }
}

fn one_line(text: &str) {
    if let Some(range) = Range::read(text) {
        assert_eq!(Range::read(&range.to_string()), Some(range));
        for length in [0, 1, 100, u64::MAX] {
            let inside = range.within(length).is_none_or(|(first, count)| count > 0 && count <= length - first);
            assert!(inside, "{range} of {length}");
        }
    }
    if let Some(behind) = Behind::read(text) {
        assert_eq!(Behind::read(&behind.text()).map(|same| same.text()), Some(behind.text()));
        // A page is behind it, however long.
        assert!(behind.position().checked_add(20_000).is_some());
    }
    if let Some(address) = Address::parse(text) {
        assert_eq!(address.to_string(), text);
        assert!(!address.host().starts_with('-') && !address.host().is_empty(), "{text:?}");
        let plain =
            |word: &String| !word.contains(|letter: char| letter.is_whitespace() || "'\"`$;|&<>".contains(letter));
        assert!(address.arguments().iter().all(plain), "{text:?}");
    }
}
