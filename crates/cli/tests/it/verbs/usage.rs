//! What is typed wrongly: exit 2, the error, the usage line, the nearest verb.

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn a_mistyped_verb_is_no_job() {
    let nexus = Nexus::fresh(NEXUS);
    for (words, error, hint) in [
        (&["ad", "true"][..], "error: there is no verb ad\n", "hint: nexus add, or nexus help\n"),
        (&["statsu"], "error: there is no verb statsu\n", "hint: nexus status, or nexus help\n"),
        (&["srun", "true"], "error: there is no verb srun\n", "hint: nexus run, or nexus help\n"),
        (&["rm", "abc"], "error: there is no verb rm\n", "hint: nexus remove, or nexus help\n"),
        (&["sleep 3"], "error: there is no verb sleep 3\n", "hint: nexus add 'sleep 3' queues it\n"),
        (
            &["python", "train.py"],
            "error: there is no verb python\n",
            "hint: nexus help shows the verbs, nexus add queues a command\n",
        ),
        (&["--json", "queue"], "error: --json stands before the verb\n", "hint: nexus queue … --json\n"),
        (&["-x"], "error: there is no option -x\n", "hint: nexus help\n"),
        (
            &["--color", "mauve"],
            "error: --color cannot be mauve\nit can be auto, always, never\n",
            "hint: nexus help\n",
        ),
        (&["kill"], "error: SEL is missing\n", "hint: nexus help kill\n"),
        (&["kill", "--yess", "abc"], "error: there is no option --yess\n", "hint: --yes\n"),
        (&["show", "abc", "def"], "error: def is one word too many; nothing was done\n", "hint: nexus help show\n"),
        (&["queue", "abc"], "error: abc is one word too many; nothing was done\n", "hint: nexus help queue\n"),
        (
            &["service"],
            "error: nexus service needs a verb of its own: install or uninstall\n",
            "hint: nexus help service\n",
        ),
        (&["var"], "error: nexus var needs a verb of its own: ls, set or unset\n", "hint: nexus help var\n"),
    ] {
        let said = nexus.fails(2, words);
        assert!(said.starts_with(error), "{words:?}: {said}");
        assert!(said.ends_with(hint), "{words:?}: {said}");
        assert!(said.contains("\nusage: nexus "), "{words:?}: {said}");
    }
    assert!(!nexus.home().exists());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["add", "--hold", "-x", "2000", "echo 012345678901234567890123456789012345678901234567890123456789"]);
    let mut child = nexus.command(&["queue"]);
    let mut child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn closed_streams_are_not_taken_for_files() {
    use std::os::unix::process::CommandExt;
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut command = nexus.command(&["add", "--hold", "true"]);
    // SAFETY: nothing but calls to the kernel.
    unsafe {
        command.pre_exec(|| {
            (0..=2).try_for_each(|stream| {
                (libc::close(stream) == 0).then_some(()).ok_or_else(std::io::Error::last_os_error)
            })
        })
    };
    assert!(command.status().unwrap().success());
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 1);
}
