//! Outputs recorded from daemons of three versions are read right, and damaged ones never wrong.

use super::*;

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/slurm/", $name))
    };
}
type Reader = fn(&str) -> Result<Vec<Word>, Damaged>;
const LISTS: [(&str, Reader); 5] = [
    (recorded!("22.05/squeue.txt"), squeue),
    (recorded!("22.05/sacct.txt"), sacct),
    (recorded!("22.05/scontrol-arrays.txt"), scontrol),
    (recorded!("24.11/scontrol.txt"), scontrol),
    (recorded!("26.05/scontrol.txt"), scontrol),
];

/// The recordings have other fields, in another order.
fn read_squeue(recording: &str) -> Vec<Word> {
    let pick = |line: &str| {
        let fields: Vec<&str> = line.splitn(16, '|').collect();
        [0, 1, 2, 3, 5, 6, 10, 12, 4, 15].map(|place| fields[place]).join("|") + "|\n"
    };
    sorted(squeue(&recording.lines().map(pick).collect::<String>()).expect("whole"))
}

fn sorted(mut words: Vec<Word>) -> Vec<Word> {
    words.sort_by_key(|word| (word.job, word.task));
    words
}

fn line(word: &Word) -> String {
    let Word { job, task, state, exit, nodes, restarts, comment, reason, .. } = word;
    let (task, exit) =
        (task.map(|task| format!("_{task}")), exit.map(|exit| format!(" {}:{}", exit.code, exit.signal)));
    let (task, exit) = (task.unwrap_or_default(), exit.unwrap_or_default());
    format!("{job}{task} {state:?}{exit} {nodes:?} {restarts} {reason} {comment:?}")
}

#[test]
fn each_version_says_the_same_of_the_same_jobs() {
    let nodes = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
    for (list, details, killed) in [
        (recorded!("22.05/squeue-O.txt"), recorded!("22.05/scontrol.txt"), "JobLaunchFailure"),
        (recorded!("24.11/squeue-O.txt"), recorded!("24.11/scontrol.txt"), "RaisedSignal:9(Killed)"),
        (recorded!("26.05/squeue-O.txt"), recorded!("26.05/scontrol.txt"), "RaisedSignal:9(Killed)"),
    ] {
        let words = read_squeue(list);
        let expected = [
            r#"1 Completed 0:0 "n1" 0 None """#,
            r#"2 Failed 3:0 "n1" 0 NonZeroExitCode "gq:{\"task\":\"t\\\"1\"}""#,
            &format!(r#"3 Failed 0:9 "n1" 0 {killed} """#),
            r#"4_0 Completed 0:0 "n1" 0 None """#,
            r#"4_1 Failed 1:0 "n2" 0 NonZeroExitCode """#,
            r#"4_2 Failed 2:0 "n2" 0 NonZeroExitCode """#,
            r#"4_3 Failed 3:0 "n1" 0 NonZeroExitCode """#,
            r#"4_4 Failed 4:0 "n2" 0 NonZeroExitCode """#,
            r#"5 Pending "" 0 DependencyNeverSatisfied """#,
            r#"6 Running "n2" 0 None """#,
            &format!(r#"7 Pending "" 0 {nodes} """#),
            r#"8 Pending "" 0 JobHeldUser """#,
            r#"9 Pending "" 0 BeginTime """#,
            r#"10 Cancelled 0:0 "" 0 Priority """#,
            r#"11 Pending "" 0 Priority """#,
        ];
        assert_eq!(words.iter().map(line).collect::<Vec<_>>(), expected);
        assert_eq!(words[8].start, None);
        assert!(words[12].start.as_ref().is_some_and(|start| start.contains("T03:3")));
        assert_eq!(sorted(scontrol(details).expect("whole")), words);
    }
}

#[test]
fn texts_of_users_and_arrays_that_wait_are_read() {
    for (text, read) in &LISTS[..3] {
        let words = sorted(read(text).expect("whole"));
        let tasks: Vec<u32> = words.iter().filter(|word| word.job == 4).filter_map(|word| word.task).collect();
        assert!(tasks.ends_with(&[3, 4, 6, 7, 8, 9]), "{tasks:?}");
        let of = |job: u64| words.iter().find(|word| word.job == job).expect("it is listed");
        assert_eq!(of(2).comment, "two\nlines");
        assert_eq!((of(9).state, of(7).state), (State::Cancelled, State::Pending));
    }
    let named = LISTS[3].0.replace("JobName=ok", "JobName=a JobState=FAILED b");
    assert_eq!(scontrol(&named), scontrol(LISTS[3].0));
    let words = squeue(LISTS[0].0).expect("whole");
    assert!(words.iter().any(|word| word.job == 1 && word.comment == "nx:1|a"));
    assert!(words.iter().any(|word| word.job == 7 && word.restarts == 1));
    assert_eq!(sacct(LISTS[1].0).expect("whole").iter().filter(|word| word.job == 5).count(), 34);
}

#[test]
fn what_is_cut_is_damaged_or_ends_with_a_whole_record() {
    for (text, read) in LISTS {
        let whole = read(text).expect("whole");
        for end in 0..text.len() {
            match read(&text[..end]) {
                Ok(words) => assert_eq!([words, read(&text[end..]).expect("whole")].concat(), whole, "{end}"),
                Err(Damaged { line }) => assert!(!line.is_empty(), "{end}"),
            }
        }
        let greeting = "Welcome to the cluster!";
        assert_eq!(read(&format!("{greeting}\n{text}")), Err(Damaged { line: greeting.into() }));
        assert!(read(&format!("{text}slurm_load_jobs error: Zero Bytes were transmitted or received")).is_err());
    }
}

#[test]
fn what_cannot_be_meant_is_damaged() {
    let good = "12|12|0-2|FAILED|4294967294||1|N/A|None|\n|\n";
    let words = squeue(good).expect("whole");
    assert_eq!((words.len(), words[0].exit, &*words[0].comment), (3, None, "\n"));
    for (from, to) in [
        ("12|12", "|12"),
        ("12|12", "12|x"),
        ("0-2", "0-4294967295"),
        ("0-2", "1,..."),
        ("0-2", "2-0"),
        ("0-2", "0-2:0"),
        ("4294967294", "1:"),
        ("|1|", "|-1|"),
    ] {
        assert!(squeue(&good.replace(from, to)).is_err(), "{to}");
    }
    assert_eq!(
        [squeue(""), sacct(""), scontrol(""), scontrol("No jobs in the system\n")],
        [const { Ok(Vec::new()) }; 4]
    );
    let part = sacct("12+1|PD|0:0|None assigned|Unknown|None||\n").expect("whole").remove(0);
    assert_eq!((part.job, &*part.nodes), (13, ""));
}

#[test]
fn states_that_nobody_knows_are_not_over() {
    for (text, state, is_over) in [
        ("CANCELLED by 0", State::Cancelled, true),
        ("COMPLETED+", State::Completed, true),
        ("FAILED,REQUEUED", State::Requeued, false),
        ("RUNNING,UPDATE_DB", State::Running, false),
        ("CG", State::Completing, false),
        ("REQUEUE_HOLD", State::Requeued, false),
        ("SPECIAL_EXIT", State::Requeued, false),
        ("REVOKED", State::Revoked, false),
        ("", State::Other, false),
        ("MELTED", State::Other, false),
    ] {
        assert_eq!((State::of(text), State::of(text).is_over()), (state, is_over), "{text}");
    }
}

#[test]
fn partitions_are_summed_over_their_nodes() {
    let partitions = sinfo(recorded!("22.05/sinfo.txt")).expect("whole");
    let fake = |total| vec![SlurmGpus { kind: "fake".into(), per_node: 2, total }];
    let gpu = SlurmPartition {
        name: "gpu".into(),
        is_default: true,
        is_up: true,
        max_minutes: None,
        default_minutes: None,
        nodes: 3,
        usable: 2,
        cpus: 8,
        memory_mib: 16000,
        gpus: fake(6),
    };
    let short = SlurmPartition { name: "short".into(), is_default: false, nodes: 2, gpus: fake(4), ..gpu.clone() };
    let short = SlurmPartition { max_minutes: Some(30), default_minutes: Some(10), ..short };
    let empty =
        SlurmPartition { name: "empty".into(), is_default: false, is_up: false, nodes: 0, usable: 0, ..gpu.clone() };
    let empty = SlurmPartition { max_minutes: Some(36 * 60), cpus: 0, memory_mib: 0, gpus: Vec::new(), ..empty };
    assert_eq!(partitions, [gpu, short, empty]);

    let mixed = "a|up|2:00:00|n/a|2|64|500000|idle~|gpu:a100:4(S:0,3),gpu:2,shard:8\n\
                 a|up|2:00:00|n/a|1|96+|1000+|down*|gpu:a100:2(S:0),gpu:a100:6(S:1)\n\
                 a|up|2:00:00|n/a|1|4|900|mixed*|gpu:a100:1\n";
    let [mixed] = sinfo(mixed).expect("whole").try_into().expect("one partition");
    assert_eq!(
        (mixed.max_minutes, mixed.nodes, mixed.usable, mixed.cpus, mixed.memory_mib),
        (Some(120), 4, 2, 96, 500_000)
    );
    let kinds: Vec<(&str, u16, u32)> = mixed.gpus.iter().map(|gpu| (&*gpu.kind, gpu.per_node, gpu.total)).collect();
    assert_eq!(kinds, [("a100", 8, 17), ("", 2, 4)]);

    let text = recorded!("22.05/sinfo.txt");
    for end in (1..text.len()).filter(|end| !text[..*end].ends_with('\n')) {
        assert!(sinfo(&text[..end]).is_err(), "{end}");
    }
    for line in [
        "a|up|infinite|n/a|1|8|16000|idle",
        "|up|infinite|n/a|1|8|16000|idle|",
        "a|up|soon|n/a|1|8|16000|idle|",
        "a|up|1:0|n/a|1|8|16000|idle|gpu:a:b:c",
    ] {
        assert!(sinfo(&format!("{line}\n")).is_err(), "{line}");
    }
}

#[test]
fn the_configuration_is_read_as_far_as_it_goes() {
    let read = config(recorded!("22.05/config.txt"));
    let text = |text: &str| Some(text.to_owned());
    let expected = Config {
        version: text("22.05.8"),
        cluster: text("ci"),
        max_array_size: Some(1001),
        min_job_age_seconds: Some(300),
        has_accounting: true,
    };
    assert_eq!(read, expected);
    assert_eq!(config("slurm_load_ctl_conf error: Unable to contact slurm controller\n"), Config::default());
}

#[test]
fn only_a_whole_number_is_that_of_a_job() {
    for (text, job) in [
        ("12\n", Some(12)),
        ("12;cluster\n", Some(12)),
        ("Your project has 3 hours left\n\n12\n", Some(12)),
        ("12\nsee https://example.org/help\n", Some(12)),
        ("12", None),
        ("0\n", None),
        ("Submitted batch job 12\n", None),
        ("", None),
    ] {
        assert_eq!(submitted(text), job, "{text:?}");
    }
}

#[test]
fn each_version_refuses_what_cannot_be_in_the_same_words() {
    for text in [
        recorded!("22.05/sbatch-errors.txt"),
        recorded!("24.11/sbatch-errors.txt"),
        recorded!("26.05/sbatch-errors.txt"),
    ] {
        let refusals: Vec<&str> = text.split_inclusive("rc=1\n").filter(|text| text.ends_with("rc=1\n")).collect();
        assert!(refusals.len() >= 3 && refusals.iter().all(|text| refusal(text) == Refusal::Never), "{refusals:?}");
    }
}
