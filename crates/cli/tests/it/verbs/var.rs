//! `nexus var`: where values come from, and where they do not.

use nexus_testkit::Nexus;

use super::SCREEN;
use crate::NEXUS;

#[test]
fn a_value_comes_from_a_pipe_without_its_last_newline() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (input, value) in
        [("abc\n", "abc"), ("abc", "abc"), ("a b\n\n", "a b\n"), ("it's \"$x\" `y` \\ é", "it's \"$x\" `y` \\ é")]
    {
        nexus.set_variable("TOKEN", input);
        let id = nexus.ok(&["add", "printf", "%s", "{TOKEN}"]);
        assert_eq!(nexus.ended(&id)["state"], "completed");
        assert_eq!(nexus.stdout_of(&id), value);
    }
    for (input, why) in [(&b""[..], "it is empty"), (b"\n", "it is empty"), (b"a\0b", "NUL byte"), (b"\xff", "UTF-8")] {
        let told = nexus.run_with_input(&["var", "set", "BAD"], input).expect_code(1).stderr;
        assert!(told.contains("BAD is not set") && told.contains(why), "{told}");
    }
    let long = nexus.run_with_input(&["var", "set", "BAD"], &[b'x'; 70_000]).expect_code(1).stderr;
    assert!(long.contains("longer than 64 KiB"), "{long}");
    let names = nexus.json(&["var", "ls", "--json"]);
    assert_eq!((names.as_array().unwrap().len(), &names[0]["name"]), (1, &"TOKEN".into()));
}

#[test]
fn a_value_is_never_an_argument() {
    let nexus = Nexus::fresh(NEXUS);
    for words in [&["TOKEN=s3cret"][..], &["TOKEN", "s3cret"], &["TOKEN", "--value", "s3cret"], &["--value=s3cret"]] {
        let told = nexus.fails(2, &[&["var", "set"], words].concat());
        assert!(told.contains("not taken from the command line") && !told.contains("s3cret"), "{told}");
    }
    for (name, why) in
        [("1A", "does not begin with a digit"), ("A-B", "letters"), ("MACHINE", "nexus puts this one in")]
    {
        let told = nexus.run_with_input(&["var", "set", name], b"x").expect_code(2).stderr;
        assert!(told.contains(&format!("{name} cannot be a variable")) && told.contains(why), "{told}");
    }
    assert!(!nexus.home().join("nexus.db").exists(), "nothing was started for it");
    assert!(nexus.fails(3, &["var", "ls"]).contains("nexus start"));
    assert!(nexus.fails(2, &["var"]).contains("usage"));
}

#[test]
fn what_is_typed_is_not_shown() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut typist = nexus.at_terminal(SCREEN, &["var", "set", "TOKEN"]);
    typist.sees("Value of TOKEN");
    typist.types("wrong\x15s3crex\x7ft\r");
    let shown = typist.ends().expect_code(0).stdout;
    assert!(shown.contains("TOKEN is set") && !shown.contains("s3cre") && !shown.contains("wrong"), "{shown}");
    let id = nexus.ok(&["add", "printf", "%s", "{TOKEN}"]);
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id), "s3cret");

    let mut typist = nexus.at_terminal(SCREEN, &["var", "set", "OTHER"]);
    typist.sees("Value of OTHER");
    typist.types("abc\x03");
    assert!(typist.ends().expect_code(1).stdout.contains("OTHER is not set"));
    assert_eq!(nexus.json(&["var", "ls", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn variables_are_listed_by_name_and_taken_back() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert!(nexus.run(&["var", "ls"]).expect_code(0).stderr.contains("nexus var set"));
    nexus.set_variable("TOKEN", "abc");
    nexus.set_variable("USER_NAME", "alice");
    let held = nexus.add_with(&["--hold"], "echo {TOKEN}");
    nexus.add_with(&["--hold"], "echo {TOKEN} {UNKNOWN}");
    let listed = nexus.ok(&["var", "ls"]);
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[0][0], &lines[0][2..], lines[1][0]), ("TOKEN", &["2", "jobs", "need", "it"][..], "USER_NAME"));
    let told = nexus.fails(1, &["var", "unset", "TOKE"]);
    assert!(told.contains("there is no variable TOKE") && told.contains("nexus var unset TOKEN"), "{told}");
    let told = nexus.run(&["var", "unset", "TOKEN"]).expect_code(0).stderr;
    assert!(told.contains("when the 2 jobs that need it have ended"), "{told}");
    assert!(nexus.ok(&["var", "ls"]).contains("unset; kept for 2 jobs"));
    nexus.fails(1, &["var", "unset", "TOKEN"]);
    // Jobs that come now name nothing.
    let late = nexus.add("echo {TOKEN}");
    nexus.ok(&["remove", &held]);
    assert!(nexus.ok(&["var", "ls"]).contains("kept for 1 job"));
    nexus.ended(&late);
    assert_eq!(nexus.stdout_of(&late), "{TOKEN}\n");
    let log = nexus.service_log();
    assert!(log.contains("Variable TOKEN set by user\n") && log.contains("Variable TOKEN unset by user\n"), "{log}");
}
