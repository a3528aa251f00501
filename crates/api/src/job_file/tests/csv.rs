//! The scheduler's table.

use super::*;

fn script(script: &str, arguments: &[&str]) -> Said {
    Said::Script { script: script.into(), torchrun: None, arguments: strings(arguments) }
}

fn torchrun(count: u16, path: &str, words: &[&str]) -> Said {
    match script(path, words) {
        Said::Script { script, arguments, .. } => Said::Script { script, torchrun: Some(count), arguments },
        other => other,
    }
}

/// Arguments and GPUs of a line that begins `0,t.py,env,`, and what is doubtful of it.
fn rest(rest: &str) -> (Vec<String>, String, Option<String>) {
    let read = one_format(format!("0,t.py,env,{rest}\n"), Format::Csv);
    assert_eq!((read.entries.len(), &read.refused), (1, &vec![]), "{rest}");
    let Said::Script { arguments, .. } = read.entries[0].command.clone() else { panic!("no script: {rest}") };
    let doubt = read.doubtful.first().map(|doubt| doubt.error.clone());
    (arguments, read.entries[0].options["on"].clone(), doubt)
}

#[test]
fn the_lines_of_the_document() {
    let text = "priority,script_path,conda_env,arguments,allowed_gpus\n# Comments start with #\n\
        0,/path/to/train.py,pytorch_env,--llm qwen2.5-7b-inst --epochs 100,0-3\n\
        1,/path/to/eval.py,pytorch_env,--llm qwen2.5-3b-inst --dataset test,\n\
        2,/path/to/inference.py,,--llm qwen2.5-32b-inst --batch_size 1,4,5,6,7\n\
        0,/path/to/script.py,myenv,--llm qwen2.5-7b-inst --epochs 100,0-3\n";
    let read = one_format(text, Format::Csv);
    assert_eq!((read.refused.len(), lines_of(&read.doubtful), read.unfinished), (0, vec![5], false));
    assert_eq!(
        read.doubtful[0].error,
        "read as arguments \"--llm qwen2.5-32b-inst --batch_size 1\" and GPUs 4-7; quote the arguments if that is wrong"
    );
    let lines: Vec<&[u8]> = text.lines().skip(2).map(str::as_bytes).collect();
    assert_eq!(written(text.as_bytes(), &read), lines);
    let told: Vec<(u64, Said, BTreeMap<String, String>)> =
        read.entries.into_iter().map(|entry| (entry.line, entry.command, entry.options)).collect();
    let with = |priority: &str, conda: &str, on: &str| options(&[("priority", priority), ("conda", conda), ("on", on)]);
    assert_eq!(
        told,
        [
            (
                3,
                script("/path/to/train.py", &["--llm", "qwen2.5-7b-inst", "--epochs", "100"]),
                with("0", "pytorch_env", "0-3")
            ),
            (
                4,
                script("/path/to/eval.py", &["--llm", "qwen2.5-3b-inst", "--dataset", "test"]),
                with("1", "pytorch_env", "")
            ),
            (
                5,
                script("/path/to/inference.py", &["--llm", "qwen2.5-32b-inst", "--batch_size", "1"]),
                options(&[("priority", "2"), ("on", "4-7")])
            ),
            (
                6,
                script("/path/to/script.py", &["--llm", "qwen2.5-7b-inst", "--epochs", "100"]),
                with("0", "myenv", "0-3")
            ),
        ]
    );
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

/// What the rest of a line means: arguments, GPUs, and whether the border could lie elsewhere.
#[test]
fn commas_in_arguments_survive() {
    for (line, arguments, gpus, doubtful) in [
        ("--a 1", &["--a", "1"][..], "", false),
        ("--a 1,", &["--a", "1"], "", false),
        ("--a 1,0-3", &["--a", "1"], "0-3", false),
        ("--a b , 2 ", &["--a", "b"], "2", false),
        ("--a b, 4, 5", &["--a", "b"], "4-5", true),
        ("", &[], "", false),
        (",", &[], "", false),
        (",0-3", &[], "0-3", false),
        (",4,5,6,7", &[], "4-7", false),
        ("--sizes a,b,0-3", &["--sizes", "a,b"], "0-3", false),
        ("--sizes a,b,", &["--sizes", "a,b"], "", false),
        ("--sizes a,b", &["--sizes", "a,b"], "", true),
        ("--sizes a,b --x y,1", &["--sizes", "a,b", "--x", "y"], "1", false),
        ("--sizes 1,2,3 --x y,1", &["--sizes", "1,2,3", "--x", "y"], "1", false),
        ("--x 1,4,5,6,7", &["--x", "1"], "4-7", true),
        ("--x 1,4,5,6,7,", &["--x", "1,4,5,6,7"], "", true),
        ("--size 224,224,0", &["--size", "224,224"], "0", true),
        ("--lr 0.1,0.2,0", &["--lr", "0.1,0.2"], "0", false),
        ("--a b,,4", &["--a", "b,"], "4", true),
        ("--a b,,", &["--a", "b,"], "", true),
        ("4,5", &["4"], "5", true),
        ("0-3", &["0-3"], "", true),
        ("--prompt \"hello, world\",0-3", &["--prompt", "hello, world"], "0-3", false),
        ("--prompt 'a, 1,2'", &["--prompt", "a, 1,2"], "", true),
        ("--d {\"a\":1},2", &["--d", "{a:1}"], "2", false),
        ("--x -1,0", &["--x", "-1"], "0", false),
        (r"--path C:\\x,0", &["--path", r"C:\x"], "0", false),
        ("$HOME `x` $(y) *,0", &["$HOME", "`x`", "$(y)", "*"], "0", false),
        ("--a 2 --b 1,0", &["--a", "2", "--b", "1"], "0", false),
        ("--b 1 --a 2,0", &["--b", "1", "--a", "2"], "0", false),
        ("3 --x,0,0,1-2,1", &["3", "--x"], "0-2", true),
    ] {
        let (found, on, doubt) = rest(line);
        assert_eq!((&found[..], on.as_str(), doubt.is_some()), (&strings(arguments)[..], gpus, doubtful), "{line}");
    }
}

#[test]
fn a_doubt_says_how_it_was_read() {
    for (line, doubt) in [
        ("--x a,b", "read as arguments \"--x a,b\" and any GPU; quote the arguments if that is wrong"),
        ("--x 1,4", ""),
        ("--x 1,4,5", "read as arguments \"--x 1\" and GPUs 4-5; quote the arguments if that is wrong"),
        ("--size 224,224,0", "read as arguments \"--size 224,224\" and GPU 0; quote the arguments if that is wrong"),
        ("python3,--x 1,0", "python3 is read as an argument; python, torchrun and torchrun-8gpu start a script"),
        ("python,0-3", "python is read as the argument of the script; write python,,0-3 if it is what starts it"),
        ("python", "python is read as the argument of the script; write python,, if it is what starts it"),
    ] {
        assert_eq!(rest(line).2.unwrap_or_default(), doubt, "{line}");
    }
    let long = format!("--x {},4,5", "é".repeat(1000));
    assert!(rest(&long).2.unwrap().chars().count() < 200);
}

#[test]
fn quotes_leave_no_doubt() {
    for (line, command, gpus) in [
        (r#"2,/i.py,,"--batch_size 1,4,5,6,7",0"#, script("/i.py", &["--batch_size", "1,4,5,6,7"]), "0"),
        (r#"2,/i.py,,"--batch_size 1","4,5,6,7""#, script("/i.py", &["--batch_size", "1"]), "4-7"),
        (r#"2,/i.py,,"--batch_size 1",4,5,6,7"#, script("/i.py", &["--batch_size", "1"]), "4-7"),
        (r#"2,/i.py,,"--a",4,5"#, script("/i.py", &["--a"]), "4-5"),
        (r#"2,/i.py,,"--a b""#, script("/i.py", &["--a", "b"]), ""),
        (r#"2,/i.py,,"--a b","#, script("/i.py", &["--a", "b"]), ""),
        (r#""2","/my, i.py","","--a ""b c""","""#.trim_end_matches('"'), script("/my, i.py", &["--a", "b c"]), ""),
        (r#" "2" , "/i.py" , "" , "--a" , "1" "#, script("/i.py", &["--a"]), "1"),
        (r#"2,"/i.py",,--a 1,0-3"#, script("/i.py", &["--a", "1"]), "0-3"),
        (r#"2,/i.py,,"python",0"#, script("/i.py", &["python"]), "0"),
        (r#"2,/i.py,,python,"--a 1,2",0"#, script("/i.py", &["--a", "1,2"]), "0"),
        (r#"2,/i.py,,torchrun-2gpu,"--a 1,2",0,1"#, torchrun(2, "/i.py", &["--a", "1,2"]), "0-1"),
        (r#"2,/i.py,,torchrun-2gpu,"--a 1,2""#, torchrun(2, "/i.py", &["--a", "1,2"]), ""),
    ] {
        let read = one_format(line, Format::Csv);
        assert_eq!((&read.refused, &read.doubtful), (&vec![], &vec![]), "{line}");
        assert_eq!((&read.entries[0].command, read.entries[0].options["on"].as_str()), (&command, gpus), "{line}");
        assert_eq!(read.entries[0].options["priority"], "2");
    }
}

#[test]
fn a_launcher_may_stand_before_the_arguments() {
    for (line, command, gpus, on) in [
        ("python,--lr 1,0-3", script("t.py", &["--lr", "1"]), None, "0-3"),
        ("python,--lr 1", script("t.py", &["--lr", "1"]), None, ""),
        ("torchrun,--lr 1,", torchrun(1, "t.py", &["--lr", "1"]), Some("1"), ""),
        ("torchrun-8gpu,--lr 1,2,0-7", torchrun(8, "t.py", &["--lr", "1"]), Some("8"), "0-7"),
        ("torchrun-8gpu,,0-7", torchrun(8, "t.py", &[]), Some("8"), "0-7"),
        ("torchrun-2gpu,--lr 1", torchrun(2, "t.py", &["--lr", "1"]), Some("2"), ""),
        // Five fields, or a word that is no launcher: arguments.
        ("python,0-3", script("t.py", &["python"]), None, "0-3"),
        ("torchrun-8gpus,--lr 1,0", script("t.py", &["torchrun-8gpus,--lr", "1"]), None, "0"),
        ("torchrun-gpu,x,0", script("t.py", &["torchrun-gpu,x"]), None, "0"),
        ("deepspeed,--lr 1,0", script("t.py", &["deepspeed,--lr", "1"]), None, "0"),
    ] {
        let entry = one(&format!("0,t.py,env,{line}\n"), Format::Csv);
        let gpus_said = entry.options.get("gpus").map(String::as_str);
        assert_eq!((&entry.command, gpus_said, entry.options["on"].as_str()), (&command, gpus, on), "{line}");
    }
    // Line by line in one file.
    let read = one_format("0,a.py,,--x 1,0\n1,b.py,,torchrun-2gpu,--x 1,0-1\n", Format::Csv);
    assert_eq!(read.entries[0].command, script("a.py", &["--x", "1"]));
    assert_eq!(read.entries[1].command, torchrun(2, "b.py", &["--x", "1"]));
}

#[test]
fn headers_are_passed_over() {
    for header in [
        "priority,script_path,conda_env,arguments,allowed_gpus",
        "priority,script,conda_env,type,arguments,allowed_gpus",
        "\"Priority\",\"script_path\",\"conda_env\",\"arguments\",\"allowed_gpus\"",
    ] {
        let read = read(format!("{header}\n-3,/a.py,,,\n").as_bytes(), None).unwrap();
        assert_eq!((read.format, read.entries.len(), read.refused.len()), (Format::Csv, 1, 0), "{header}");
        assert_eq!(read.entries[0].options, options(&[("priority", "-3"), ("on", "")]));
    }
}

#[test]
fn what_cannot_be_taken_is_told_by_its_line() {
    refuses(
        Format::Csv,
        "0,/a.py,,,",
        &[
            ("0,/a.py,,--x 1,3-1", "\"3-1\" is no list of GPUs, as in 0-3,5; from 1 to 3 is 1-3"),
            ("0,/a.py,,--x 1,128", "\"128\" is no list of GPUs, as in 0-3,5; GPUs have numbers from 0 to 127"),
            ("0,/a.py,,--x a,5,300", "\"300\" is no list of GPUs"),
            ("0,/a.py,,--x a,0-1-2", "\"0-1-2\" is no list of GPUs"),
            ("0,/a.py,,\"--x\",3-1", "from 1 to 3 is 1-3"),
            ("0,/a.py,,\"--x\",gpu0", "\"gpu0\" is no list of GPUs"),
            ("high,/a.py,,--x,0", "its priority, \"high\", is no whole number, as in -1, 0 or 2"),
            ("0.5,/a.py,,--x,0", "its priority, \"0.5\""),
            ("99999999999,/a.py,,--x,0", "its priority"),
            (",/a.py,,--x,0", "its priority, \"\""),
            ("0,,,--x,0", "it names no script"),
            ("0,/a.py", "it has 2 of the fields priority,script"),
            ("0,\"/a.py\"", "it has 2 of the fields"),
            ("python train.py", "it has 1 of the fields"),
            ("0,/a.py,,\"--x 1,0", "a quote is not closed"),
            ("0,\"/a.py,,--x 1,0", "a quote is not closed"),
            ("0,/a.py,,--x 'a,0", "its arguments: a ' is not closed"),
            ("0,/a.py,,\"--x 'a\",0", "its arguments: a ' is not closed"),
            ("0,/a.py,,\"a b\" --x,0", "text follows a quote that closes"),
            ("0,/a.py,,--l \"a\",\"b\",0", "a quote stands inside a field without quotes"),
            ("0,\"/a.py\",,--x 1,4,5", "it has too many fields"),
            ("0,/a.py,,\"--x\",\"4\",\"5\"", "it has too many fields"),
            ("0,/a.py,-x,--x,0", "conda_env: an environment is a name"),
            ("0,/a.py,,torchrun-0gpu,--x,0", "torchrun-0gpu: from 1 to 128 GPUs"),
            ("0,/a.py,,torchrun-999gpu,--x,0", "from 1 to 128 GPUs"),
            (&format!("0,/a.py,,{},0", "x".repeat(140_000)), "140000 bytes in one argument"),
        ],
    );
}

/// Fault 13: two orders of the same arguments are two jobs.
#[test]
fn arguments_keep_their_order() {
    let read = one_format("0,/a.py,,--a 2 --b 1,\n0,/a.py,,--a 1 --b 2,\n0,/a.py,,--b 2 --a 1,\n", Format::Csv);
    let commands: Vec<&Said> = read.entries.iter().map(|entry| &entry.command).collect();
    assert_eq!(commands[0], &script("/a.py", &["--a", "2", "--b", "1"]));
    assert!(commands[0] != commands[1] && commands[1] != commands[2]);
}
