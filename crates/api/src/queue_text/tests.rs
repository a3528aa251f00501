//! The text: every option there and back, and what cannot be read.

use super::*;
use crate::amount::{GpuAmount, Vram};
use crate::jobs::{RetryOn, Session, SignalBefore};
use crate::results::Extract;

const HOME: &str = "/home/ann";

fn usual() -> JobSpec {
    JobSpec::new(Command::Shell("true".into()), HOME.into())
}

fn written(spec: &JobSpec) -> String {
    write(Header::File, &[], [("abc", spec)], HOME)
}

/// The one job of a text.
fn one(text: &str) -> Entry {
    let found = read(text.as_bytes());
    assert_eq!((found.entries.len(), &found.refused), (1, &vec![]), "{text}");
    found.entries[0].clone()
}

fn errors(text: &str) -> Vec<(u64, String)> {
    read(text.as_bytes()).refused.into_iter().map(|refused| (refused.line, refused.error)).collect()
}

/// Each option by itself: a spec, and what is written of it.
fn every_option() -> Vec<(JobSpec, &'static str)> {
    let with = |change: fn(&mut JobSpec)| {
        let mut spec = usual();
        change(&mut spec);
        spec
    };
    vec![
        (with(|_| {}), ""),
        (with(|spec| spec.priority = -3), " priority=-3"),
        (with(|spec| spec.request.gpus = Some(GpuAmount::NONE)), " gpus=0"),
        (with(|spec| spec.request.gpus = GpuAmount::part(125)), " gpus=0.125"),
        (with(|spec| spec.request.vram = Some(Vram::Mib(8192))), " vram=8G"),
        (with(|spec| spec.request.vram = Some(Vram::Auto)), " vram=auto"),
        (with(|spec| spec.request.ram_mib = Some(1536)), " ram=1536M"),
        (with(|spec| spec.request.gpu_model = Some("RTX 3090".into())), " gpu-model='RTX 3090'"),
        (with(|spec| spec.retry_on = vec![RetryOn::Timeout]), " retry-on=timeout"),
        (with(|spec| spec.after = vec!["abd".into(), "abe".into()]), " after=abd,abe"),
        (with(|spec| spec.after_any = vec!["abd".into()]), " after-any=abd"),
        (with(|spec| spec.unique = true), " unique"),
        (with(|spec| spec.request.cpus = Some(4)), " cpus=4"),
        (with(|spec| spec.request.on = Some(vec![0, 1, 2, 5])), " on=0-2,5"),
        (with(|spec| spec.request.time_seconds = Some(5400)), " time=1h30m"),
        (with(|spec| spec.request.signal = Some(SignalBefore { signal: 10, before_seconds: 120 })), " signal=USR1@2m"),
        (with(|spec| spec.request.grace_seconds = Some(0)), " grace=0s"),
        (with(|spec| spec.retries = 2), " retries=2"),
        (with(|spec| spec.name = Some("it's a 'run' #1=2".into())), r" name='it'\''s a '\''run'\'' #1=2'"),
        (with(|spec| spec.project = Some("é日".into())), " project=é日"),
        (with(|spec| spec.tags = vec!["a".into(), "b:1".into()]), " tags=a,b:1"),
        (with(|spec| spec.cwd = "/data/my set".into()), " cwd='/data/my set'"),
        (with(|spec| spec.out = Some("/tmp/out.log".into())), " out=/tmp/out.log"),
        (with(|spec| spec.out_dir = Some("/data/logs".into())), " out-dir=/data/logs"),
        (with(|spec| spec.results = Some("/data/my results".into())), " results='/data/my results'"),
        (with(|spec| spec.extract = extracts(&["loss=l: (.*)"])), " extract='loss=l: (.*)'"),
        (with(|spec| spec.extract = extracts(&["a=(b)", "c=\\d(e)"])), r#" extract='["a=(b)","c=\\d(e)"]'"#),
        (with(|spec| spec.tty = Some(false)), " no-tty"),
        (with(|spec| spec.session = Some(Session::Screen)), " screen"),
        (with(|spec| spec.request.force = true), " force"),
        (with(|spec| spec.request.class = Some("big".into())), " class=big"),
        (with(|spec| spec.request.machine = Some("box".into())), " machine=box"),
        (with(|spec| spec.request.driver = true), " driver"),
        (with(|spec| spec.export_env = true), " export-env"),
        (with(|spec| spec.conda = Some("torch 2".into())), " conda='torch 2'"),
        (with(|spec| spec.venv = Some(".venv".into())), " venv=.venv"),
        (with(|spec| spec.gpu_arg = Some("--cuda".into())), " gpu-arg=--cuda"),
        (with(|spec| spec.hold = true), " hold"),
        (with(|spec| spec.notify = true), " notify"),
        (with(|spec| spec.command = Command::Argv(vec!["true".into()])), " argv"),
    ]
}

fn extracts(texts: &[&str]) -> Vec<Extract> {
    texts.iter().map(|text| Extract::read(text).unwrap()).collect()
}

#[test]
fn every_option_is_written_and_read_back() {
    let mut named: Vec<&str> = Vec::new();
    for (spec, options) in every_option() {
        let text = written(&spec);
        assert!(text.ends_with(&format!("#@ abc{options}\ntrue\n")), "{text}");
        let entry = one(&text);
        assert_eq!(entry.id.as_deref(), Some("abc"));
        assert_eq!(entry.new_spec(usual()).unwrap(), spec, "{text}");
        named.extend(options.trim_start().split(['=', ' ']).next().filter(|name| !name.is_empty()));
    }
    let all: Vec<&str> = names().collect();
    assert!(all.iter().all(|name| named.contains(name)), "an option lacks its row: {all:?}, {named:?}");
}

#[test]
fn an_option_that_is_taken_away_goes_back_to_its_default() {
    let plain = one(&written(&usual()));
    for (spec, options) in every_option() {
        let entry = one(&written(&spec));
        let back = plain.changed_spec(&entry, spec.clone()).unwrap();
        // A folder that is not named stays.
        let expected = JobSpec { cwd: spec.cwd.clone(), ..usual() };
        assert_eq!(back, expected, "{options}");
        assert_eq!(entry.changed_spec(&entry, spec.clone()).unwrap(), spec, "{options}");
    }
}

#[test]
fn what_a_text_does_not_say_stays() {
    let spec = JobSpec { window: Some((80, 24)), rerun_of: Some("xyz".into()), cwd: "/a\nb".into(), ..usual() };
    let base = one(&written(&spec));
    assert!(!base.options.contains_key("cwd"));
    let changed = one("#@ abc priority=4\ntrue\n").changed_spec(&base, spec.clone()).unwrap();
    assert_eq!(changed, JobSpec { priority: 4, ..spec });
}

#[test]
fn commands_come_back_byte_for_byte() {
    // A seed of its own for each line of the table would be more than is needed: the parts meet in all ways.
    let parts = ["a", " ", "\n", "#", "#@ abc", "'", "\"", "\\", "é", "$(x)", "\r", "\t", "|", "lines=2"];
    let mut state = 7u64;
    for _ in 0..3000 {
        let mut next = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        let count = 1 + next(6);
        let words: Vec<String> = (0..count).map(|_| parts[next(parts.len())].to_string()).collect();
        let commands = [Command::Shell(words.concat()), Command::Argv(words)];
        for command in commands.into_iter().filter(|command| command.check().is_ok()) {
            let spec = JobSpec { command, ..usual() };
            let text = write(Header::Editor, &[], [("abc", &spec), ("abd", &usual())], HOME);
            let found = read(text.as_bytes());
            assert_eq!((found.entries.len(), &found.refused), (2, &vec![]), "{text:?}");
            assert_eq!(found.entries[0].new_spec(usual()).unwrap(), spec, "{text:?}");
            assert!(!found.unfinished && found.comments.is_empty(), "{text:?}");
        }
    }
}

#[test]
fn lines_without_options_are_commands_and_comments_are_kept() {
    let found =
        read(b"\n# mine\n  python a.py \n#: ours\n#@ gpus=2 name='x y'\r\npython b.py\r\n#@ hold lines=2\na\n# b\n");
    let told: Vec<(u64, &str)> = found.entries.iter().map(|entry| (entry.line, entry.command.as_str())).collect();
    assert_eq!(told, [(3, "python a.py"), (5, "python b.py"), (7, "a\n# b")]);
    assert_eq!(found.comments, ["# mine"]);
    let spec = found.entries[1].new_spec(usual()).unwrap();
    assert_eq!((spec.request.amount(), spec.name.as_deref()), (GpuAmount::whole(2), Some("x y")));
    assert!(found.refused.is_empty() && !found.unfinished);
}

#[test]
fn a_changed_argv_stays_one_unless_it_says_otherwise() {
    let spec = JobSpec { command: Command::Argv(["a", "b c"].map(String::from).to_vec()), ..usual() };
    let base = one(&written(&spec));
    let changed = |text: &str| one(text).changed_spec(&base, spec.clone()).map(|spec| spec.command);
    let argv = |words: &[&str]| Ok(Command::Argv(words.iter().map(|word| word.to_string()).collect()));
    assert_eq!(changed("#@ abc argv\na 'b c' d\n"), argv(&["a", "b c", "d"]));
    assert_eq!(changed("#@ abc\na 'b c'\n"), Ok(Command::Shell("a 'b c'".into())));
    assert!(changed("#@ abc argv\na | tee log\n").unwrap_err().contains("take away argv"));
    assert!(changed("#@ abc argv\na 'b\n").unwrap_err().contains("not closed"));
}

#[test]
fn bad_lines_are_told_by_their_number_and_the_rest_counts() {
    for (text, line, error) in [
        ("#@ abc nice=3\nx\n", 1, "there is no option nice; there are priority,"),
        ("ok\n#@ 123\nx\n", 2, "123 is neither an id nor an option"),
        ("#@ abc name='x\nx\n", 1, "a ' is not closed"),
        ("#@ abc\n\nx\n", 1, "no command stands below it"),
        ("#@ abc\n#@ abd\nx\n", 1, "no command stands below it"),
        ("#@ abc lines=99\nx\n", 1, "lines=99, and 1 follow"),
        ("#@ abc lines=2\nx\n#@ abd\ny\n", 1, "lines=2, and 1 follow"),
        ("#@ abc lines=0\nx\n", 1, "lines=0 is no number of lines"),
        ("#@ abc\nx\n#@ abc\nx\n", 3, "abc stands in line 1 already; take the id away for a copy"),
        ("#@ abc gpus=1 gpus=2\nx\n", 1, "gpus is said twice"),
        ("a\0b\nx\n", 1, "it has a NUL byte"),
    ] {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].0 == line && found[0].1.starts_with(error), "{text}: {found:?}");
    }
    let found = read(b"\xff\xfe\nok\n#@ odd=1 lines=2\nx\ny\nfine");
    assert_eq!(found.entries.iter().map(|entry| entry.command.as_str()).collect::<Vec<_>>(), ["ok", "fine"]);
    assert_eq!(found.refused.iter().map(|refused| refused.line).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(found.refused[1].lines, ["#@ odd=1 lines=2", "x", "y"]);
    for (text, unfinished) in [("a", true), ("a\n", false), ("", false), ("#@ hold\n", true), ("#@ lines=2\nx\n", true)]
    {
        assert_eq!(read(text.as_bytes()).unfinished, unfinished, "{text}");
    }
    let set_all = |value: &str| {
        let refuses = |name: &&str| set(&mut usual(), name, value).is_err();
        names().filter(refuses).count()
    };
    assert_eq!(set_all("\u{7}"), names().count(), "every option refuses what makes no sense");
}
