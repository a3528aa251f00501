//! Bytes from outside, whatever they are: what must hold of them is said in the files beside this one, which the targets of
//! `fuzz` have too. Here it is the seeds, and some thousand things that a fixed chance makes of them.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use nexus_testkit::stir;

mod bodies;
mod streams;
mod sweeps;
mod words;

#[test]
fn bodies_of_requests() {
    stir(&["fuzz/seeds/bodies", "crates/api/frozen/v1"], 4000, bodies::hold);
}

#[test]
fn streams_of_logs_and_terminals() {
    stir(&["fuzz/seeds/streams"], 4000, streams::hold);
}

#[test]
fn plans_of_sweeps() {
    stir(&["fuzz/seeds/sweeps"], 3000, sweeps::hold);
}

#[test]
fn words_and_amounts() {
    stir(&["fuzz/seeds/words"], 4000, words::hold);
}
