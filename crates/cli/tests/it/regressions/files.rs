//! Files of jobs that were misread.

use nexus_testkit::Nexus;

use super::lines_of;
use crate::NEXUS;

const LEDGER: &str = "import sys\nopen('ledger', 'a').write(repr(sys.argv[1:]) + '\\n')\n";

#[test]
fn r13_a_file_tells_lines_apart_by_the_order_of_their_arguments() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.config("[import]\ncsv_gpu_arg = \"\"\n");
    nexus.ok(&["restart"]);
    nexus.file("t.py", LEDGER);
    nexus.file("jobs.csv", "0,t.py,,--a 1 --b 2,\n0,t.py,,--a 2 --b 1,\n0,t.py,,--b 2 --a 1,\n0,t.py,,--a 1 --b 2,\n");
    assert_eq!(nexus.ok(&["import", "jobs.csv"]).lines().count(), 3);
    nexus.ok(&["wait", "--all"]);
    let mut ran = lines_of(&nexus, "ledger");
    ran.sort();
    assert_eq!(ran, ["['--a', '1', '--b', '2']", "['--a', '2', '--b', '1']", "['--b', '2', '--a', '1']"]);
}

#[test]
fn r14_comments_commas_and_formats_are_what_they_are_and_nothing_runs_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.config("[import]\ncsv_gpu_arg = \"\"\n");
    nexus.ok(&["restart"]);
    nexus.file("t.py", LEDGER);
    // A comment is no command, a comma in the arguments stays, and lines of five and six fields stand side by side.
    nexus.file(
        "jobs.csv",
        "# 0,t.py,,comment,\n  # 0,t.py,,comment,\n0,t.py,,--sizes a,b,c,0\n1,t.py,,python,--old 1,2,\n2,t.py,,\"--q 1,2\",\n",
    );
    nexus.run(&["import", "--watch", "jobs.csv"]);
    nexus.ok(&["wait", "--all"]);
    let ran = ["['--sizes', 'a,b,c']", "['--old', '1,2']", "['--q', '1,2']"];
    assert_eq!(lines_of(&nexus, "ledger"), ran);
    nexus.ok(&["restart"]);
    nexus.run(&["import", "jobs.csv"]);
    nexus.run(&["import", "--watch", "jobs.csv"]);
    nexus.kill_service();
    nexus.ok(&["start"]);
    nexus.done("true");
    assert_eq!(lines_of(&nexus, "ledger"), ran, "no completed line runs again");
}

#[test]
fn r19_ids_stay_however_often_a_file_is_read() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.file("c.txt", "echo a\necho b\necho c\n");
    let first = nexus.ok(&["import", "c.txt"]);
    let ids = || {
        let queue = nexus.json(&["queue", "--json"]);
        queue.as_array().unwrap().iter().map(|job| format!("{}\n", job["id"].as_str().unwrap())).collect::<String>()
    };
    assert_eq!(ids(), format!("{first}\n"));
    nexus.ok(&["import", "c.txt"]);
    nexus.ok(&["import", "--watch", "c.txt"]);
    nexus.kill_service();
    nexus.ok(&["start"]);
    nexus.file("c.txt", "echo a\necho b\necho c\n");
    nexus.ok(&["import", "--format", "lines", "c.txt"]);
    assert_eq!(ids(), format!("{first}\n"));
}
