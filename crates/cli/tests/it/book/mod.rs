//! Every shell block of the README and of the book is run, and what a block shows is what the program shows.
//!
//! `sh` blocks are scripts for `bash -eu`; `console` blocks are typed at a terminal, command by command, and their output
//! is compared (shown.rs). All blocks of a page share a home and a folder (stage.rs).

mod page;
mod shown;
mod stage;

use page::Page;
use stage::Stage;

/// Tests of pages, and the table of them.
macro_rules! pages {
    (always { $($always:ident: $quick:literal,)* } long { $($long:ident: $slow:literal,)* }) => {
        $(#[test] fn $always() { run($quick); })*
        $(#[test] fn $long() { run_if_long($slow); })*
        const PAGES: &[&str] = &[$($quick,)* $($slow,)*];
    };
}

// Pages of a second or two are always run, and so are the two that everybody reads first.
pages! {
    always {
        readme: "README.md",
        start: "docs/start.md",
        recipe_sharing: "docs/recipes/sharing.md",
        dispatcher: "docs/dispatcher.md",
        export: "docs/export.md",
        install: "docs/install.md",
        mcp: "docs/mcp.md",
        notifications: "docs/notifications.md",
        report: "docs/report.md",
        results: "docs/results.md",
        scheduling: "docs/scheduling.md",
        simulate: "docs/simulate.md",
        state_file: "docs/state-file.md",
        top: "docs/top.md",
        variables: "docs/variables.md",
        web: "docs/web.md",
    }
    long {
        recipe_sweeps: "docs/recipes/sweeps.md",
        recipe_machines: "docs/recipes/machines.md",
        recipe_slurm: "docs/recipes/slurm.md",
        recipe_laptop: "docs/recipes/laptop.md",
        recipe_lab: "docs/recipes/lab.md",
        checkpoints: "docs/checkpoints.md",
        environments: "docs/environments.md",
        machines: "docs/machines.md",
        sweeps: "docs/sweeps.md",
    }
}

/// Pages whose blocks another test runs.
const ELSEWHERE: &[(&str, &str)] =
    &[("docs/api.md", "the_examples_of_the_book_work"), ("docs/python.md", "python/tests/test_manual.py")];

/// Blocks that are not run: the page, how the block begins, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run --release -- demo", "builds nexus and runs all tests; ./test itself runs the demo"),
    ("docs/start.md", "cargo install --path crates/cli", "builds nexus from its sources"),
    (
        "docs/notifications.md",
        "nexus config set notify.webhooks slack:",
        "posts to Slack; verbs::notify has servers of its own",
    ),
];

/// What the program says of itself: a test of its parser types the examples.
const HELP: &str = "docs/cli.md";

/// Words behind a fence. What is to be typed is `sh` or `console`.
const WORDS: &[&str] = &["sh", "console", "text", "toml", "json", "yaml", "csv", "python", "rust"];

fn run(path: &str) {
    let page = Page::read(path);
    let Some(mut stage) = Stage::set(&page) else { return };
    for item in page.items.iter().filter(|item| !not_run(path, item.first_line())) {
        if item.kind == page::Kind::Before || item.is("sh") || item.is("console") {
            stage.play(&page, item);
        }
    }
    stage.end(&page);
}

fn run_if_long(path: &str) {
    match std::env::var_os("NEXUS_TEST_LONG") {
        Some(_) => run(path),
        None => eprintln!("skipped: NEXUS_TEST_LONG=1 runs it"),
    }
}

fn not_run(path: &str, first: &str) -> bool {
    NOT_RUN.iter().any(|(page, begins, _)| *page == path && first.starts_with(begins))
}

#[test]
fn every_page_with_commands_is_run() {
    let mut findings = Vec::new();
    for path in page::paths() {
        let page = Page::read(&path);
        let known = PAGES.contains(&path.as_str()) || ELSEWHERE.iter().any(|(other, _)| *other == path);
        if page.has_commands() != known {
            findings.push(format!("{path}: commands: {}, in the table: {known}", page.has_commands()));
        }
    }
    for (path, begins, _) in NOT_RUN {
        if !Page::read(path).items.iter().any(|item| item.first_line().starts_with(begins)) {
            findings.push(format!("{path}: no block begins with {begins}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Nothing that looks like a command stands where nobody runs it.
#[test]
fn every_block_says_what_it_is() {
    let mut findings = Vec::new();
    for path in page::paths() {
        let page = Page::read(&path);
        for item in &page.items {
            let page::Kind::Block(word) = &item.kind else { continue };
            let place = format!("{path}:{}", item.line);
            if !WORDS.contains(&word.as_str()) {
                findings.push(format!("{place}: a block has one of {WORDS:?} behind its fence, not {word:?}"));
            }
            let typed = item.text.lines().any(|line| line.starts_with("$ ") || line.starts_with("nexus "));
            if typed && word != "sh" && word != "console" && path != HELP {
                findings.push(format!("{place}: commands stand in blocks called sh or console, not {word}"));
            }
        }
        let text = std::fs::read_to_string(page::root().join(&path)).expect("it was read before");
        let indented = text.lines().enumerate().filter(|(_, line)| {
            line.starts_with("    ") && ["$ ", "nexus "].iter().any(|start| line.trim_start().starts_with(start))
        });
        let inside = |number: usize| {
            page.items.iter().any(|item| (item.line..=item.line + item.text.lines().count()).contains(&number))
        };
        for (number, line) in indented.filter(|(number, _)| !inside(*number)) {
            findings.push(format!("{path}:{}: commands stand in a block with a fence: {line}", number + 1));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
