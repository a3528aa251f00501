//! Runs real commands through launcher and shims, in temporary directories.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

mod adoption;
mod endings;
mod forged;
mod gpus;
mod handing;
mod line;
mod logs;
mod memory;
mod output;
mod outside;
mod run_files;
mod stage;
mod standstill;
mod starting;
mod stopping;
mod strangers;
mod weight;

/// Not a test: the process that nodes under test start as their launcher. It is this very program, with one thread.
#[test]
#[ignore = "started by the other tests"]
fn launcher_entry() {
    nexus_node::launcher::main();
}

/// Not a test: a node that tests of the line start. What the test harness prints before it begins is what a login shell
/// might.
#[test]
#[ignore = "started by the other tests"]
fn node_entry() {
    line::serve();
}
