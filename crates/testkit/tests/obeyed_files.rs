//! Every place of the product that opens a file to read it is listed here with what it reads. A new place fails until it
//! is listed: if its content becomes a job, configuration, a rule or a command, it goes through `nexus_node::trust`
//! (`daemon/src/text_file.rs`), or through `cli/src/typed_file.rs` where a user types the name in the command that reads it.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Files that are obeyed go through these.
const TRUST: &[(&str, usize, &str)] = &[
    ("daemon/src/config/file.rs", 2, "config.toml, and a look at the files that it names"),
    ("daemon/src/import/watch.rs", 2, "watched files: a look, and each reading"),
    ("daemon/src/inbox/file.rs", 2, "jobs.txt, and the file that it took the place of"),
    ("daemon/src/inbox/take.rs", 1, "the link at the name of jobs.txt"),
    ("daemon/src/models/source.rs", 1, "the table of models"),
    ("daemon/src/text_file.rs", 1, "for the callers above"),
    ("node/src/shim/variables.rs", 1, "jobs.env_file"),
    ("cli/src/commands/add.rs", 1, "typed: --env-file"),
    ("cli/src/commands/backup.rs", 1, "typed: the copy of the database"),
    ("cli/src/commands/doctor.rs", 1, "jobs.env_file: a look"),
    ("cli/src/commands/edit.rs", 1, "typed: --env-file"),
    ("cli/src/commands/machine/setup.rs", 1, "typed: -f"),
    ("cli/src/commands/run.rs", 1, "typed: --config of the dispatcher"),
    ("cli/src/commands/sweep/queue.rs", 1, "typed: --from"),
    ("cli/src/dispatch/plan.rs", 2, "typed: --commands-file, --jobs-file"),
    ("cli/src/job_file.rs", 1, "typed: import"),
    ("cli/src/typed_file.rs", 1, "for the callers above"),
];

const TRUST_CALLS: &[&str] =
    &["trust::open(", "trust::check(", "trust::check_open(", "text_file::read(", "text_file::bytes(", "typed_file::"];

/// All other places of the service and of the client. What is read there is not obeyed, or nobody else can write it.
const OTHERS: &[(&str, usize, &str)] = &[
    ("cli/src/commands/config/edit.rs", 2, "own home: the copy that the editor had"),
    ("cli/src/commands/simulate/rows.rs", 1, "a workload that is simulated"),
    ("cli/src/dispatch/jobs_file.rs", 1, "the record of the dispatcher, looked at by plan.rs; a folder that is synced"),
    ("cli/src/dispatch/settings.rs", 1, "--config of the dispatcher, looked at by run.rs"),
    ("cli/src/dispatch/status.rs", 1, "the record of the dispatcher: shown"),
    ("cli/src/draft.rs", 1, "own home: the queue that the editor had"),
    ("cli/src/snapshot.rs", 2, "code of --sync: copied"),
    ("cli/src/typed_file.rs", 1, "what a user typed"),
    ("cli/src/unit.rs", 1, "the unit of systemd, which systemd obeys"),
    ("daemon/src/backend/ssh/contact.rs", 1, "the own program, by its hash"),
    ("daemon/src/digest.rs", 1, "a hash"),
    ("daemon/src/home.rs", 1, "own home: the lock; a folder that is synced"),
    ("daemon/src/http/log_range.rs", 1, "logs of jobs: shown"),
    ("daemon/src/http/service_log.rs", 1, "own home: service.log"),
    ("daemon/src/inbox/file.rs", 2, "jobs.txt, which was looked at before it was replaced"),
    ("daemon/src/results/file.rs", 1, "results of jobs: copied"),
    ("daemon/src/state_file/file.rs", 2, "the state file: pauses of GPUs by other programs, of other users too"),
    ("daemon/src/store/since.rs", 1, "own home: run directories; /proc"),
    ("daemon/src/text_file.rs", 2, "what no stranger has to be kept from, and the first start after an update"),
    ("daemon/src/models/source.rs", 1, "the table of models at the first start after an update"),
    ("daemon/src/config/file.rs", 1, "config.toml at the first start after an update"),
    ("daemon/src/web/keys.rs", 1, "own home: keys of the page"),
    ("daemon/src/web/mod.rs", 1, "own home: where the page was"),
];

const READING_CALLS: &[&str] = &[
    "fs::read(",
    "fs::read_to_string(",
    "File::open(",
    ".read(true)",
    "openat(",
    "rustix::fs::open(",
    "read_of_anybody(",
    "own_file::open(",
    "own_file::read(",
    "own_file::read_text(",
    "run_file::open(",
    "run_file::open_of_any_user(",
    "run_file::read(",
];

/// The code of a source up to its tests, without comments at the beginnings of lines.
fn production(text: &str) -> String {
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub mod "].iter().filter_map(|mark| text.find(mark)).min();
    let code = &text[..tests.unwrap_or(text.len())];
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Calls by this name, and not by a longer one that ends as it.
fn count_of(code: &str, call: &str) -> usize {
    let is_apart = |at: usize| !code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(call).filter(|(at, _)| is_apart(*at)).count()
}

/// How often each source of the crates has one of the calls.
fn places(crates: &[&str], calls: &[&str]) -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "crates"])
        .current_dir(&root)
        .output()
        .expect("git runs");
    let mut found = BTreeMap::new();
    for path in String::from_utf8(listing.stdout).expect("names are UTF-8").split_terminator('\0') {
        let Some(name) = path.strip_prefix("crates/").filter(|name| name.ends_with(".rs")) else { continue };
        let of_product = crates.iter().any(|krate| name.starts_with(&format!("{krate}/src/")));
        if !of_product || name.contains("/tests") || name.contains("/engine/sim/") {
            continue;
        }
        // Somebody may be renaming it.
        let code = production(&std::fs::read_to_string(root.join(path)).unwrap_or_default());
        let count: usize = calls.iter().map(|call| count_of(&code, call)).sum();
        if count > 0 {
            found.insert(name.to_string(), count);
        }
    }
    found
}

#[track_caller]
fn compare(what: &str, found: &BTreeMap<String, usize>, listed: &[(&str, usize, &str)]) {
    let listed: BTreeMap<String, usize> = listed.iter().map(|(name, count, _)| (name.to_string(), *count)).collect();
    let mut findings: Vec<String> = Vec::new();
    for (name, count) in found.iter().filter(|(name, count)| listed.get(*name) != Some(count)) {
        findings.push(format!("{name}: {count} places, {:?} are listed", listed.get(name)));
    }
    findings
        .extend(listed.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name}: none is left")));
    assert!(
        findings.is_empty(),
        "{what}: say in crates/testkit/tests/obeyed_files.rs what is read\n  {}",
        findings.join("\n  ")
    );
}

#[test]
fn every_file_that_is_obeyed_is_looked_at() {
    compare("files that are obeyed", &places(&["daemon", "cli", "node"], TRUST_CALLS), TRUST);
}

#[test]
fn every_other_file_that_is_read_is_listed() {
    compare("files that are read", &places(&["daemon", "cli"], READING_CALLS), OTHERS);
}
