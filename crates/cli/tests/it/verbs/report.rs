//! `nexus report`, rightly and wrongly.

use nexus_testkit::Nexus;
use serde_json::{Value, json};

use crate::NEXUS;

/// Two that completed, one that failed twice, one that was killed, one that waits.
fn some_jobs(nexus: &Nexus) -> [String; 5] {
    let one = nexus.add_with(&["--project", "p", "--tag", "a", "--tag", "b"], "echo 'x, \"y\"'");
    let two = nexus.add_with(&["--project", "p", "--gpus", "0"], "true\ntrue");
    let three = nexus.add_with(&["--tag", "a", "--retries", "1", "--name", "n"], "exit 4");
    for id in [&one, &two, &three] {
        nexus.ended(id);
    }
    let four = nexus.add("sleep 1000");
    nexus.in_state(&four, "running");
    nexus.ok(&["kill", &four]);
    let five = nexus.add_with(&["--hold"], "true");
    [one, two, three, four, five]
}

#[test]
fn chosen_columns_in_every_format() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    assert!(nexus.fails(3, &["report"]).contains("nexus start"));
    nexus.start(2);
    let [one, two, three, four, five] = some_jobs(&nexus);
    let csv = nexus.ok(&["report", "--format", "csv", "--columns", "id,state,exit,tags,param.lr,command,attempt"]);
    let expected = format!(
        "id,state,exit,tags,param.lr,command,attempt\n\
         {one},completed,0,\"a,b\",,\"echo 'x, \"\"y\"\"'\",1\n\
         {two},completed,0,,,\"true\ntrue\",1\n\
         {three},failed,4,a,,exit 4,2\n\
         {four},killed,signal 15,,,sleep 1000,1\n\
         {five},held,,,,true,0"
    );
    assert_eq!(csv, expected);
    let text = nexus.ok(&["report", "--columns", "id,state,name"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (lines.len(), &lines[0][..], &lines[3][..]),
        (6, &["id", "state", "name"][..], &[three.as_str(), "failed", "n"][..])
    );
    let rows = nexus.json(&[
        "report",
        "--json",
        "--columns",
        "id,gpus,value.loss",
        "--columns",
        "runtime_seconds,request",
        &three,
        &one,
    ]);
    // In the order of submission, whatever the order they are named in.
    assert_eq!((&rows[0]["id"], &rows[1]["id"]), (&json!(one), &json!(three)));
    assert_eq!((rows[0]["gpus"].as_array().unwrap().len(), &rows[0]["value.loss"]), (1, &Value::Null));
    assert!(rows[0]["runtime_seconds"].is_number() && rows[0]["request"]["gpus"] == 1, "{rows}");
    assert_eq!(
        nexus.ok(&["report", "--format", "csv", "--columns", "id", "--state", "failed"]),
        format!("id\n{three}")
    );
    assert_eq!(
        nexus.ok(&["report", "--format", "csv", "--columns", "id", "--project", "p"]),
        format!("id\n{one}\n{two}")
    );
    assert_eq!(
        nexus.ok(&["stat", "--format", "csv", "--columns", "id", "tag:a", "--name", "n"]),
        format!("id\n{three}")
    );
    assert_eq!(nexus.ok(&["report", "--format", "csv", "--columns", "id", "--since", "2100-01-01"]), "id");
    assert!(nexus.ok(&["report"]).starts_with("id "));
    assert!(nexus.fails(2, &["report", "--columns", "id,stae"]).contains("hint: --columns state"));
    assert!(nexus.fails(1, &["report", "zzzzzz"]).contains("there is no job zzzzzz"));
}

#[test]
fn sums_by_what_jobs_have_in_common() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"0s\"\n");
    nexus.start(2);
    let [.., four, _] = some_jobs(&nexus);
    let sums = |args: &[&str]| {
        let mut sums = nexus.json(&[&["report", "--format", "json"], args].concat());
        for group in sums.as_array_mut().unwrap() {
            let hours = group.as_object_mut().unwrap().remove("gpu_hours").unwrap();
            assert!(hours.as_f64().unwrap() >= 0.0);
        }
        sums
    };
    let group = |by: &str, key: Value, [jobs, completed, failed, killed]: [u32; 4]| json!({by: key, "jobs": jobs, "completed": completed, "failed": failed, "killed": killed});
    let none = || Value::Null;
    assert_eq!(
        sums(&["--by", "tag"]),
        json!([
            group("tag", "a".into(), [2, 1, 1, 0]),
            group("tag", "b".into(), [1, 1, 0, 0]),
            group("tag", none(), [3, 1, 0, 1])
        ])
    );
    assert_eq!(
        sums(&["--by", "project"]),
        json!([group("project", "p".into(), [2, 2, 0, 0]), group("project", none(), [3, 0, 1, 1])])
    );
    assert_eq!(
        sums(&["--by", "machine"]),
        json!([group("machine", "local".into(), [4, 2, 1, 1]), group("machine", none(), [1, 0, 0, 0])])
    );
    assert_eq!(sums(&["--by", "name", "--state", "failed"]), json!([group("name", "n".into(), [1, 0, 1, 0])]));
    assert_eq!(sums(&["--by", "sweep", &four]), json!([group("sweep", none(), [1, 0, 0, 1])]));
    assert_eq!(
        sums(&["--by", "day"]).as_array().unwrap().iter().map(|day| day["jobs"].as_u64().unwrap()).sum::<u64>(),
        5
    );
    // What is summed is what the rows say, to the last digit of these.
    let half = nexus.add_with(&["--gpus", "0.5"], "sleep 0.3");
    nexus.ended(&half);
    let rows = nexus.json(&["report", "--json", "--columns", "gpu_hours", "--state", "ended"]);
    let by_rows: f64 = rows.as_array().unwrap().iter().map(|row| row["gpu_hours"].as_f64().unwrap()).sum();
    let all = nexus.json(&["report", "--json", "--by", "day", "--state", "ended"]);
    let by_sums: f64 = all.as_array().unwrap().iter().map(|day| day["gpu_hours"].as_f64().unwrap()).sum();
    assert!(by_rows > 0.0 && (by_rows - by_sums).abs() < 5e-6, "{by_rows} {by_sums}");
    let text = nexus.ok(&["report", "--by", "project"]);
    assert!(text.lines().next().unwrap().ends_with("gpu_hours") && text.contains("(none)"), "{text}");
    assert!(
        nexus
            .ok(&["report", "--by", "tag", "--format", "csv"])
            .starts_with("tag,jobs,completed,failed,killed,gpu_hours\na,2,1,1,0,")
    );
    assert!(nexus.fails(2, &["report", "--by", "tag", "--columns", "id"]).contains("--by has columns of its own"));
    assert!(
        nexus.fails(2, &["report", "--by", "colour"]).contains("it can be sweep, tag, machine, project, day, name")
    );
}

#[test]
fn a_column_goes_through_a_program() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let one = nexus.add_with(&["--hold"], "echo a\necho b");
    let two = nexus.add_with(&["--hold"], "true");
    let report = |map: &[&str]| nexus.run(&[&["report", "--format", "csv", "--columns", "id,command"], map].concat());
    let mapped = report(&["--map", "id=tr a-z A-Z", "--map", "command=sed 's/^/</; s/$/>/'"]).expect_code(0).stdout;
    let (upper_one, upper_two) = (one.to_uppercase(), two.to_uppercase());
    assert_eq!(mapped, format!("id,command\n{upper_one},<echo a echo b>\n{upper_two},<true>\n"));
    for (map, why) in [("id=head -1", "it was given 2 lines and printed 1"), ("id=cat; exit 3", "exit status: 3")] {
        let told = report(&["--map", map]).expect_code(1).stderr;
        assert!(told.contains(why), "{told}");
    }
    assert!(report(&["--map", "nosuch=cat"]).expect_code(2).stderr.contains("it has id, command"));
    assert!(report(&["--map", "id"]).expect_code(2).stderr.contains("names no program"));
}
