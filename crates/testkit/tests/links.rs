//! Links between pages lead somewhere, on the forge and in the book, and no page is missing from the book.
//!
//! Every finding is listed. Links to other sites are not followed.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use nexus_testkit::prose;

/// Pages outside of the book. A page of the book links to pages of the book alone: it has no others.
const OUTSIDE: &[&str] = &["README.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md"];

const BOOK: &str = "docs";
const CONTENTS: &str = "docs/SUMMARY.md";

#[test]
fn every_link_leads_somewhere() {
    let mut findings = Vec::new();
    for path in pages() {
        for (line, target) in links(&read(&path)) {
            if let Some(wrong) = wrong(&path, &target) {
                findings.push(format!("{path}:{line}: {target} {wrong}"));
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n  {}", findings.len(), findings.join("\n  "));
}

#[test]
fn every_page_is_in_the_book_once() {
    let named: Vec<String> = links(&read(CONTENTS)).into_iter().map(|(_, target)| format!("{BOOK}/{target}")).collect();
    let there: BTreeSet<String> = in_folder(BOOK).into_iter().filter(|path| path != CONTENTS).collect();
    let once: BTreeSet<String> = named.iter().cloned().collect();
    assert_eq!(named.len(), once.len(), "a page is in {CONTENTS} twice");
    let missing: Vec<&String> = there.difference(&once).collect();
    assert!(missing.is_empty(), "not in {CONTENTS}: {missing:?}");
}

#[test]
fn links_and_headings_are_seen() {
    let text = "# Top\n[a](x.md) `[b](y.md)`\n```sh\n[c](z.md)\n# not one\n```\n## Who's `in`, and why?\n## Top\n[d](#top-1) ![e](f.png)\n";
    let found: Vec<String> = links(text).into_iter().map(|(line, target)| format!("{line} {target}")).collect();
    assert_eq!(found, ["2 x.md", "9 #top-1", "9 f.png"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["top", "top-1", "whos-in-and-why"]);
    assert_eq!(wrong("docs/start.md", "../README.md"), Some("leads out of the book"));
    assert_eq!(wrong("README.md", "docs/nowhere.md"), Some("is not there"));
    assert_eq!(wrong("README.md", "docs/start.md#nowhere"), Some("has no such heading"));
}

/// What is the matter with a link of a page.
fn wrong(page: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let folder = Path::new(page).parent().expect("a page lies in a folder");
    let path = if file.is_empty() { PathBuf::from(page) } else { plain(&folder.join(file)) };
    if page.starts_with("docs/") && !path.starts_with(BOOK) {
        return Some("leads out of the book");
    }
    if !root().join(&path).exists() {
        return Some("is not there");
    }
    match anchor {
        Some(anchor) if !anchors(&read(&path.to_string_lossy())).contains(anchor) => Some("has no such heading"),
        _ => None,
    }
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in prose(text) {
        // What stands between backquotes is no link; they may be a few lines apart, in one paragraph.
        is_code &= !line.is_empty();
        let mut plain = String::new();
        for (at, part) in line.split('`').enumerate() {
            is_code ^= at > 0;
            plain.push_str(if is_code { "" } else { part });
        }
        let targets = plain.match_indices("](").filter_map(|(at, _)| plain[at + 2..].split(')').next());
        found.extend(targets.map(|target| (number, target.to_string())));
    }
    found
}

/// What headings are called in addresses, by forges and by mdbook alike.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|count| format!("{name}-{count}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

fn pages() -> Vec<String> {
    OUTSIDE.iter().map(|path| path.to_string()).chain(in_folder(BOOK)).collect()
}

fn in_folder(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in std::fs::read_dir(root().join(folder)).expect("a folder of pages").flatten().map(|it| it.file_name()) {
        let path = format!("{folder}/{}", name.to_string_lossy());
        if root().join(&path).is_dir() {
            found.extend(in_folder(&path));
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
