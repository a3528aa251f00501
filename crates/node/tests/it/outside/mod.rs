//! Bytes from outside, whatever they are: what must hold of them is said in the files beside this one, which the targets of
//! `fuzz` have too. Here it is the seeds, and some thousand things that a fixed chance makes of them.

use nexus_testkit::stir;

mod line;
mod run_dir;

#[test]
fn frames_of_a_line() {
    stir(&["fuzz/seeds/line"], 4000, line::hold);
}

#[test]
fn files_of_a_run_directory() {
    stir(&["fuzz/seeds/run_dir"], 1000, run_dir::hold);
}
