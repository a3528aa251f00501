//! `nexus simulate`, rightly and wrongly: figures of a small workload, files of every kind, the own history.

use std::path::{Path, PathBuf};

use nexus_testkit::Nexus;
use serde_json::Value;

use crate::NEXUS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("paths of tests are text")
}

fn example(name: &str) -> String {
    text_of(root().join("examples/simulate").join(name))
}

/// A file of the test's own, as it is typed.
fn made(nexus: &Nexus, name: &str, bytes: &[u8]) -> String {
    let path = nexus.file(name, "");
    std::fs::write(&path, bytes).expect("the test's own folder is writable");
    text_of(path)
}

/// What a command that succeeds says beside its data.
fn notes(nexus: &Nexus, args: &[&str]) -> String {
    nexus.run(args).expect_code(0).stderr
}

#[test]
fn the_small_workload_has_its_figures() {
    let nexus = Nexus::fresh(NEXUS);
    let (jobs, machines) = (example("jobs.csv"), example("machines.csv"));
    let simulate = |policy: &str| nexus.ok(&["simulate", &jobs, "--machines", &machines, "--policy", policy]);
    let fifo = "\
jobs                  40
GPUs                  12       on 2 machines
makespan              20h 24m  73440 s
mean wait             1h 18m   4718 s
99th percentile wait  9h 46m   35160 s
mean completion       3h 29m   12564 s
GPU use               63.6 %";
    let short_first = "\
jobs                  40
GPUs                  12       on 2 machines
makespan              23h 29m  84540 s
mean wait             1h 1m    3717 s
99th percentile wait  12h 51m  46260 s
mean completion       3h 12m   11564 s
GPU use               55.3 %";
    assert_eq!(simulate("fifo"), fifo);
    assert_eq!(simulate("short-first"), short_first);
    assert_eq!(nexus.ok(&["simulate", &jobs, "--machines", &machines]), fifo, "fifo is what it does by itself");
    let page = std::fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    assert!(page.contains(fifo), "docs/simulate.md shows other figures");
    assert!(!nexus.home().exists(), "no service is needed, and none was started");
}

#[test]
fn json_has_plain_numbers_and_is_the_same_each_time() {
    let nexus = Nexus::fresh(NEXUS);
    let jobs = example("jobs.csv");
    let args = ["simulate", &jobs, "--gpus", "2x8x24G", "--json", "--patience", "1h"];
    let figures = nexus.json(&args);
    let names: Vec<&String> = figures.as_object().unwrap().keys().collect();
    let expected = "gpu_use_percent gpus jobs machines makespan_seconds mean_completion_seconds mean_wait_seconds \
                    never_fit p99_wait_seconds patience_seconds policy";
    let mut sorted: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    sorted.sort_unstable();
    assert_eq!(sorted.join(" "), expected);
    assert!(
        figures.as_object().unwrap().iter().all(|(name, value)| name == "policy" || value.is_number()),
        "{figures}"
    );
    assert_eq!((&figures["gpus"], &figures["machines"]), (&16.into(), &2.into()));
    assert_eq!((&figures["jobs"], &figures["patience_seconds"]), (&40.into(), &3600.0.into()));
    assert_eq!(figures, nexus.json(&args));
}

#[test]
fn one_gpu_takes_jobs_one_after_the_other() {
    let nexus = Nexus::fresh(NEXUS);
    let simulate =
        |file: &str, more: &[&str]| nexus.json(&[&["simulate", file, "--json", "--gpus", "1"], more].concat());
    let three = made(&nexus, "three.csv", b"submit,runtime\n0,30\n0,20\n10,10\n");
    let figures = simulate(&three, &[]);
    assert_eq!((&figures["makespan_seconds"], &figures["gpu_use_percent"]), (&60.0.into(), &100.0.into()));
    // Waits of 0, 30 and 40 seconds; ends after 30, 50 and 50.
    assert_eq!((&figures["mean_wait_seconds"], &figures["p99_wait_seconds"]), (&23.333.into(), &40.0.into()));
    assert_eq!(figures["mean_completion_seconds"], 43.333);
    let short = simulate(&three, &["--policy", "short-first"]);
    // 0, 10 and 30: those of 20 and of 10 seconds come first.
    assert_eq!((&short["mean_wait_seconds"], &short["makespan_seconds"]), (&13.333.into(), &60.0.into()));
    let halves = made(&nexus, "halves.csv", b"runtime,gpus\n10,0.5\n10,0.5\n10,1\n");
    assert_eq!(simulate(&halves, &[])["makespan_seconds"], 20.0);
    let wide = made(&nexus, "wide.csv", b"runtime,gpus\n10,1\n10,200x\n");
    assert!(nexus.fails(2, &["simulate", &wide, "--gpus", "1"]).contains("line 3: gpus cannot be 200x"));
}

#[test]
fn what_never_fits_is_counted_and_named() {
    let nexus = Nexus::fresh(NEXUS);
    let jobs = made(&nexus, "jobs.csv", b"runtime,vram,model,colour\n10,8G,,red\n10,30G,,red\n10,,A100,red\n");
    let said = notes(&nexus, &["simulate", &jobs, "--gpus", "1x24G"]);
    assert!(said.contains("jobs.csv: the column colour is not used\n"), "{said}");
    assert!(said.contains("note: 1 job asked for a model, and may have any: these GPUs have no names\n"), "{said}");
    assert!(said.contains("note: 1 job could run on none of these machines, the first in line 3\n"), "{said}");
    let machines = made(&nexus, "machines.csv", b"name,gpus,vram,model,rack\nbox,1,40G,RTX 3090,7\n");
    let run = nexus.run(&["simulate", &jobs, "--machines", &machines]).expect_code(0);
    assert!(run.stdout.contains("1 never fit\n") && run.stderr.contains("in line 4\n"), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("machines.csv: the column rack is not used\n"), "{}", run.stderr);
}

#[test]
fn files_as_other_programs_write_them() {
    let nexus = Nexus::fresh(NEXUS);
    let plain = made(&nexus, "plain.csv", b"submit,runtime,gpus\n0,60,1\n5.5,1h30m,2\n");
    let expected = nexus.ok(&["simulate", &plain, "--gpus", "2"]);
    for (name, bytes) in [
        ("crlf.csv", &b"submit,runtime,gpus\r\n0,60,1\r\n\r\n5.5,1h30m,2\r\n"[..]),
        ("bom.csv", b"\xef\xbb\xbfsubmit,runtime,gpus\n0,60,1\n5.5,1h30m,2"),
        ("quoted.csv", b"\"submit\",\"runtime\",\"gpus\"\n\"0\",\"60\",1\n\"5.5\", \"1h30m\" ,\"2\"\n"),
        ("order.csv", b"GPUs,Runtime, Submit\n1,60,0\n2,1h30m,5.5\n"),
        ("clock.csv", b"submit,runtime,gpus\n2024-10-24T10:00:00Z,60,1\n2024-10-24T12:00:05.5+02:00,5400,2\n"),
    ] {
        let file = made(&nexus, name, bytes);
        assert_eq!(nexus.ok(&["simulate", &file, "--gpus", "2"]), expected, "{name}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    let nexus = Nexus::fresh(NEXUS);
    for (bytes, error, hint) in [
        (&b""[..], "f.csv is empty", "submit,runtime,gpus,vram in its first line"),
        (b"runtime\n", "f.csv has no jobs", "a line for each job"),
        (b"submit,gpus\n1,2\n", "f.csv has no column runtime; it has submit, gpus", "as in submit,runtime,gpus,vram"),
        (b"runtime;gpus\n1;2\n", "f.csv has no column runtime; it has runtime;gpus", "names with commas between them"),
        (b"runtime\n1\nabc\n", "f.csv, line 3: runtime cannot be abc", "seconds, as in 90.5, or a duration"),
        (b"runtime\n-5\n", "f.csv, line 2: runtime cannot be -5", "seconds, as in 90.5"),
        (b"runtime\nNaN\n", "f.csv, line 2: runtime cannot be NaN", "seconds, as in 90.5"),
        (b"runtime\ninf\n", "f.csv, line 2: runtime cannot be inf", "seconds, as in 90.5"),
        (
            b"runtime\n99999999999999999999\n",
            "f.csv, line 2: runtime cannot be 99999999999999999999",
            "at most 100 years",
        ),
        (b"runtime,submit\n1,-1\n", "f.csv, line 2: submit cannot be -1", "seconds from 0 on"),
        (b"runtime,submit\n1,99999999999999999999\n", "f.csv, line 2: submit cannot be 9", "seconds from 0 on"),
        (b"runtime,gpus\n1,1.5\n", "f.csv, line 2: gpus cannot be 1.5", "whole GPUs from one on: 2"),
        (b"runtime,vram\n1,lots\n", "f.csv, line 2: vram cannot be lots", "a size, as in 10G"),
        (
            b"runtime,gpus\n1,1,1\n",
            "f.csv, line 2: it has 3 fields, and there are 2 columns",
            "a field for each column",
        ),
        (b"runtime,gpus\n1,\"1\n", "f.csv, line 2: a quote is not closed", "a whole field in quotes"),
        (b"runtime,runtime\n1,1\n", "f.csv has two columns runtime", "each name once"),
        (b"runtime\n1\n\xff\xfe\x00\n", "f.csv, line 3 is no text", "in UTF-8"),
        (
            b"\x7fELF\x00\x00\x01\n\x00",
            "f.csv has no column runtime; it has \\x7felf\\x00\\x00\\x01",
            "names with commas",
        ),
    ] {
        let file = made(&nexus, "f.csv", bytes);
        let said = nexus.fails(2, &["simulate", &file, "--gpus", "2"]);
        let (first, last) = (said.lines().next().unwrap(), said.lines().last().unwrap());
        assert!(first.starts_with("error: ") && first.contains(error), "{error}: {said}");
        assert!(last.starts_with("hint: ") && last.contains(hint) && said.lines().count() == 2, "{error}: {said}");
    }
    let missing = nexus.fails(1, &["simulate", "none.csv", "--gpus", "2"]);
    assert_eq!(missing, "error: none.csv cannot be read\nNo such file or directory (os error 2)\n");
    let folder = text_of(nexus.work());
    assert!(nexus.fails(1, &["simulate", &folder, "--gpus", "2"]).contains("Is a directory"));
    // Nobody may read it from its beginning, whoever he is.
    let unreadable = nexus.fails(1, &["simulate", "/proc/self/mem", "--gpus", "2"]);
    assert_eq!(unreadable, "error: /proc/self/mem cannot be read\nInput/output error (os error 5)\n");
    let long = made(&nexus, "long.csv", &[b"runtime\n".as_slice(), &[b'9'; 5000]].concat());
    assert!(nexus.fails(2, &["simulate", &long, "--gpus", "2"]).len() < 300, "it is cut");
}

#[test]
fn what_is_typed_wrongly_is_told() {
    let nexus = Nexus::fresh(NEXUS);
    let jobs = example("jobs.csv");
    for (args, error) in [
        (&["--gpus", "0"][..], "--gpus 0 is not possible"),
        (&["--gpus", "-1"], "--gpus -1 is no machine"),
        (&["--gpus", "8x"], "--gpus 8x is no machine"),
        (&["--gpus", "24G"], "--gpus 24G is no machine"),
        (&["--gpus", "129"], "--gpus 129 is not possible"),
        (&["--gpus", "2", "--machines", "m.csv"], "--gpus and --machines exclude each other"),
        (&["--gpus", "2", "--policy", "sjf"], "--policy cannot be sjf\nit can be fifo, short-first"),
        (&["--gpus", "2", "--patience", "3"], "--patience 3 has no unit"),
        (&["--gpus", "2", "--history"], "a file and the history are two workloads"),
        (&["--gpus", "2", "--since", "2d"], "a file and the history are two workloads"),
        (&["--since", "2"], "a file and the history are two workloads"),
        (&["other.csv"], "a workload is one file"),
        (&["--packing"], "--packing needs a file of nodes and one of pods"),
        (&["b", "c", "d", "--packing"], "--packing takes three files at most"),
        (&[], "nothing says which GPUs to simulate, and no service runs here to ask"),
    ] {
        let said = nexus.fails(2, &[&["simulate", &jobs], args].concat());
        assert!(said.starts_with(&format!("error: {error}")) && said.contains("\nhint: "), "{args:?}: {said}");
    }
    assert!(nexus.fails(2, &["simulate", "--since", "2"]).contains("--since 2 has no unit"));
    assert!(nexus.fails(3, &["simulate"]).contains("nexus start"));
    assert!(nexus.fails(3, &["simulate", "--history", "--gpus", "2"]).contains("nexus start"));
}

#[test]
fn the_own_history_is_a_workload() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let none = nexus.fails(1, &["simulate"]);
    assert!(none.starts_with("error: there is no history to replay\nno job has run and ended here\nhint: "), "{none}");
    for (options, command) in
        [(&["--gpus", "2"][..], "sleep 0.2"), (&["--gpus", "0.5"], "exit 3"), (&["--gpus", "0"], "true")]
    {
        let id = nexus.add_with(options, command);
        nexus.ended(&id);
    }
    let never = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["remove", &never]);
    let run = nexus.run(&["simulate", "--json"]).expect_code(0);
    assert!(run.stderr.contains("note: 1 job that never ran is left out\n"), "{}", run.stderr);
    let own: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&own["jobs"], &own["never_fit"], &own["gpus"]), (&3.into(), &0.into(), &2.into()));
    assert!(own["makespan_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.2), "{own}");
    let other = nexus.json(&["simulate", "--history", "--since", "1d", "--gpus", "1", "--json"]);
    assert_eq!((&other["jobs"], &other["never_fit"]), (&3.into(), &1.into()), "two GPUs are not to be had of one");
    let late = nexus.fails(1, &["simulate", "--since", "2100-01-01"]);
    assert!(late.contains("no job has run and ended here within this time"), "{late}");
    // A file goes onto the GPUs that are here.
    let jobs = made(&nexus, "jobs.csv", b"runtime,gpus\n10,2\n10,3\n");
    let figures = nexus.json(&["simulate", &jobs, "--json"]);
    assert_eq!((&figures["gpus"], &figures["never_fit"]), (&2.into(), &1.into()));
}

const NODES: &[u8] = b"sn,cpu_milli,memory_mib,gpu,model\nn0,8000,1000,1,T4\nn1,8000,1000,1,P100\n";
const PODS: &[u8] = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,10,1,600,\np1,1000,10,1,1000,P100\np2,1000,10,1,400,\n";

#[test]
fn a_packing_goes_by_ranks_and_arrivals() {
    let nexus = Nexus::fresh(NEXUS);
    let (nodes, pods) = (made(&nexus, "nodes.csv", NODES), made(&nexus, "pods.csv", PODS));
    let packing = |order: &str| {
        let order = made(&nexus, "order.txt", order.as_bytes());
        nexus.json(&["simulate", "--packing", &nodes, &pods, &order, "--json"])
    };
    // Whichever node ranks first: the P100 stays free for the one that wants it.
    for ranks in ["0 1", "1 0"] {
        let fine = packing(&format!("{ranks}\n0 1 2\n"));
        assert_eq!((&fine["fitted"], &fine["dropped"], &fine["milli_in_use"]), (&3.into(), &0.into(), &2000.into()));
        assert_eq!((&fine["not_allocated_percent"], &fine["arrivals_at_full_demand"]), (&0.0.into(), &1.into()));
    }
    // What came first stays: two halves leave no whole one.
    let poor = packing("0 1\n0 0 1 2\n");
    assert_eq!((&poor["fitted"], &poor["dropped"]), (&3.into(), &1.into()), "{poor}");
    let text = nexus.ok(&["simulate", "--packing", &nodes, &pods]);
    assert!(text.contains("not allocated  0.00 %  mean of 1 arrival, when as much"), "{text}");
    let short = made(&nexus, "short.txt", b"0 1\n2\n");
    let text = nexus.ok(&["simulate", "--packing", &nodes, &pods, &short]);
    assert!(text.contains("80.00 %  at the end: only 20.0 % of the GPUs were asked for"), "{text}");
    for (order, error) in [("0\n0\n", "line 1: it ranks 1 nodes"), ("0 1\n9\n", "line 2: 9 is no row number")] {
        let order = made(&nexus, "order.txt", order.as_bytes());
        let said = nexus.fails(2, &["simulate", "--packing", &nodes, &pods, &order]);
        assert!(said.contains(error) && said.contains("\nhint: "), "{said}");
    }
    let swapped = nexus.fails(2, &["simulate", "--packing", &pods, &nodes]);
    assert!(swapped.contains("pods.csv has no column sn"), "{swapped}");
}

/// The folder of real workloads; none where it is not there, which is told.
fn traces() -> Option<PathBuf> {
    let folder = std::env::var_os("NEXUS_TRACES").map_or_else(|| root().join("../shared/traces"), PathBuf::from);
    if !folder.is_dir() {
        eprintln!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

#[test]
fn phillys_jobs_on_phillys_machines() {
    let Some(traces) = traces() else { return };
    let nexus = Nexus::fresh(NEXUS);
    let file = |name: &str| text_of(traces.join("philly").join(name));
    let (jobs, machines) = (file("trace3.csv"), file("n8g8.csv"));
    for policy in ["fifo", "short-first"] {
        let args = ["simulate", &jobs, "--machines", &machines, "--policy", policy, "--json"];
        let figures = nexus.json(&args);
        assert_eq!((&figures["jobs"], &figures["gpus"], &figures["machines"]), (&992.into(), &64.into(), &8.into()));
        assert_eq!(figures, nexus.json(&args), "{policy}");
    }
}

#[test]
fn openbs_pods_on_openbs_nodes() {
    let Some(traces) = traces() else { return };
    let nexus = Nexus::fresh(NEXUS);
    let file = |name: &str| text_of(traces.join("openb").join(name));
    let (nodes, pods) = (file("csv/openb_node_list_gpu_node.csv"), file("csv/openb_pod_list_default.csv"));
    let arrivals = file("arrivals/default.42.txt");
    let packing = |order: &str| nexus.json(&["simulate", "--packing", &nodes, &pods, order, "--json"]);
    let packed = packing(&arrivals);
    assert_eq!((&packed["pods"], &packed["gpus"]), (&10_866.into(), &6212.into()));
    assert!(packed["arrivals_at_full_demand"].as_u64().is_some_and(|count| count > 0), "{packed}");
    // The first of them twice: all of them would take long.
    let text = std::fs::read_to_string(&arrivals).unwrap();
    let (ranks, order) = text.split_once('\n').unwrap();
    let some: Vec<&str> = order.split_whitespace().take(1000).collect();
    let some = made(&nexus, "some.txt", format!("{ranks}\n{}\n", some.join(" ")).as_bytes());
    assert_eq!(packing(&some), packing(&some));
}
