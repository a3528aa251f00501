//! Every format in tables, and the files that hurt. What holds for any bytes: `tests/job_file`.

use super::*;

mod auto;
mod csv;
mod esy;
mod jsonl;
mod lines;

fn one_format(text: impl AsRef<[u8]>, format: Format) -> Read {
    let read = read(text.as_ref(), Some(format)).expect("a file of one format");
    assert_eq!(read.format, format);
    read
}

/// The one entry of a file in which nothing is refused.
fn one(text: &str, format: Format) -> Entry {
    let read = one_format(text, format);
    assert_eq!((read.entries.len(), &read.refused), (1, &vec![]), "{text}");
    read.entries[0].clone()
}

fn shell(text: &str) -> Said {
    Said::Command(Command::Shell(text.into()))
}

fn argv(words: &[&str]) -> Said {
    Said::Command(Command::Argv(words.iter().map(|word| word.to_string()).collect()))
}

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// What each entry is written with.
fn written<'a>(text: &'a [u8], read: &Read) -> Vec<&'a [u8]> {
    read.entries.iter().map(|entry| &text[entry.written.clone()]).collect()
}

fn lines_of(errors: &[LineError]) -> Vec<u64> {
    errors.iter().map(|error| error.line).collect()
}

/// Each line by itself is refused with these words, and a good one after it counts.
fn refuses(format: Format, good: &str, table: &[(&str, &str)]) {
    for (line, words) in table {
        let read = one_format(format!("{line}\n{good}\n"), format);
        assert_eq!((lines_of(&read.refused), read.entries.len()), (vec![1], 1), "{line}: {read:?}");
        assert!(read.refused[0].error.contains(words), "{line}: {}", read.refused[0].error);
        assert_eq!(read.entries[0].line, 2 + line.matches('\n').count() as u64);
    }
}

const GOOD: [(Format, &str); 4] = [
    (Format::Lines, "python a.py"),
    (Format::Csv, "0,/a.py,torch,--lr 1,0-3"),
    (Format::Jsonl, "{\"command\": \"python a.py\", \"priority\": 2}"),
    (Format::Esy, "a;;out.log;;python a.py;;;"),
];

#[test]
fn a_file_from_windows_says_the_same() {
    for (format, good) in GOOD {
        let (unix, windows) = (format!("# c\n{good}\n\n{good}\n"), format!("# c\r\n{good}\r\n\r\n{good}\r\n"));
        let (of_unix, of_windows) = (one_format(&unix, format), one_format(&windows, format));
        assert_eq!(written(unix.as_bytes(), &of_unix), [good.as_bytes(); 2], "{good}");
        assert_eq!(written(windows.as_bytes(), &of_windows), [good.as_bytes(); 2], "{good}");
        let said = |read: &Read| -> Vec<(u64, Said, BTreeMap<String, String>)> {
            let entries = read.entries.iter();
            entries.map(|entry| (entry.line, entry.command.clone(), entry.options.clone())).collect()
        };
        assert_eq!(said(&of_unix), said(&of_windows));
        assert!(of_windows.refused.is_empty() && !of_windows.unfinished);
    }
}

#[test]
fn marks_of_an_encoding_are_passed_over_or_told() {
    for (format, good) in GOOD {
        let text = format!("\u{feff}{good}\n");
        for format in [Some(format), None] {
            let read = read(text.as_bytes(), format).unwrap();
            assert_eq!(written(text.as_bytes(), &read), [good.as_bytes()], "{good}");
        }
    }
    for mark in [b"\xff\xfep\0\n\0", b"\xfe\xff\0p\0\n"] {
        let error = read(mark, None).unwrap_err();
        assert!(error.line == 1 && error.error.contains("UTF-16") && error.error.contains("iconv"), "{error:?}");
    }
    let empty = read(UTF8_MARK, None).unwrap();
    assert!(empty.entries.is_empty() && !empty.unfinished && empty.format == Format::Lines);
}

#[test]
fn a_file_without_a_last_newline_may_go_on() {
    for (format, good) in GOOD {
        let read = one_format(good, format);
        assert_eq!(read.entries.len(), 1, "{good}");
        // A record has an end of its own.
        assert_eq!(read.unfinished, format != Format::Esy, "{good}");
        assert!(!one_format("", format).unfinished);
        assert!(!one_format(format!("{good}\n"), format).unfinished);
    }
}

#[test]
fn what_is_no_text_is_refused_by_its_line() {
    for (format, good) in GOOD {
        let end = if format == Format::Esy { ";;;" } else { "" };
        for (bad, words) in [(&b"x\xffy"[..], "UTF-8"), (b"x\0y", "NUL")] {
            let text = [good.as_bytes(), b"\n", bad, end.as_bytes(), b"\n", good.as_bytes(), b"\n"].concat();
            let read = one_format(&text, format);
            assert_eq!((read.entries.len(), lines_of(&read.refused)), (2, vec![2]), "{format:?}");
            assert!(read.refused[0].error.contains(words), "{:?}", read.refused);
            assert_eq!(read.entries[1].line, 3);
        }
        // Nobody reads a comment.
        let comment = [b"# f\xfcr\n", good.as_bytes(), b"\n"].concat();
        assert!(one_format(&comment, format).refused.is_empty(), "{format:?}");
    }
}

#[test]
fn a_line_of_ten_megabytes_is_refused_alone() {
    for (format, good) in GOOD {
        let end = if format == Format::Esy { ";;;" } else { "" };
        for filling in ["x", ",", "{", "0,", "\"", "; "] {
            let long = filling.repeat(10_000_000 / filling.len());
            let text = format!("{good}\n{long}{end}\n{good}\n");
            let read = one_format(&text, format);
            assert_eq!((read.entries.len(), lines_of(&read.refused)), (2, vec![2]), "{format:?}");
            assert!(read.refused[0].error.contains("bytes, and no command can be that long"), "{:?}", read.refused);
        }
    }
}

#[test]
fn a_hundred_thousand_lines() {
    for (format, good) in GOOD {
        let text = format!("{good}\n").repeat(100_000);
        let found = read(text.as_bytes(), None).unwrap();
        assert_eq!((found.format, found.entries.len()), (format, 100_000));
    }
}

#[test]
fn errors_are_short_and_stir_no_terminal() {
    let name = format!("{{\"command\": \"x\", \"time\": \"\\u001b[2J{}\"}}", "é".repeat(10_000));
    let error = &one_format(&name, Format::Jsonl).refused[0].error;
    assert!(error.chars().count() <= LONGEST_ERROR + 1 && !error.contains(char::is_control), "{error}");
}
