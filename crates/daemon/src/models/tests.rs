//! Commands as people write them, and the rules that fit them.

use super::*;

/// The seed's own example.
const SEED: &str = include_str!("../../../../examples/llm_config.json");

fn rule(pattern: &str, gpus: f64) -> Rule {
    Rule { pattern: Pattern::new(pattern).unwrap(), gpus: Some(gpus), vram: None }
}

fn rules(rules: &[Rule]) -> Rules {
    Rules { rules: rules.to_vec(), table: None }
}

fn with_table(text: &str) -> Rules {
    Rules { rules: vec![], table: Some(Arc::new(Table::parse(text, "/t.json").unwrap())) }
}

fn shell(text: &str) -> JobSpec {
    JobSpec::new(Command::Shell(text.into()), "/".into())
}

fn argv(words: &[&str]) -> JobSpec {
    JobSpec::new(Command::Argv(words.iter().map(|word| word.to_string()).collect()), "/".into())
}

/// What it asks for then, and by which rule.
fn filled(rules: &Rules, mut spec: JobSpec) -> (Option<String>, Option<String>) {
    rules.fill(&mut spec);
    (spec.request.gpus.map(|gpus| gpus.to_string()), spec.by_rule)
}

fn fits(pattern: &str, spec: JobSpec) -> bool {
    filled(&rules(&[rule(pattern, 0.5)]), spec).1.is_some()
}

#[test]
fn a_pattern_is_words_next_to_each_other() {
    for (pattern, command, expected) in [
        ("--llm qwen2.5-3b-*", "python t.py --llm qwen2.5-3b-inst --lr 3", true),
        ("--llm qwen2.5-3b-*", "python t.py --llm=qwen2.5-3b-inst", true),
        ("--llm=qwen2.5-3b-*", "python t.py --llm qwen2.5-3b-inst", true),
        ("--llm=qwen2.5-3b-*", "python t.py --llm=qwen2.5-3b-inst", true),
        ("--llm qwen2.5-3b-*", "python t.py --llm 'qwen2.5-3b-inst'", true),
        ("--llm qwen2.5-3b-*", "python t.py --llm \"qwen2.5-3b-\"$SIZE", true),
        ("--llm qwen2.5-3b-*", "python t.py \"--llm\"=qwen2.5-3b-inst", true),
        ("--llm qwen2.5-3b-*", "python t.py --llm qwen2.5-7b-inst", false),
        ("--llm qwen2.5-3b-*", "python t.py --llm2 qwen2.5-3b-inst", false),
        ("--llm qwen2.5-3b-*", "python t.py qwen2.5-3b-inst --llm", false),
        ("--llm qwen2.5-3b-*", "python t.py --llm --fast qwen2.5-3b-inst", false),
        ("--llm qwen2.5-3b-*", "echo '--llm qwen2.5-3b-inst'", false),
        ("--llm qwen2.5-3b-*", "echo --llm; qwen2.5-3b-inst", false),
        ("--llm qwen2.5-3b-*", "python t.py # --llm qwen2.5-3b-inst", false),
        ("--llm qwen2.5-3b-*", "cd x && python t.py --llm qwen2.5-3b-inst; echo", true),
        ("--llm qwen2.5-3b-i", "python t.py --llm qwen2.5-3b-i>log", true),
        ("--llm q*", "python t.py \\\n  --llm \\\n  q", true),
        ("--llm q*", "for m in a b; do python t.py --llm q$m; done", true),
        // No shell would take it: blanks part its words.
        ("--llm q*", "echo it's python t.py --llm qwen", true),
        ("--llm 'a b'", "python t.py --llm 'a b'", true),
        ("--llm 'a b'", "python t.py --llm a b", false),
        ("*train.py", "python src/train.py", true),
        ("*train.py", "python src/train.py.bak", false),
        ("python ?.py", "python t.py", true),
        ("--llm*q", "t --llm=q", true),
        ("-DM=x", "cmake -DM=x .", true),
        ("M=x", "M=x python t.py", true),
        ("x", "M=x python t.py", false),
        ("*", "anything", true),
    ] {
        assert_eq!(fits(pattern, shell(command)), expected, "{pattern} | {command}");
    }
}

#[test]
fn exact_arguments_are_words_as_they_are() {
    assert!(fits("--llm q*", argv(&["python", "t.py", "--llm", "q1"])));
    assert!(fits("--llm q*", argv(&["python", "t.py", "--llm=q1"])));
    assert!(fits("--llm 'a b'", argv(&["t", "--llm", "a b"])));
    assert!(fits("--llm *;*", argv(&["t", "--llm", "a;b"])));
    assert!(!fits("--llm q*", argv(&["echo", "--llm q1"])));
    assert!(!fits("--llm", argv(&["t", "# --llm"])));
    assert!(fits("#", argv(&["t", "#"])));
}

#[test]
fn the_first_rule_that_fits_wins_and_rules_come_before_the_table() {
    let mut both = with_table(SEED);
    both.rules = vec![rule("--llm qwen2.5-7b-*", 2.0), rule("--llm qwen*", 0.25)];
    let of = |text: &str| filled(&both, shell(text));
    let said = |gpus: &str, rule: &str| (Some(gpus.to_string()), Some(rule.to_string()));
    assert_eq!(of("t --llm qwen2.5-7b-inst"), said("2", "--llm qwen2.5-7b-*"));
    assert_eq!(of("t --llm qwen2.5-3b-inst"), said("0.25", "--llm qwen*"));
    assert_eq!(of("t --llm llama"), said("1", "default_requirement in /t.json"));
    assert_eq!(of("t --lm llama"), (None, None));
}

#[test]
fn the_table_of_the_seed() {
    let rules = with_table(SEED);
    let of = |text: &str| filled(&rules, shell(text));
    let listed = |gpus: &str, model: &str| (Some(gpus.to_string()), Some(format!("--llm {model} in /t.json")));
    assert_eq!(of("python t.py --llm qwen2.5-3b-inst --epochs 100"), listed("0.5", "qwen2.5-3b-inst"));
    assert_eq!(of("python t.py --llm=qwen2.5-vl-32b-inst"), listed("1", "qwen2.5-vl-32b-inst"));
    assert_eq!(of("python t.py --llm QWEN"), (Some("1".into()), Some("default_requirement in /t.json".into())));
    for none_of_its_business in ["python t.py", "python t.py --llm", "python t.py --llm --fast", "t --llm="] {
        assert_eq!(of(none_of_its_business), (None, None), "{none_of_its_business}");
    }
    let small = "{\"models\": {\"a\": 0.5, \"b\": 2}}";
    assert_eq!(filled(&with_table(small), shell("t --llm c")), (None, None), "no default_requirement");
    assert_eq!(filled(&with_table(small), shell("t --llm b && t --llm a")), listed("2", "b"), "the most of both");
}

#[test]
fn what_the_job_says_itself_wins() {
    let rules = rules(&[Rule { vram: Some(Vram::Mib(8192)), ..rule("t", 0.5) }]);
    let mut spec = shell("t");
    rules.fill(&mut spec);
    assert_eq!((spec.request.gpus, spec.request.vram), (GpuAmount::part(500), Some(Vram::Mib(8192))));
    for (gpus, vram) in [(Some(GpuAmount::ONE), None), (None, Some(Vram::Auto)), (Some(GpuAmount::NONE), None)] {
        let mut said = shell("t");
        (said.request.gpus, said.request.vram) = (gpus, vram);
        let before = said.clone();
        assert_eq!(rules.fill(&mut said), None);
        assert_eq!(said, before);
    }
    let mut edited = spec.clone();
    after_edit(&spec, &mut edited);
    assert_eq!(edited.by_rule.as_deref(), Some("t"));
    edited.request.gpus = Some(GpuAmount::ONE);
    after_edit(&spec, &mut edited);
    assert_eq!(edited.by_rule, None);
}

#[test]
fn over_one_is_rounded_up_and_told() {
    for (asked, gpus, told) in [
        (0.0, "0", false),
        (0.5, "0.5", false),
        (0.0001, "0.001", false),
        (0.333333, "0.333", false),
        (0.99999, "1", false),
        (1.0, "1", false),
        (2.0, "2", false),
        (1.5, "2", true),
        (1.001, "2", true),
        (127.2, "128", true),
    ] {
        let mut spec = shell("t");
        let note = rules(&[rule("t", asked)]).fill(&mut spec);
        assert_eq!(spec.request.gpus.unwrap().to_string(), gpus, "{asked}");
        assert_eq!(note.is_some(), told, "{asked}");
        if let Some(note) = note {
            assert_eq!(note.to_string(), format!("{asked} GPUs by the rule t are rounded up to {gpus}"));
        }
    }
}

#[test]
fn a_wrong_table_is_named_with_its_line() {
    for (text, line, error) in [
        ("", Some(1), "EOF while parsing a value"),
        ("3", Some(1), "invalid type: integer `3`, expected an object with default_requirement and models"),
        ("{\n\"model\": {}\n}", Some(2), "unknown field `model`, expected `default_requirement` or `models`"),
        ("{\n\"models\": {\n\"a\": \"x\"\n}}", Some(3), "invalid type: string \"x\", expected a number of GPUs"),
        ("{\n\"models\": {\n\"a\": -1\n}}", Some(3), "-1 is no number of GPUs, as in 0.5 or 2"),
        ("{\n\"models\": {\n\"a\": 129\n}}", Some(3), "129 is no number of GPUs"),
        ("{\n\"models\": {\n\"a\": 1,\n\"a\": 2\n}}", Some(4), "a is listed twice"),
        ("{\n\"models\": {\n\"a\": 1,\n}}", Some(4), "trailing comma"),
        ("{\"models\": 3}", Some(1), "invalid type: integer `3`, expected models and what they need"),
        ("{\"default_requirement\": true}", Some(1), "invalid type: boolean `true`, expected a number of GPUs"),
    ] {
        let (found, told) = Table::parse(text, "/t.json").expect_err(text);
        assert_eq!(found, line, "{text}: {told}");
        assert!(told.starts_with(error), "{text}: {told}");
    }
}
