//! Files that users of the older systems keep: every example line of their documents, imported and run.

use nexus_testkit::{Conda, Nexus};
use serde_json::Value;

use crate::NEXUS;

/// Prints its arguments, and where it runs.
const SCRIPT: &str =
    "import os, sys\nprint(os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get('CONDA_DEFAULT_ENV'))\n";

fn imported(nexus: &Nexus, args: &[&str]) -> Vec<String> {
    let said = nexus.run(&[&["import", "--quiet"], args].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said}");
    said.stdout.lines().map(String::from).collect()
}

fn output(nexus: &Nexus, id: &str) -> String {
    let job = nexus.ended(id);
    assert_eq!(job["state"], "completed", "{job}");
    nexus.stdout_of(id)
}

fn on(job: &Value) -> &Value {
    &job["request"]["on"]
}

#[test]
fn the_schedulers_table() {
    let nexus = Nexus::fresh(NEXUS);
    let Some(conda) = Conda::install(&nexus.work().join("conda")) else { return };
    conda.environment("pytorch_env", "", "");
    conda.environment("myenv", "", "");
    let nexus = nexus.env("CONDA_EXE", conda.program().to_str().unwrap());
    nexus.start(8);
    for script in ["train.py", "eval.py", "inference.py", "script.py"] {
        nexus.file(&format!("path/to/{script}"), SCRIPT);
    }
    let table = "# Comments start with #\n\
                 0,/path/to/train.py,pytorch_env,--llm qwen2.5-7b-inst --epochs 100,0-3\n\
                 1,/path/to/eval.py,pytorch_env,--llm qwen2.5-3b-inst --dataset test,\n\
                 2,/path/to/inference.py,,--llm qwen2.5-32b-inst --batch_size 1,4,5,6,7\n\
                 0,/path/to/script.py,myenv,--llm qwen2.5-7b-inst --epochs 100,0-3\n";
    let work = nexus.work().display().to_string();
    nexus.file("jobs.txt", &table.replace("/path", &format!("{work}/path")));
    let said = nexus.run(&["import", "jobs.txt"]);
    let doubt = "line 4: read as arguments \"--llm qwen2.5-32b-inst --batch_size 1\" and GPUs 4-7; quote the arguments if \
                 that is wrong\n";
    assert_eq!(said.stderr, format!("note: jobs.txt is read as csv\n{doubt}"));
    let ids: Vec<&str> = said.stdout.lines().collect();
    let printed: Vec<String> = ids.iter().map(|id| output(&nexus, id)).collect();
    let gpu = |id: &str| nexus.job(id)["gpus"][0].to_string();
    let expected = [
        format!("train.py ['--llm', 'qwen2.5-7b-inst', '--epochs', '100', '--cuda', '{}'] pytorch_env\n", gpu(ids[0])),
        format!("eval.py ['--llm', 'qwen2.5-3b-inst', '--dataset', 'test', '--cuda', '{}'] pytorch_env\n", gpu(ids[1])),
        format!("inference.py ['--llm', 'qwen2.5-32b-inst', '--batch_size', '1', '--cuda', '{}'] None\n", gpu(ids[2])),
        format!("script.py ['--llm', 'qwen2.5-7b-inst', '--epochs', '100', '--cuda', '{}'] myenv\n", gpu(ids[3])),
    ];
    assert_eq!(printed, expected);
    let jobs: Vec<Value> = ids.iter().map(|id| nexus.job(id)).collect();
    assert_eq!(jobs.iter().map(|job| job["priority"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 0]);
    assert_eq!((on(&jobs[0]), on(&jobs[1])), (&serde_json::json!([0, 1, 2, 3]), &Value::Null));
    assert_eq!(on(&jobs[2]), &serde_json::json!([4, 5, 6, 7]));
}

#[test]
fn scripts_count_from_the_files_folder_and_are_told_their_gpus() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.file("sub/train.py", SCRIPT);
    nexus.file("sub/jobs.csv", "0,train.py,,--cuda 7 --x,1\n0,train.py,,--cuda=7 \"a  b\" 'c,d',1\n0,train.py,,,1\n");
    let ids = imported(&nexus, &["--format", "csv", "sub/jobs.csv"]);
    let printed: Vec<String> = ids.iter().map(|id| output(&nexus, id)).collect();
    assert_eq!(printed[0], "train.py ['--cuda', '1', '--x'] None\n");
    assert_eq!(printed[1], "train.py ['--cuda=1', 'a  b', 'c,d'] None\n");
    assert_eq!(printed[2], "train.py ['--cuda', '1'] None\n");
    nexus.ok(&["config", "set", "import.csv_gpu_arg", ""]);
    nexus.file("sub/jobs.csv", "0,train.py,,alone,1\n");
    let alone = imported(&nexus, &["sub/jobs.csv"]);
    assert_eq!(output(&nexus, &alone[0]), "train.py ['alone'] None\n");
    let refused = nexus.fails(1, &["config", "set", "import.csv_gpu_arg", "no option"]);
    assert!(refused.contains("is no option of a program"), "{refused}");
}

#[test]
fn what_a_line_of_the_table_names_must_be_there() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.file("train.py", SCRIPT);
    nexus.file("jobs.csv", "0,nope.py,,a,\n0,train.py,,a,2\n0,.,,a,\n0,train.py,,ok,0-1\n");
    let said = nexus.run(&["import", "jobs.csv"]);
    let work = nexus.work().display().to_string();
    let told = format!(
        "line 1 is not taken: there is no script {work}/nope.py\n\
         line 2 is not taken: there is no GPU 2: there are 0-1\n\
         line 3 is not taken: {work}/. is not a file\n"
    );
    assert_eq!((said.code, said.stderr), (1, format!("note: jobs.csv is read as csv\n{told}")));
    assert_eq!(said.stdout.lines().count(), 1);
}

#[test]
fn models_of_the_table_say_what_their_jobs_need() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let models = nexus.file("llm_config.json", r#"{"default_requirement": 1.0, "models": {"qwen2.5-3b-inst": 0.5}}"#);
    nexus.ok(&["config", "set", "models.file", models.to_str().unwrap()]);
    nexus.file("train.py", SCRIPT);
    nexus.file("jobs.csv", "0,train.py,,--llm qwen2.5-3b-inst,\n0,train.py,,--llm=other,\n");
    let ids = imported(&nexus, &["jobs.csv"]);
    let gpus: Vec<Value> = ids.iter().map(|id| nexus.job(id)["request"]["gpus"].clone()).collect();
    assert_eq!(gpus, [serde_json::json!(0.5), serde_json::json!(1)]);
}

#[test]
fn torchrun_has_as_many_gpus_as_processes() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    nexus.file("train.py", SCRIPT);
    nexus.file("jobs.csv", "3,train.py,,torchrun-2gpu,--lr 0.1,0-3\n0,train.py,,python,--lr 0.1,\n");
    nexus.ok(&["pause"]);
    let ids = imported(&nexus, &["jobs.csv"]);
    let job = nexus.job(&ids[0]);
    let script = nexus.work().join("train.py").display().to_string();
    let argv = ["torchrun", "--nnodes=1", "--nproc-per-node=2", script.as_str(), "--lr", "0.1"];
    assert_eq!((&job["argv"], &job["request"]["gpus"]), (&serde_json::json!(argv), &serde_json::json!(2)));
    assert_eq!(job["gpu_arg"], Value::Null);
    let plain = nexus.job(&ids[1]);
    assert_eq!((&plain["argv"][2], &plain["gpu_arg"]), (&"--lr".into(), &"--cuda".into()));
}

#[test]
fn the_dispatchers_commands() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    for script in ["train.py", "inference.py", "train_resnet.py", "process_data.py"] {
        nexus.file(script, SCRIPT);
    }
    nexus.file(
        "commands.txt",
        "python3 train.py --batch-size 128\npython3 inference.py --input-dir ./data\n# comments start with #\n\
         python3 train_resnet.py\npython3 process_data.py --workers 4\n",
    );
    let ids = imported(&nexus, &["commands.txt"]);
    let printed: String = ids.iter().map(|id| output(&nexus, id)).collect();
    assert_eq!(
        printed,
        "train.py ['--batch-size', '128'] None\ninference.py ['--input-dir', './data'] None\n\
         train_resnet.py [] None\nprocess_data.py ['--workers', '4'] None\n"
    );
}

#[test]
fn gpupeasys_batch() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.file("sub/batch.txt", "one;;one.log;;echo a\n    b;;;\ntwo;;deep/two.log;;ls -l /dev/null >&2;;;\n");
    std::fs::create_dir(nexus.work().join("sub/deep")).unwrap();
    let ids = imported(&nexus, &["sub/batch.txt"]);
    for id in &ids {
        assert_eq!(nexus.ended(id)["state"], "completed");
    }
    assert_eq!(nexus.job(&ids[0])["name"], "one");
    let log = |name: &str| std::fs::read_to_string(nexus.work().join("sub").join(name)).unwrap();
    assert_eq!(log("one.log"), "a b\n");
    assert!(log("deep/two.log").contains("/dev/null"));
}
