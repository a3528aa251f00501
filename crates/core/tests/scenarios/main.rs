//! Plays `*.txt` of this folder, one line one turn of the engine, and compares what happened with `*.out`.
//! `UPDATE_SCENARIOS=1` writes the outputs anew: read the difference before it is committed.
//!
//! ```text
//! machine gpus=2 cpus=8 ram=4096 memory=1024 prefer=1,0 shares=auto|pack|spread threshold=80
//! gpu 1 fine|in-use|busy|locked|unreadable|mig|left-out|gone free=512 memory=2048 model=A100
//! used abc.1 0 512                         memory of a run on GPU 0, as it is read
//! machine m1 gpus=2 …                      another machine, once it was added
//! add m1 class=2|none   move m1 m2 class=2   pause m1   resume m1   rm m1 drain|kill   line m1 cut|back
//! set-up m1 class=2 last=abc               the job that makes it ready; first=abd in=5s: that one begins later
//! policy pause-after-failures=3 patience=60s quarantine-after=3
//! submit abc gpus=1 cpus=0 limit=5s on=0,1 priority=-1 retries=2 hold force retry-on-timeout results
//!            gpus=0.5 vram=512 vram=auto same=7 ram=512 model=A100 after=abd,abe after-any=abf
//!            class=2 machine=m1 driver
//! submit abc; submit abd                   several in one turn
//! edit abc …                               the words of submit, all of them anew
//! pause 0,1   resume 1                     GPUs; without them the queue
//! kill|remove|cancel|hold|release|first|order abc def      stop   stop kill   restart   wait 5s   why
//! started abc.1   end abc.1 exit 3|signal 9|stopped|timed-out|never-started|gpu-oom|host-oom
//! lost abc.1      start-error abc.1   machine-error abc.1   not-started abc.1   disk full   disk fine   copied abc
//! ```
#![allow(clippy::disallowed_methods, reason = "a test is told by its environment to write its files anew")]

mod scene;
mod typed;
mod words;

use std::fmt::Write;
use std::path::Path;

use scene::Scene;

#[test]
fn scenarios_end_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let update = std::env::var("UPDATE_SCENARIOS").is_ok_and(|value| value == "1");
    let mut played = 0;
    for entry in std::fs::read_dir(&folder).expect("the scenarios are beside this file") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let output = play(&std::fs::read_to_string(&path).expect("a readable scenario"));
        let golden = path.with_extension("out");
        if update {
            std::fs::write(&golden, &output).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(expected, output, "\n{} differs; UPDATE_SCENARIOS=1 writes it anew\n{output}", golden.display());
        played += 1;
    }
    assert!(played >= 10, "only {played} scenarios were found");
}

fn play(scenario: &str) -> String {
    let mut scene = Scene::default();
    let mut output = String::new();
    for line in scenario.lines() {
        match line.trim() {
            "" => output.push('\n'),
            comment if comment.starts_with('#') => writeln!(output, "{comment}").expect("a String takes all"),
            line => {
                writeln!(output, "> {line}").expect("a String takes all");
                for happened in scene.turn(line) {
                    writeln!(output, "    {happened}").expect("a String takes all");
                }
            }
        }
    }
    output
}
