//! Bytes from outside, whatever they are: what must hold of them is said in the files beside this one, which the targets of
//! `fuzz` have too. Here it is the seeds, and some thousand things that a fixed chance makes of them.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use nexus_testkit::stir;

mod asked;
mod config;

#[test]
fn what_is_asked_of_the_service_and_files_it_reads() {
    stir(&["fuzz/seeds/asked"], 4000, asked::hold);
}

#[test]
fn texts_of_config() {
    stir(&["fuzz/seeds/config"], 1500, config::hold);
}
