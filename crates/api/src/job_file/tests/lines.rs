//! Commands line by line.

use super::*;

#[test]
fn commands_of_the_dispatcher() {
    let text = "# comments start with #\npython train_resnet.py\npython process_data.py --workers 4\n\
                python train.py --batch-size 128\npython inference.py --input-dir ./data\n";
    let read = one_format(text, Format::Lines);
    let told: Vec<(u64, Said)> = read.entries.iter().map(|entry| (entry.line, entry.command.clone())).collect();
    let expected = [
        (2, "python train_resnet.py"),
        (3, "python process_data.py --workers 4"),
        (4, "python train.py --batch-size 128"),
        (5, "python inference.py --input-dir ./data"),
    ];
    assert_eq!(told, expected.map(|(line, command)| (line, shell(command))));
    assert!(read.refused.is_empty() && read.doubtful.is_empty() && read.past.is_empty());
}

#[test]
fn an_entry_reaches_from_its_options_to_the_end_of_its_command() {
    let text: &[u8] = b"#! was not taken\n#: ours\n# yours\n  a b \r\n\n #@ abc gpus=2 name='x y'\r\n  c d\t\r\n\
        #@ lines=2 hold\n e \n# f \n#@ argv\ng 'h i'\n";
    let read = one_format(text, Format::Lines);
    let expected: [&[u8]; 4] =
        [b"a b", b"#@ abc gpus=2 name='x y'\r\n  c d", b"#@ lines=2 hold\n e \n# f ", b"#@ argv\ng 'h i'"];
    assert_eq!(written(text, &read), expected);
    let told: Vec<(u64, &Said)> = read.entries.iter().map(|entry| (entry.line, &entry.command)).collect();
    assert_eq!(told, [(4, &shell("a b")), (6, &shell("c d")), (8, &shell(" e \n# f ")), (11, &argv(&["g", "h i"]))]);
    assert_eq!(read.entries[1].options, options(&[("gpus", "2"), ("name", "x y")]));
    assert_eq!(read.entries[1].id.as_deref(), Some("abc"));
    assert_eq!(read.entries[2].options, options(&[("hold", "yes")]));
    let text = b"#@ lines=2\na\n\nb\n";
    assert_eq!(written(text, &one_format(text, Format::Lines)), [&b"#@ lines=2\na\n"[..], b"b"], "an empty last line");
}

#[test]
fn what_cannot_be_taken_is_told_by_its_line() {
    refuses(
        Format::Lines,
        "ok",
        &[
            ("#@ priority=high\nx", "priority: high is no number"),
            ("#@ on=3-1\nx", "on: 3-1 is no list of GPUs"),
            ("#@ time=4\nx", "time: 4 has no unit: 4s, 4m, 4h or 4d"),
            ("#@ nice=3\nx", "there is no option nice"),
            ("#@ argv\na | b", "| means something to a shell"),
            ("#@ hold\n", "no command stands below it"),
            (&"x".repeat(140_000), "140000 bytes in one argument"),
        ],
    );
    let read = one_format("#@ argv\na | b\nx\0\n#@ priority=x\ny\nok\n", Format::Lines);
    assert_eq!(lines_of(&read.refused), [1, 3, 4], "in the order of the file");
    // A file may count from the folder of the file.
    assert_eq!(one("#@ out=logs/a.log\nx\n", Format::Lines).options, options(&[("out", "logs/a.log")]));
}

#[test]
fn counted_lines_do_not_make_a_file_slow() {
    let text = " #@ lines=1\nx\n".repeat(50_000);
    assert_eq!(one_format(&text, Format::Lines).entries.len(), 50_000);
}
