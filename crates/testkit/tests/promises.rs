//! A promise in `docs/seed-*.md` or `SECURITY.md` stands beside the test that holds it. Each of those tests must exist.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn every_promise_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut tests = test_names(&root.join("crates"));
    tests.extend(python_test_names(&root.join("python/tests")));
    let mut pages: Vec<PathBuf> = std::fs::read_dir(root.join("docs"))
        .expect("docs can be read")
        .map(|entry| entry.expect("docs can be read").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")))
        .collect();
    pages.sort();
    assert!(!pages.is_empty(), "no page of promises was found");
    pages.push(root.join("SECURITY.md"));
    let mut findings = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, row) in rows(&text) {
            let named = quoted(&row.held_by);
            // "none: …" says why there is none.
            if named.is_empty() && !row.held_by.starts_with("none: ") {
                findings.push(format!("{name}:{number} names no test: {}", row.promise));
            }
            let exists =
                |test: &String| if test.contains('/') { root.join(test).is_file() } else { tests.contains(test) };
            let missing = named.into_iter().filter(|test| !exists(test));
            findings.extend(missing.map(|test| format!("{name}:{number} names {test}, which does not exist")));
        }
    }
    assert!(findings.is_empty(), "promises\n{}", findings.join("\n"));
}

struct Row {
    promise: String,
    held_by: String,
}

/// Rows of every table whose last column is "held by", with their line numbers.
fn rows(text: &str) -> Vec<(usize, Row)> {
    let mut rows = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        match line.starts_with('|') {
            false => inside = false,
            true if cells.last().is_some_and(|cell| cell.trim_matches('|').trim() == "held by") => inside = true,
            true if line.starts_with("|---") || !inside => {}
            true => {
                let held_by = cells.last().copied().unwrap_or_default().to_string();
                rows.push((number + 1, Row { promise: cells[0].to_string(), held_by }));
            }
        }
    }
    rows
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(String::from).collect()
}

fn test_names(dir: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(dir).expect("sources can be read") {
        let path = entry.expect("sources can be read").path();
        if path.is_dir() {
            names.extend(test_names(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            names.extend(functions_marked_as_tests(&text));
        }
    }
    names
}

fn python_test_names(dir: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(dir).expect("the tests of the Python side can be read");
    let texts = files
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|end| end == "py"));
    let texts = texts.map(|path| std::fs::read_to_string(path).expect("a source is text"));
    texts.flat_map(|text| text.lines().filter_map(python_test_name).collect::<Vec<_>>()).collect()
}

fn python_test_name(line: &str) -> Option<String> {
    let name = line.strip_prefix("def ")?.split('(').next()?;
    name.starts_with("test_").then(|| name.to_string())
}

fn functions_marked_as_tests(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            marked = true;
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| marked) {
            names.extend(rest.split('(').next().map(String::from));
            marked = false;
        } else if !line.starts_with("#[") {
            marked = false;
        }
    }
    names
}

#[test]
fn a_row_without_a_test_is_seen() {
    let page = "| promise | held by |\n|---|---|\n| it flies | `a_test`, `b_test` |\n| it swims | nobody |\n\ntext\n";
    let rows = rows(page);
    assert_eq!(rows.len(), 2);
    assert_eq!(quoted(&rows[0].1.held_by), ["a_test", "b_test"]);
    assert!(quoted(&rows[1].1.held_by).is_empty());
    assert_eq!(functions_marked_as_tests("#[test]\nfn one() {}\nfn two() {}\n"), ["one"]);
}
