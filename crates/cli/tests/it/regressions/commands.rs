//! 5, 10, 22, 28: what is typed reaches the job as it is, or is refused; it never becomes something else.

use nexus_testkit::Nexus;
use serde_json::json;

use super::lines_of;
use crate::NEXUS;

/// Arguments that shells, templates, terminals and tables like to change.
const NASTY: &[&str] = &[
    "",
    " ",
    "two words",
    "  blanks around  ",
    "$(echo a >> substituted)",
    "`echo b >> substituted`",
    "${HOME} $HOME $$ $0 $1 \\$HOME",
    "'single' \"double\" '\"'\"'",
    r#"{"lr": 0.1, "layers": [1, {"kind": null}], "name": "a\"b\\n"}"#,
    "{print $1, NR}",
    "{lr} {} {{}} {1..3} {a,b}",
    "日本語 ünïcödé 👩‍🔬 e\u{301} \u{202e}rtl",
    "first\nsecond\n\nfourth\n",
    "\ttab\rreturn\u{7}bell\u{1b}[31mred",
    "back\\slash \\n \\\\ %s %d %%",
    "* ? [a-z] ~ ! # ; & | < > ( )",
    "--name",
    "-x",
    "--",
    "=",
];

/// The arguments that a job's `receive.sh` got.
fn received(nexus: &Nexus, file: &str) -> Vec<String> {
    let path = nexus.work().join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = String::from_utf8(bytes).expect("what was sent is UTF-8");
    let mut words: Vec<String> = text.split('\0').map(String::from).collect();
    assert_eq!(words.pop().as_deref(), Some(""), "each ends with a zero byte");
    words
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[test]
fn r05_commands_survive_byte_for_byte() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    nexus.file("receive.sh", "to=$1; shift; printf '%s\\0' \"$@\" > \"$to\"\n");
    let argv = |to: &'static str| [&["bash", "receive.sh", to], NASTY].concat();

    let exact = nexus.ok(&[&["add"], &argv("exact")[..]].concat());
    let escaped = nexus.ok(&[&["add", "--name", "n", "--"], &argv("escaped")[..]].concat());
    let text = argv("shell").into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    let shell = nexus.add(&text);
    for (id, file) in [(&exact, "exact"), (&escaped, "escaped"), (&shell, "shell")] {
        assert_eq!(nexus.ended(id)["state"], "completed", "{file}: {}", nexus.ok(&["logs", id]));
        assert_eq!(received(&nexus, file), NASTY, "{file}");
    }
    assert_eq!(nexus.job(&exact)["argv"], json!(argv("exact")));
    assert_eq!(nexus.job(&shell)["command"], text);

    // A job made from the record of another gets the same, after a crash too.
    nexus.kill_service();
    for (id, file) in [(exact, "exact"), (shell, "shell")] {
        std::fs::remove_file(nexus.work().join(file)).unwrap();
        let again = nexus.ok(&["rerun", &id]);
        assert_eq!(nexus.ended(&again)["state"], "completed");
        assert_eq!(received(&nexus, file), NASTY, "{file} again");
    }
    assert_eq!(lines_of(&nexus, "substituted"), [""; 0], "somebody evaluated an argument");
}

#[test]
fn r05_a_shell_command_is_evaluated_once_and_by_the_jobs_shell() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let command = concat!(
        "  echo \"$(echo x >> count; wc -l < count | tr -d ' ')\"   # 100% {of} it\n",
        "printf '%s\\n' \"${HOME}\" '${HOME}' \"a  b\"\n",
        "echo 'one two' | awk '{print $2}'\n",
        "cat <<'END'\n{\"json\": \"${x} $(y) `z`\"}\n\tEND\nEND\n",
        "tr '\\0' '\\n' < /proc/$$/cmdline > words; cp /proc/$$/cmdline bytes; :\n\n",
    );
    let id = nexus.add(command);
    assert_eq!(nexus.ended(&id)["state"], "completed", "{}", nexus.ok(&["logs", &id]));
    let home = nexus.work().parent().unwrap().display().to_string();
    let expected = format!("1\n{home}\n${{HOME}}\na  b\ntwo\n{{\"json\": \"${{x}} $(y) `z`\"}}\n\tEND\n");
    assert_eq!(nexus.stdout_of(&id), expected);
    let bytes = std::fs::read(nexus.work().join("bytes")).unwrap();
    let argument = [b"\0-c\0", command.as_bytes(), b"\0"].concat();
    assert!(bytes.ends_with(&argument), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(lines_of(&nexus, "count"), ["x"]);
}

#[test]
fn r10_a_number_is_a_gpu_and_never_an_id() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let ids = nexus.ok(&["add", "--hold", "-x", "2000", "true"]);
    let mut ids: Vec<&str> = ids.lines().collect();
    let is_id = |id: &str| id.len() >= 3 && id.bytes().all(|byte| byte.is_ascii_lowercase() && byte != b'l');
    let odd: Vec<_> = ids.iter().filter(|id| !is_id(id)).collect();
    assert!(odd.is_empty(), "{odd:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2000);

    let [first, second] = [nexus.add_with(&["--on", "0"], "sleep 300"), nexus.add_with(&["--on", "1"], "sleep 300")];
    nexus.in_state(&first, "running");
    nexus.in_state(&second, "running");
    assert_eq!((&nexus.job("0")["id"], &nexus.job("1")["id"]), (&json!(first), &json!(second)));
    let told = nexus.fails(1, &["kill", "2"]);
    assert!(told.contains('2'), "{told}");
    nexus.fails(1, &["kill", "57"]);
    nexus.ok(&["kill", "1"]);
    assert_eq!(nexus.job(&second)["state"], "killed");
    assert_eq!(nexus.job(&first)["state"], "running");
}

#[test]
fn r22_long_multibyte_text_is_shown_in_every_view() {
    for letters in ["é", "日", "👩‍🔬e\u{301}"] {
        let long = letters.repeat(300);
        let nexus = Nexus::with_gpus(NEXUS, 1);
        let name: String = long.chars().take(200).collect();
        let command = format!("echo {long}; echo {long} >&2; exit 3");
        let failed = nexus.add_with(&["--name", &name, "--tag", &name, "--project", &name], &command);
        nexus.ended(&failed);
        let runs = nexus.add(&format!("sleep 300; : {long}"));
        nexus.in_state(&runs, "running");
        let waits = nexus.add(&format!(": waits {long}"));
        let no_program = format!("./{long}");
        let missing = nexus.add_with(&["--gpus", "0", "--"], &no_program);
        nexus.ended(&missing);

        // The status comes first: it shows the failures since the last look.
        let views: &[&[&str]] = &[
            &["status"],
            &["queue"],
            &["ls"],
            &["history"],
            &["show", &failed],
            &["show", &runs],
            &["show", &waits],
            &["show", &missing],
            &["logs", &failed],
            &["logs", &failed, "-n", "1"],
            &["status", "--json"],
            &["history", "--json"],
        ];
        for view in views {
            let piped = nexus.run(view).expect_code(0);
            assert!(!piped.stdout.contains('\u{fffd}'), "{piped}");
            for size in [(20, 5), (1, 1)] {
                let shown = nexus.on_terminal(size, "", view).expect_code(0);
                assert!(!shown.stdout.contains('\u{fffd}'), "{shown}");
            }
        }
        for (view, id) in [("queue", &waits), ("status", &runs), ("history", &failed)] {
            let shown = nexus.ok(&[view]);
            assert!(shown.contains(id) && shown.contains(&long), "{view}: {shown}");
        }
        nexus.ok(&["remove", &waits]);
        let told = nexus.ok(&["kill", &runs]);
        assert!(told.contains(&runs), "{told}");
        assert!(nexus.service_log().contains(&long));
    }
}

#[test]
fn r28_a_mistyped_verb_is_never_a_job() {
    let typed: &[(&[&str], &str)] = &[
        (&["ad", "foo"], "nexus add"),
        (&["adl"], "nexus add"),
        (&["ADD", "true"], "nexus "),
        (&["python x.py"], "nexus "),
        (&["python", "x.py"], "nexus "),
        (&["./train.sh"], "nexus "),
        (&["log", "abc"], "nexus logs"),
        (&["follow", "abc"], "nexus logs"),
        (&["add"], "nexus help add"),
        (&["add", "--gpu", "2", "true"], "--gpus"),
        (&["--", "true"], "nexus "),
    ];
    let nexus = Nexus::fresh(NEXUS);
    for started in [false, true] {
        if started {
            nexus.start(1);
        }
        for (words, nearest) in typed {
            let told = nexus.fails(2, words);
            let hint = told.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
            assert!(told.starts_with("error: ") && told.contains("\nusage: "), "{words:?}: {told}");
            assert!(hint.contains(nearest), "{words:?}: {told}");
        }
        assert_eq!(nexus.home().join("nexus.db").exists(), started, "a usage error starts nothing");
    }
    assert_eq!(nexus.json(&["ls", "--json"]), json!([]));
    assert_eq!(nexus.json(&["history", "--json"]), json!([]));
}

#[test]
fn r13_the_order_of_arguments_tells_jobs_apart() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let words = ["add", "--unique", "--hold", "train", "--a", "1", "--b", "2"];
    nexus.ok(&words);
    nexus.ok(&["add", "--unique", "--hold", "train", "--a", "2", "--b", "1"]);
    nexus.ok(&["add", "--unique", "--hold", "train", "--b", "2", "--a", "1"]);
    nexus.ok(&["add", "--unique", "--hold", "train --b 1 --a 2"]);
    nexus.fails(1, &words);
    assert_eq!(nexus.json(&["ls", "--json"]).as_array().unwrap().len(), 4);
}
