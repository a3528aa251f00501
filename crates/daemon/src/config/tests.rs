//! Files as people write them, and what becomes of them.

use std::path::Path;

use nexus_api::amount::Vram;
use nexus_api::paths::{Home, Surroundings};
use nexus_api::run_dir::UNLIMITED;

use super::key::Force;
use super::*;

fn user_home() -> Option<&'static Path> {
    Some(Path::new("/home/ann"))
}

fn parsed(text: &str) -> Config {
    read(text, user_home()).unwrap_or_else(|fault| panic!("{text}: {fault:?}")).config
}

fn home() -> Home {
    let around = Surroundings { home: Some("/home/ann".into()), ..Surroundings::default() };
    Home::find(&around, |_| false).unwrap()
}

/// The template with every key in force.
fn uncommented() -> String {
    let is_key = |line: &&str| {
        let name = line.trim_start_matches("# ").split(" = ").next().unwrap_or_default();
        keys::all().any(|key| key.name == name)
    };
    let template = template();
    let lines = template.lines().filter(|line| line.starts_with('[') || is_key(line));
    lines.map(|line| format!("{}\n", line.trim_start_matches("# "))).collect()
}

#[test]
fn the_template_says_every_key_and_its_default() {
    assert_eq!(read(&template(), None).unwrap(), Settings::default());
    let all = uncommented();
    assert_eq!(all.lines().filter(|line| !line.starts_with('[')).count(), keys::all().count());
    let config = Config {
        log_dir: Some("/home/ann/.nexus/logs".into()),
        jobs_file: Some("/home/ann/.nexus/jobs.txt".into()),
        ..Config::default()
    };
    assert_eq!(parsed(&all), config);
}

#[test]
fn what_is_shown_can_be_read_again() {
    let text = "[jobs]\nrunner = 'nice -n 10'\nnofile = 4096\nmemlock = \"8GB\"\ngrace = \"1h30m\"\n\
                [gpus]\nuse = \"0-2,5\"\nignore = [\"Xorg\"]\nprefer = [3, 1]\nmem_threshold = \"75%\"\n\
                [log]\nmax_size = \"1500KB\"\n";
    let config = parsed(text);
    for key in keys::all() {
        let shown = format!("[{}]\n{} = {}\n", key.section, key.name, key.show(&config));
        assert_eq!(key.show(&parsed(&shown)), key.show(&config), "{shown}");
    }
    assert_eq!(keys::find("gpus", "use").unwrap().show(&config).as_str(), Some("0-2,5"));
}

#[test]
fn values_are_taken_in_all_their_forms() {
    type Check = fn(&Config) -> bool;
    let table: &[(&str, Check)] = &[
        ("[jobs]\nsession = \"screen\"", |c| c.session == Session::Screen),
        ("[jobs]\nprelude = \"\"\"\na\nb\"\"\"", |c| c.prelude.as_deref() == Some("a\nb")),
        ("[jobs]\nrunner = \"nice -n 10\"", |c| c.runner == ["nice", "-n", "10"]),
        ("[jobs]\nrunner = [\"a b\", \"\\\"\"]", |c| c.runner == ["a b", "\""]),
        ("[jobs]\nenv_file = \"~/env\"", |c| c.env_file == Some("/home/ann/env".into())),
        ("[jobs]\nenv_file = \"/env\"", |c| c.env_file == Some("/env".into())),
        ("[jobs]\nnofile = \"unlimited\"", |c| c.limits.nofile == Some(UNLIMITED)),
        ("[jobs]\nmemlock = \"1GB\"", |c| c.limits.memlock == Some(1 << 30)),
        ("[jobs]\npass_env = [\"A\"]", |c| c.pass_env == ["A"]),
        ("jobs.grace = \"3s\"", |c| c.grace.as_secs() == 3),
        ("jobs = { grace = \"3s\" }", |c| c.grace.as_secs() == 3),
        ("[gpus]\nuse = [0, 2]", |c| c.gpus.using == GpuUse::Only([0, 2].into_iter().collect())),
        ("[gpus]\nload_threshold = \"50%\"\nmem_threshold = 1", |c| {
            (c.gpus.load_threshold, c.gpus.mem_threshold) == (0.5, 1.0)
        }),
        ("[gpus]\nprefer = \"3,0-1\"", |c| c.gpus.prefer == [3, 0, 1]),
        ("[gpus]\nvisible = \"uuid\"\nshares = \"pack\"", |c| {
            c.gpus.visible == Visible::Uuid && c.gpus.shares == nexus_core::machine::Shares::Pack
        }),
        ("[[rule]]\nmatch = \"--llm q*\"\ngpus = 0.5\n[[rule]]\nmatch = \"x\"\nvram = \"auto\"", |c| {
            c.rules.len() == 2 && c.rules[0].gpus == Some(0.5) && c.rules[1].vram == Some(Vram::Auto)
        }),
        ("[web]\nsession = \"30d\"", |c| c.web_session.as_secs() == 30 * 24 * 3600),
        ("[notify]\nwebhooks = [\"https://ntfy.sh/night\"]\ndigest = \"10m\"", |c| {
            !c.notify.is_off() && c.notify.digest.is_some_and(|digest| digest.as_secs() == 600)
        }),
        ("[notify]\ncommand = \"notify-send x\"\non = []\ntemplate = '[\"{job.id}\"]'", |c| {
            !c.notify.is_off() && c.notify.on.is_empty() && c.notify.template.is_some()
        }),
        ("[notify]\n[retention]\n[machine]", |c| *c == Config::default() && c.notify.is_off()),
    ];
    for (text, holds) in table {
        assert!(holds(&parsed(text)), "{text}: {:?}", parsed(text));
    }
}

#[test]
fn addresses_of_webhooks_are_compared_whole_and_shown_short() {
    let with = |path: &str| parsed(&format!("[notify]\nwebhooks = [\"slack:https://hooks.slack.com/{path}\"]"));
    let told: Vec<String> = changes(&with("s3cret"), &with("s3cret2"), &home()).iter().map(Change::to_string).collect();
    assert_eq!(told, ["notify.webhooks slack:https://hooks.slack.com/… -> slack:https://hooks.slack.com/…"]);
    let on_disk = Settings { config: with("s3cret"), ..Settings::default() };
    let shown = view(&home(), &on_disk.config, &on_disk, &Overrides::default(), None);
    assert!(!format!("{shown:?} {on_disk:?}").contains("s3cret"));
    let refused = set("", "notify.webhooks", "hooks.slack.com/s3cret", None).unwrap_err();
    assert!(!format!("{refused:?} {refused}").contains("s3cret"), "{refused:?}");
}

#[test]
fn a_machine_has_its_own_over_what_all_have() {
    let text =
        "[machine.local.gpus]\nuse = \"1\"\n[machine.box.gpus]\npoll = \"9s\"\n[gpus]\npoll = \"7s\"\nuse = \"0\"\n";
    let config = parsed(text);
    let one = |index: u16| GpuUse::Only([index].into_iter().collect());
    assert_eq!((config.gpus.using, config.gpus.poll.as_secs()), (one(1), 7));
    assert_eq!((config.gpus_of("box").using, config.gpus_of("box").poll.as_secs()), (one(0), 9));
    assert_eq!(config.gpus_of("other"), &config.usual_gpus);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_is_right() {
    let table = [
        ("[jobs]\n\ngrce = \"3s\"", 3, "there is no key grce; did you mean grace?"),
        ("[jbos]\ngrace = \"3s\"", 1, "there is no section [jbos]; did you mean [jobs]?"),
        ("[jobs]\npoll = \"3s\"", 2, "poll belongs to [gpus]"),
        ("grace = \"3s\"", 1, "grace belongs to [jobs]"),
        ("[jobs]\nmax_siz = 3", 2, "there is no key max_siz; did you mean max_size of [log]?"),
        ("[jobs]\nbeautiful = 3", 2, "there is no key beautiful"),
        ("[jobs]\ngrace = 3", 2, "grace cannot be 3; it is a duration in quotes, with its unit"),
        ("[jobs]\ngrace = \"soon\"", 2, "grace cannot be \"soon\"; it is a duration"),
        ("[jobs]\ntty = \"yes\"", 2, "tty cannot be \"yes\"; it is true or false"),
        ("[jobs]\nsession = \"tmux\"", 2, "session cannot be \"tmux\"; it is one of \"builtin\", \"screen\""),
        ("[jobs]\nshell = \"\"", 2, "shell cannot be \"\"; it is a text in quotes, not empty"),
        (
            "[jobs]\nenv_file = \"env\"",
            2,
            "env_file cannot be \"env\"; it is a path in quotes that begins with / or ~/",
        ),
        ("[jobs]\nrunner = \"nice 'x\"", 2, "runner cannot be"),
        ("[jobs]\nstart_attempts = 0", 2, "start_attempts cannot be 0; it is a whole number from 1 to 1000"),
        ("[jobs]\nnofile = 0", 2, "nofile cannot be 0; it is a whole number over 0"),
        ("[jobs]\nnofile = 99999999999999999999", 2, "nofile cannot be"),
        ("[jobs]\nmemlock = 5", 2, "memlock cannot be 5; it is a size in quotes"),
        ("[jobs]\npass_env = [\"A=B\"]", 2, "pass_env cannot be [\"A=B\"]; it is a list of names"),
        ("[jobs.grace]\nx = 1", 1, "grace is a key of [jobs], not a section"),
        ("jobs = 3", 1, "jobs is a section: write [jobs] and its keys below"),
        ("[gpus]\nmem_threshold = 80", 2, "mem_threshold cannot be 80; it is a part from 0 to 1"),
        ("[gpus]\nload_threshold = \"120%\"", 2, "load_threshold cannot be \"120%\""),
        ("[gpus]\nuse = \"3-1\"", 2, "use cannot be \"3-1\"; it is \"all\", or GPU numbers"),
        ("[gpus]\nuse = []", 2, "use cannot be []"),
        ("[gpus]\npoll = \"0s\"", 2, "poll cannot be \"0s\"; it is a duration in quotes from \"1s\" to \"1h\""),
        ("[gpus]\nignore = \"Xorg\"", 2, "ignore cannot be \"Xorg\"; it is a list of texts"),
        ("[machine.box]\nuse = \"0\"", 2, "a machine's settings stand under [machine.NAME.gpus]"),
        ("[machine.box.gpus]\nsue = \"0\"", 2, "there is no key sue; did you mean use?"),
        ("[machine.box.gpus]\nuse = 3", 2, "use cannot be 3"),
        ("[web]\nport = 0", 2, "port cannot be 0; it is a whole number from 1 to 65535"),
        ("[web]\nsession = \"31d\"", 2, "session cannot be \"31d\"; it is a duration in quotes from \"1m\" to \"30d\""),
        ("[web]\nsession = \"30s\"", 2, "session cannot be \"30s\""),
        ("[log]\nmax_size = \"big\"", 2, "max_size cannot be \"big\"; it is a size in quotes"),
        ("[notify]\nmail = \"x\"", 2, "there is no key mail"),
        ("[notify]\nwebhooks = \"https://x.org/s3cret\"", 2, "webhooks must be a list of addresses"),
        ("[notify]\nwebhooks = [\"teams:https://x.org/s3cret\"]", 2, "webhooks must be a list of addresses"),
        (
            "[notify]\non = [\"always\"]",
            2,
            "on cannot be [\"always\"]; it is a list of \"start\", \"end\", \"failure\"",
        ),
        ("[notify]\ndigest = \"0s\"", 2, "digest cannot be \"0s\"; it is a duration in quotes"),
        ("[notify]\ntemplate = \"{\"", 2, "template cannot be \"{\"; it is JSON ("),
        ("[retention]\nkeep = 3", 2, "keep belongs to [log]"),
        ("[retention]\njobs = \"5m\"", 2, "jobs cannot be \"5m\"; it is \"forever\", or a duration of an hour"),
        ("[rule]\nmatch = \"x\"", 1, "rules are written [[rule]]"),
        ("\n[[rule]]\ngpus = 1", 2, "a rule needs match"),
        ("[[rule]]\nmatch = \"x\"", 1, "a rule needs gpus = 0.5 or vram"),
        ("[[rule]]\nmatch = \"x\"\ngpu = 1", 3, "a rule has no key gpu; did you mean gpus?"),
        ("[[rule]]\nmatch = \"x\"\ngpus = -1", 1, "gpus cannot be -1; it is a number: 0.5, 1, 2, or 0 for the CPU"),
        ("[[rule]]\nmatch = \"x\"\ngpus = 129", 1, "gpus cannot be 129"),
        ("[[rule]]\nmatch = \"x\"\ngpus = 0\nvram = \"8G\"", 1, "gpus cannot be 0; it is more than 0 where vram"),
        ("[[rule]]\nmatch = \"x\"\nvram = \"0MB\"", 1, "vram cannot be \"0MB\"; it is memory that a GPU has"),
        ("[[rule]]\nmatch = \"a 'b\"\ngpus = 1", 1, "match cannot be \"a 'b\"; it is words of a command"),
        ("[log]\nkeep = -1\n[jobs]\ngrce = 1", 2, "keep cannot be -1"),
        ("[jobs", 1, ""),
        ("[jobs]\ngrace = \"3s\"\ngrace = \"4s\"", 3, "duplicate key"),
    ];
    for (text, line, error) in table {
        let fault = read(text, user_home()).expect_err(text);
        assert_eq!(fault.line, Some(line), "{text}: {fault:?}");
        assert!(fault.error.starts_with(error), "{text}: {fault:?}");
    }
}

#[test]
fn a_key_that_waits_for_a_restart_is_kept_until_then_and_no_other() {
    for key in keys::all() {
        let other = match key.name {
            "log_dir" | "jobs_file" => "\"/other\"",
            "state_file" | "env_file" | "file" => "\"/other\"",
            "session" if key.section == "web" => "\"7h\"",
            "session" => "\"screen\"",
            "shares" => "\"pack\"",
            "visible" => "\"uuid\"",
            "level" => "\"debug\"",
            "use" => "\"1\"",
            "tty" => "false",
            "ignore" | "pass_env" | "args" => "[\"x\"]",
            "prefer" => "[1]",
            "mem_threshold" | "load_threshold" => "0.1",
            "start_attempts" | "pause_after_failures" | "nofile" | "port" | "keep" | "backups" => "77",
            "memlock" | "max_size" | "ignore_below" => "\"7MB\"",
            "shell" | "prelude" | "runner" => "\"x\"",
            "csv_gpu_arg" => "\"--x\"",
            "jobs" => "\"7d\"",
            "webhooks" => "[\"https://x.org/x\"]",
            "on" => "[]",
            "template" => "'[\"{text}\"]'",
            _ => "\"7s\"",
        };
        let old = Config::default();
        let changed = parsed(&format!("[{}]\n{} = {other}\n", key.section, key.name));
        assert_ne!(key.show(&changed), key.show(&old), "{}", key.full_name());
        let mut new = changed.clone();
        new.keep_until_restart(&old);
        assert_eq!(key.show(&new) == key.show(&old), key.force == Force::AtRestart, "{}", key.full_name());
        let told: Vec<String> = changes(&old, &changed, &home()).iter().map(|change| change.key.clone()).collect();
        assert_eq!(told, [key.full_name()]);
    }
}

#[test]
fn setting_a_key_changes_its_line_alone() {
    let text = template();
    let new = set(&text, "jobs.grace", "3s", user_home()).unwrap();
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (text.lines().collect(), new.lines().collect());
    assert_eq!(old_lines.len(), new_lines.len());
    let different: Vec<&str> =
        old_lines.iter().zip(&new_lines).filter(|(old, new)| old != new).map(|(_, new)| *new).collect();
    assert_eq!(different, ["grace = \"3s\"                      # between TERM and KILL"]);
    let again = set(&new, "jobs.grace", "4s", user_home()).unwrap();
    assert_eq!(again, new.replace("\"3s\"", "\"4s\""));
    assert_eq!(unset(&again, "jobs.grace", user_home()).unwrap(), text);
    assert_eq!(unset(&text, "jobs.grace", user_home()).unwrap(), text);
}

#[test]
fn every_key_can_be_set_and_unset() {
    let text = template();
    for key in keys::all() {
        let name = key.full_name();
        let default: toml::Table = format!("x = {}", key.default).parse().unwrap();
        let json = serde_json::to_value(&default["x"]).unwrap();
        let typed = nexus_api::config::typed(&json);
        let new = set(&text, &name, &typed, user_home()).unwrap_or_else(|error| panic!("{name} {typed}: {error}"));
        assert!(read(&new, user_home()).unwrap().lines.contains_key(&name), "{name}");
        assert_eq!(unset(&new, &name, user_home()).unwrap(), text, "{name}");
    }
}

#[test]
fn values_are_typed_as_people_type_them() {
    let table: &[(&str, &str, &str)] = &[
        ("jobs.shell", "zsh", "shell = \"zsh\""),
        ("jobs.shell", "5", "shell = \"5\""),
        ("jobs.tty", "false", "tty = false"),
        ("jobs.prelude", "a \"b\"\nc\\", "prelude = \"a \\\"b\\\"\\nc\\\\\""),
        ("jobs.runner", "[\"nice\", \"-n\"]", "runner = [\"nice\", \"-n\"]"),
        ("jobs.runner", "nice -n 10", "runner = \"nice -n 10\""),
        ("jobs.nofile", "unlimited", "nofile = \"unlimited\""),
        ("gpus.use", "0", "use = \"0\""),
        ("gpus.ignore", "Xorg, alice", "ignore = [\"Xorg\", \"alice\"]"),
        ("gpus.ignore", "", "ignore = []"),
        ("gpus.prefer", "[2, 0]", "prefer = [2, 0]"),
        ("gpus.mem_threshold", "0.5", "mem_threshold = 0.5"),
        ("import.csv_gpu_arg", "", "csv_gpu_arg = \"\""),
        ("machine.box.gpus.use", "all", "[machine.box.gpus]\nuse = \"all\"\n"),
        ("machine.a b.gpus.use", "1", "[machine.\"a b\".gpus]\nuse = \"1\"\n"),
    ];
    for (name, typed, line) in table {
        let new = set(&template(), name, typed, user_home()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(new.contains(&format!("\n{line}")), "{name} {typed}: {new}");
    }
}

#[test]
fn files_of_peoples_own_keep_their_form() {
    let table = [
        ("", "\n[jobs]\ngrace = \"3s\"\n"),
        ("[jobs]", "[jobs]\ngrace = \"3s\"\n"),
        (
            "[jobs] # mine\ntty = false # no bars\n\n\n[log]\nkeep = 1\n",
            "[jobs] # mine\ntty = false # no bars\ngrace = \"3s\"\n\n\n[log]\nkeep = 1\n",
        ),
        ("jobs.grace = '1s' # x", "jobs.grace = \"3s\" # x"),
        ("jobs = { tty = true, grace = \"1s\" }", "jobs = { tty = true, grace = \"3s\" }"),
        (
            "[jobs]\nprelude = '''\n# grace = \"9s\"\n'''\n",
            "[jobs]\nprelude = '''\n# grace = \"9s\"\n'''\ngrace = \"3s\"\n",
        ),
        ("[jobs]\r\ngrace = \"1s\"\r\n", "[jobs]\r\ngrace = \"3s\"\r\n"),
        // A wrong value can be set right by name.
        ("[jobs]\ngrace = 5\n", "[jobs]\ngrace = \"3s\"\n"),
    ];
    for (text, expected) in table {
        assert_eq!(set(text, "jobs.grace", "3s", user_home()).as_deref(), Ok(expected), "{text}");
    }
    let unclear = "jobs = { tty = true }\n";
    assert_eq!(set(unclear, "jobs.grace", "3s", user_home()), Err(NotChanged::TooClever("jobs.grace".into())));
    let unset = unset("[jobs]\ngrace = \"1s\" # mine\n", "jobs.grace", user_home());
    assert_eq!(unset.as_deref(), Ok("[jobs]\n# grace = \"10s\"                   # mine\n"));
    assert!(matches!(set("[log]\nkep = 1\n", "jobs.grace", "3s", user_home()), Err(NotChanged::BadFile(_))));
    assert!(matches!(set("[log\n", "jobs.grace", "3s", user_home()), Err(NotChanged::BadFile(_))));
}

#[test]
fn unknown_names_are_told_with_the_nearest() {
    let table = [
        ("jobs.grce", "there is no key jobs.grce; did you mean jobs.grace?"),
        ("grace", "there is no key grace; did you mean jobs.grace?"),
        ("jobs.poll", "there is no key jobs.poll; did you mean gpus.poll?"),
        ("jbos.grace", "there is no section [jbos]; did you mean [jobs]?"),
        ("rule.1", "rules are changed with nexus config edit"),
    ];
    for (name, error) in table {
        let told = known(name).expect_err(name).to_string();
        assert!(told.starts_with(error), "{name}: {told}");
    }
    let bad = set(&template(), "jobs.grace", "soon", user_home()).unwrap_err();
    assert!(matches!(&bad, NotChanged::BadValue { want, .. } if want.starts_with("a duration")), "{bad:?}");
}
