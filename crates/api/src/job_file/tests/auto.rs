//! Which format a file has.

use super::*;

#[test]
fn the_first_line_decides() {
    for (text, format, entries) in [
        ("", Format::Lines, 0),
        ("\n# only comments\n", Format::Lines, 0),
        ("python a.py\npython b.py --x 1,2,3,4\n", Format::Lines, 2),
        ("#@ gpus=2\n0,a.py,,x\n", Format::Lines, 1),
        ("#@ lines=2\n{ a\n}\npython b.py\n", Format::Lines, 2),
        ("case $x in a) b;; esac\n", Format::Lines, 1),
        ("3,a\n", Format::Lines, 1),
        ("3,,,\n", Format::Lines, 1),
        ("[ -f x ] && y\n", Format::Lines, 1),
        ("# c\n\n0,/a.py,,--x,0\n-1,/a.py,,\n", Format::Csv, 2),
        ("\"0\",\"/a.py\",,\"--x\",0\n", Format::Csv, 1),
        ("  0 , /a.py , , --x\n", Format::Csv, 1),
        ("priority,script,conda_env,arguments,allowed_gpus\n", Format::Csv, 0),
        ("# c\n{\"command\": \"x;;y;;;\"}\n", Format::Jsonl, 1),
        ("a;;b;;c\nd e\n{f};;;\n", Format::Esy, 1),
        ("# ;;\na;;b;;c;;;\n0,a,b,c;;d;;e;;;\n", Format::Esy, 2),
    ] {
        let read = read(text.as_bytes(), None).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!((read.format, read.entries.len(), &read.refused), (format, entries, &vec![]), "{text}");
    }
}

#[test]
fn a_mixed_file_is_refused_by_its_line() {
    for (text, line, words) in [
        (
            "0,/a.py,,--x,0\n# c\n\npython b.py\n",
            4,
            "it is a plain command, and line 1 is csv: one file, one format; --format csv tells of each line that is wrong",
        ),
        ("\npython b.py\n{\"command\": \"x\"}\n", 3, "it is JSON, and line 2 is a plain command"),
        ("{\"command\": \"x\"}\n0,/a.py,,--x,0\n", 2, "it is csv, and line 1 is JSON"),
        ("python b.py\na;;b;;c;;;\n", 2, "it is name;;outfile;;command;;;, and line 1 is a plain command"),
        ("python b.py\n0,/a.py,,--x,0\n", 2, "it is csv, and line 1 is a plain command"),
        ("0,/a.py,,--x,0\n#@ gpus=2\n1,/b.py,,--x,0\n", 2, "it is a plain command, and line 1 is csv"),
        ("{\n  \"command\": \"x\"\n}\n", 2, "a JSON object stands in one line"),
    ] {
        let error = read(text.as_bytes(), None).expect_err(text);
        assert!(
            error.line == line && error.error.starts_with(words) || error.error.ends_with(words),
            "{text}: {error:?}"
        );
        // Said which it is, every line is read so.
        let named = read(text.as_bytes(), Some(Format::Lines)).unwrap();
        assert!(!named.entries.is_empty(), "{text}");
    }
    let list = read(b"[\n", None).unwrap();
    assert!(list.format == Format::Jsonl && list.refused[0].error.contains("jq -c '.[]'"), "{list:?}");
}

/// One slip in a table does not make it another thing.
#[test]
fn a_wrong_line_of_a_table_is_told_and_the_rest_counts() {
    let read = read(b"0,/a.py,,--x,0\nhigh,/b.py,,--x,0\n,/c.py,,,\n1,/d.py,,--x,0\n", None).unwrap();
    let wrong: Vec<u64> = read.refused.iter().map(|refused| refused.line).collect();
    assert_eq!((read.format, read.entries.len(), wrong), (Format::Csv, 2, vec![2, 3]));
}

/// A line that no format can read decides nothing.
#[test]
fn what_is_no_text_decides_nothing() {
    let read = read(b"\xff\n0,/a.py,,--x,0\n\0\n", None).unwrap();
    assert_eq!((read.format, read.entries.len(), lines_of(&read.refused)), (Format::Csv, 1, vec![1, 3]));
}
