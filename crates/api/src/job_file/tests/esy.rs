//! GPUPeasy's batch text.

use super::*;

#[test]
fn records_end_where_they_say() {
    let text = "# a batch\nfirst;;logs/a.log;;python -u blah.py;;;\n\n# ;;; in a comment\n\
        second ;; /tmp/b.log ;; python  -u b.py \\\r\n  --lr 1;;; third;;c.log;;\nls -l;;;\nfourth;;d.log;;a; b;;;;";
    let read = one_format(text, Format::Esy);
    assert_eq!((&read.refused, read.unfinished), (&vec![], false));
    let told: Vec<(u64, &Said, &str, &str)> = read
        .entries
        .iter()
        .map(|entry| (entry.line, &entry.command, entry.options["name"].as_str(), entry.options["out"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (2, &shell("python -u blah.py"), "first", "logs/a.log"),
            (5, &shell("python  -u b.py \\   --lr 1"), "second", "/tmp/b.log"),
            (6, &shell("ls -l"), "third", "c.log"),
            (8, &shell("a; b;"), "fourth", "d.log"),
        ]
    );
    assert_eq!(written(text.as_bytes(), &read)[2], b"third;;c.log;;\nls -l;;;");
}

#[test]
fn what_cannot_be_taken_is_told_by_its_line() {
    refuses(
        Format::Esy,
        "a;;b;;c;;;",
        &[
            ("a;;c;;;", "it has 2 fields, and a record is name;;outfile;;command;;;"),
            ("a;;;", "it has 1 field"),
            ("a;;b;;c;;d;;;", "it has 4 fields"),
            ("a;;b;;c\nd;;e;;f;;;", "perhaps the ;;; of a record before is missing"),
            (";;b;;c;;;", "its name is empty"),
            ("a;; ;;c;;;", "its output file is empty"),
            ("a;;b;; \n ;;;", "its command is empty"),
            ("a\u{7};;b;;c;;;", "name: it has characters"),
            (&format!("a;;b;;{};;;", "x".repeat(140_000)), "140000 bytes in one argument"),
        ],
    );
}

#[test]
fn a_record_that_is_not_closed_may_go_on() {
    for rest in ["d", "d;;e;;f", "d;;e;;f\n", "d;;e;;f;;\n", "d;;e;;f;;;\nx"] {
        let read = one_format(format!("a;;b;;c;;;\n{rest}"), Format::Esy);
        let line = if rest.ends_with('x') { 3 } else { 2 };
        assert_eq!((lines_of(&read.refused), read.unfinished), (vec![line], true), "{rest}");
        assert!(read.refused[0].error.contains("its end, ;;;, is missing"));
    }
    for rest in ["", "\n", " \r\n", "# c", "# c\n"] {
        let read = one_format(format!("a;;b;;c;;;\n{rest}"), Format::Esy);
        assert_eq!((read.refused.len(), read.unfinished), (0, false), "{rest}");
    }
}
