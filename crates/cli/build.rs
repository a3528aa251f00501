//! How the binary is linked.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // At a fixed address there is nothing to relocate: tens of thousands of addresses that every command would write
    // anew before it begins.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
