//! `--gpu-arg`: the command is told its GPUs, and sees all of them.

use nexus_testkit::{Nexus, until};

use crate::NEXUS;

fn printed(nexus: &Nexus, id: &str) -> String {
    let job = nexus.ended(id);
    assert_eq!(job["state"], "completed", "{job}");
    nexus.stdout_of(id)
}

#[test]
fn the_numbers_mean_the_same_inside() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let words = ["sh", "-c", "echo \"$CUDA_VISIBLE_DEVICES $NEXUS_GPU_ID $*\"", "sh"];
    let run = |options: &[&str], more: &[&str]| {
        let id = nexus.ok(&[&["add"], options, &["--"], &words, more].concat());
        printed(&nexus, &id)
    };
    assert_eq!(run(&["--on", "2", "--gpu-arg=--cuda"], &["a"]), "0,1,2,3 2 a --cuda 2\n");
    assert_eq!(run(&["--gpus", "2", "--on", "1,3", "--gpu-arg", "--cuda"], &["--cuda=0"]), "0,1,2,3 1,3 --cuda=1,3\n");
    assert_eq!(run(&["--on", "3", "--gpu-arg=--cuda"], &["--cuda", "0", "b"]), "0,1,2,3 3 --cuda 3 b\n");
    assert_eq!(run(&["--gpus", "0", "--gpu-arg=--cuda"], &["--cuda", "0"]), "  --cuda 0\n", "a CPU job has none");
    let shell = nexus.add_with(&["--on", "1", "--gpu-arg=-g"], "echo -g \"$(echo 7)\" # -g 9\necho \"-g 5\"\n");
    assert_eq!(printed(&nexus, &shell), "-g 1\n-g 5\n");
    assert_eq!(nexus.job(&shell)["command"], "echo -g \"$(echo 7)\" # -g 9\necho \"-g 5\"\n", "as it was typed");
}

#[test]
fn it_stays_through_edit_the_queue_file_and_rerun() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let id = nexus.add_with(&["--hold", "--on", "1", "--gpu-arg=--cuda"], "echo x");
    assert_eq!(nexus.ok(&["edit", &id, "--gpu-arg", "-g"]), format!("{id}: gpu-arg --cuda -> -g"));
    let shown = || std::fs::read_to_string(nexus.home().join("jobs.txt")).unwrap_or_default();
    until("jobs.txt shows it", || shown().contains(" gpu-arg=-g hold\n").then_some(()));
    assert!(nexus.ok(&["show", &id]).contains("\nGPU option:  -g\n"));
    nexus.ok(&["release", &id]);
    assert_eq!(printed(&nexus, &id), "x -g 1\n");
    assert_eq!(printed(&nexus, &nexus.ok(&["rerun", &id])), "x -g 1\n");
}
