//! Holds the floors and the style of this tree: what a rule can say, a test says.
//!
//! Every finding is listed, not the first alone. The ratchets below name today's exceptions exactly:
//! one that is no longer needed must be struck out.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 70;

/// Files over the limit, with their lines.
const LONG_FILES: &[(&str, usize)] = &[];

/// `file name`s of functions over the limit, with their lines.
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Folder of a crate, and those of ours it may use.
const FLOORS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("api", &["core"]),
    ("node", &["api", "core"]),
    ("daemon", &["core", "api", "node"]),
    ("cli", &["core", "api", "daemon", "node"]),
    ("testkit", &["fake-nvml"]),
    ("fake-nvml", &[]),
];

/// Crates whose absence is a promise. Core may use none at all.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("api", &["tokio", "axum", "hyper", "hyper-util", "rusqlite", "clap"]),
    ("node", &["tokio", "axum", "hyper", "hyper-util", "rusqlite"]),
    ("daemon", &["clap", "anstream"]),
    ("cli", &["rusqlite", "axum"]),
];

/// Names that say nothing of what is inside.
const EMPTY_WORDS: &[&str] = &["util", "helper", "misc", "common", "manager", "handler", "worker", "info"];

/// The one file that prints.
const PRINTER: &str = "crates/cli/src/ui.rs";

#[test]
fn crates_use_only_the_floors_below() {
    let mut findings = Vec::new();
    for (name, manifest) in manifests() {
        let Some((_, allowed)) = FLOORS.iter().find(|(floor, _)| *floor == name) else {
            findings.push(format!("crates/{name} has no floor: add it to FLOORS"));
            continue;
        };
        for (section, dependency) in &manifest {
            let forbidden = FORBIDDEN.iter().find(|(floor, _)| *floor == name).map_or(&[][..], |(_, list)| *list);
            let ours = dependency.strip_prefix("nexus-");
            let wrong = match (section.as_str(), ours) {
                ("dev-dependencies", _) => false,
                (_, Some(ours)) => !allowed.contains(&ours),
                (_, None) => name == "core" || forbidden.contains(&dependency.as_str()),
            };
            if wrong {
                findings.push(format!("crates/{name} must not use {dependency} ([{section}])"));
            }
        }
    }
    report("floors", findings);
}

#[test]
fn modules_of_a_crate_do_not_import_in_circles() {
    let mut graphs: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for source in sources() {
        let Some((krate, inside)) = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let module = module_path(inside);
        let Some(top) = module.first().cloned() else { continue };
        let uses = uses_of(source.production(), &module);
        graphs.entry(krate.to_string()).or_default().entry(top).or_default().extend(uses);
    }
    let mut findings = Vec::new();
    for (krate, mut graph) in graphs {
        let modules: BTreeSet<String> = graph.keys().cloned().collect();
        for (module, uses) in &mut graph {
            uses.retain(|used| modules.contains(used) && used != module);
        }
        findings.extend(circles(&graph).into_iter().map(|circle| format!("crates/{krate}: {}", circle.join(" -> "))));
    }
    report("import circles", findings);
}

#[test]
fn files_stay_short() {
    let long = sources().into_iter().map(|source| (source.path.clone(), source.text.lines().count()));
    ratchet("long files", long.filter(|(_, lines)| *lines > LONGEST_FILE).collect(), LONG_FILES);
}

#[test]
fn functions_stay_short() {
    let sources = sources();
    let functions = sources.iter().flat_map(|source| {
        functions_of(&source.code).into_iter().map(|(name, lines)| (format!("{} {name}", source.path), lines))
    });
    ratchet("long functions", functions.filter(|(_, lines)| *lines > LONGEST_FUNCTION).collect(), LONG_FUNCTIONS);
}

#[test]
fn only_ui_prints() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.path != PRINTER && !source.is_test()) {
        if source.path.ends_with("build.rs") {
            continue;
        }
        for (number, line) in source.production().lines().enumerate() {
            let prints = ["println", "eprintln", "print", "eprint", "dbg"].iter().find(|name| calls_macro(line, name));
            findings.extend(prints.map(|name| format!("{}:{} {name}!", source.path, number + 1)));
        }
    }
    report("printing", findings);
}

#[test]
fn names_say_what_is_inside() {
    let mut findings = Vec::new();
    for path in tracked() {
        let empty = path.split(['/', '.', '_', '-']).find(|word| {
            let singular = word.strip_suffix('s').unwrap_or(word);
            EMPTY_WORDS.contains(word) || EMPTY_WORDS.contains(&singular)
        });
        findings.extend(empty.map(|word| format!("{path}: {word}")));
    }
    for source in sources() {
        for line in source.code.lines().map(str::trim_start) {
            let name = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("mod ");
            let name = name.map(|rest| rest.trim_end_matches([' ', '{', ';'])).unwrap_or_default();
            let empty = name.split('_').any(|word| EMPTY_WORDS.contains(&word.strip_suffix('s').unwrap_or(word)));
            findings.extend(empty.then(|| format!("{}: mod {name}", source.path)));
        }
    }
    report("empty names", findings);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // In two parts, or this file would be a finding.
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let mut findings = Vec::new();
    for path in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let found = places.iter().find(|place| starts_a_path(line, place));
            findings.extend(found.map(|place| format!("{path}:{} {place}", number + 1)));
        }
    }
    report("paths of a build machine", findings);
}

#[test]
fn nothing_is_left_to_do() {
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            let left = ["todo", "unimplemented"].iter().find(|name| calls_macro(line, name));
            findings.extend(left.map(|name| format!("{}:{} {name}!", source.path, number + 1)));
        }
    }
    report("left to do", findings);
}

#[test]
fn every_file_says_first_what_it_promises() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//!"));
    report("files without a header", silent.map(|source| source.path).collect());
}

#[test]
fn the_rules_see_what_they_should() {
    let code = code_of(
        "fn a() {\n    let b = \"} // x\"; // }\n    let c = '{'; let d: &'static str = r#\"}\"#;\n}\nfn e();\n",
    );
    assert_eq!(functions_of(&code), [("a".to_string(), 4)]);
    let uses = |text: &str, module: &[&str]| {
        let module: Vec<String> = module.iter().map(|part| part.to_string()).collect();
        uses_of(text, &module).into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(uses("use crate::{a::{b, c}, d, e::f as g}; crate::h::i();", &["x"]), "a d e h");
    assert_eq!(uses("super::a::b(); use super::{c, d::e};", &["x"]), "a c d");
    assert_eq!(uses("super::a::b(); super::super::c::d();", &["x", "y"]), "c");
    let graph = |edges: &[(&str, &[&str])]| {
        let of = |list: &&[&str]| list.iter().map(|name| name.to_string()).collect();
        circles(&edges.iter().map(|(from, to)| (from.to_string(), of(to))).collect()).len()
    };
    assert_eq!(graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]), 0);
    assert_eq!(graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])]), 1);
    let (place, elsewhere) = (concat!("x = \"/ro", "ot/.nexus\""), concat!("shared/wo", "rk/x"));
    assert!(starts_a_path(place, concat!("/ro", "ot/")) && !starts_a_path(elsewhere, concat!("/wo", "rk/")));
    assert!(calls_macro("  println!(\"\")", "println") && !calls_macro("  eprintln!(\"\")", "println"));
}

struct Source {
    /// From the root of the repository.
    path: String,
    text: String,
    /// The text with comments and the insides of strings blanked out.
    code: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let is_simulation = self.path.contains("/engine/sim/");
        self.path.contains("/tests/") || self.path.starts_with("crates/testkit/") || is_simulation
    }

    /// The code up to its tests, which stand last.
    fn production(&self) -> &str {
        self.code.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
    }
}

fn report(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}: {} findings\n  {}\n", findings.len(), findings.join("\n  "));
}

/// Findings must be the known exceptions, to the line.
fn ratchet(rule: &str, found: BTreeMap<String, usize>, known: &[(&str, usize)]) {
    let known: BTreeMap<String, usize> = known.iter().map(|(name, lines)| (name.to_string(), *lines)).collect();
    let mut findings = Vec::new();
    for (name, lines) in &found {
        if known.get(name) != Some(lines) {
            findings.push(format!("{name}: {lines} lines, {:?} are allowed", known.get(name)));
        }
    }
    let needless = known.keys().filter(|name| !found.contains_key(*name));
    findings.extend(needless.map(|name| format!("{name}: its exception is needed no more")));
    report(rule, findings);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files in the repository, and those that are about to be.
fn tracked() -> Vec<String> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listing.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr));
    let text = String::from_utf8(listing.stdout).expect("names are UTF-8");
    let mut paths: Vec<String> = text.split_terminator('\0').map(String::from).collect();
    paths.retain(|path| root().join(path).is_file());
    paths.sort();
    paths.dedup();
    paths
}

fn sources() -> Vec<Source> {
    let paths = tracked().into_iter().filter(|path| path.starts_with("crates/") && path.ends_with(".rs"));
    let read = |path: String| {
        // Somebody may be renaming it.
        let text = std::fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { code: code_of(&text), path, text })
    };
    paths.filter_map(read).collect()
}

/// Folder of each crate, and its dependencies with the section they stand in.
fn manifests() -> Vec<(String, Vec<(String, String)>)> {
    let of_crate = |path: &String| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((name.to_string(), path.clone()))
    };
    let read = |(name, path): (String, String)| {
        let text = std::fs::read_to_string(root().join(path)).expect("a readable manifest");
        (name, dependencies_of(&text))
    };
    tracked().iter().filter_map(of_crate).map(read).collect()
}

fn dependencies_of(manifest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            // [target.'cfg(unix)'.dependencies] and [dependencies.serde] are dependencies as well.
            let parts: Vec<&str> = header.trim_matches(['[', ']']).split('.').collect();
            let at = parts.iter().position(|part| part.ends_with("dependencies"));
            section = at.map(|at| parts[at].to_string()).unwrap_or_default();
            let table = at.and_then(|at| parts.get(at + 1)).map(|name| (section.clone(), name.to_string()));
            section = if table.is_some() { String::new() } else { section };
            found.extend(table);
        } else if let Some((name, _)) = line.split_once('=').filter(|_| !section.is_empty() && !line.starts_with('#')) {
            let name = name.trim().split('.').next().unwrap_or_default();
            found.push((section.clone(), name.trim_matches('"').to_string()));
        }
    }
    found
}

/// `decide/place.rs` is `[decide, place]`; the root of a crate is nothing.
fn module_path(file: &str) -> Vec<String> {
    let parts = file.trim_end_matches(".rs").split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main"));
    parts.map(String::from).collect()
}

/// Top-level modules that code in `module` names by `crate::` or `super::`.
fn uses_of(code: &str, module: &[String]) -> BTreeSet<String> {
    let to_root = "super::".repeat(module.len());
    let mut found = BTreeSet::new();
    for start in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            found.extend(heads(&code[at + start.len()..]));
        }
    }
    found
}

/// The first names of a path, or of each path of a group: `{a::{b, c}, d}` has a and d.
fn heads(rest: &str) -> Vec<String> {
    let name = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let mut depth = 0;
    let mut names = vec![name(group)];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// One circle for each module that is part of one and not of a circle found before.
fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in graph.keys() {
        if found.iter().flatten().any(|known| known == start) {
            continue;
        }
        found.extend(way_back(graph, start));
    }
    found
}

/// The shortest way from a module back to itself.
fn way_back(graph: &BTreeMap<String, BTreeSet<String>>, start: &String) -> Option<Vec<String>> {
    let mut ways = std::collections::VecDeque::from([vec![start.clone()]]);
    let mut visited = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way.last().expect("a way begins somewhere");
        for next in graph.get(last).into_iter().flatten() {
            let longer: Vec<String> = way.iter().cloned().chain([next.clone()]).collect();
            if next == start {
                return Some(longer);
            }
            if visited.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// Names of functions with a body, and their lines from `fn` to the last brace.
fn functions_of(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(length) = length_of_body(&code[at..]).filter(|_| !name.is_empty()) else { continue };
        found.push((name, code[at..at + length].lines().count()));
    }
    found
}

/// Bytes up to the brace that closes the body; None where a `;` comes before any body.
fn length_of_body(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(at + 1),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

fn calls_macro(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let apart = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        apart && line[at + name.len()..].starts_with('!')
    })
}

/// Whether `place` stands in the line as the beginning of a path, not inside one.
fn starts_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-.~$}>)".contains(c))
    })
}

/// Blanks out comments and the insides of strings and characters, keeping every line where it is.
fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = length_of_raw_string(text, at) {
            length
        } else if rest.starts_with('"') {
            length_of_quoted(rest, '"')
        } else if is_character(rest) {
            length_of_quoted(rest, '\'')
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            code.extend_from_slice(&bytes[at..at + length]);
            at += length;
            continue;
        };
        code.extend(rest.bytes().take(length).map(|byte| if byte == b'\n' { b'\n' } else { b' ' }));
        at += length;
    }
    String::from_utf8(code).expect("whole characters were kept or blanked")
}

fn length_of_raw_string(text: &str, at: usize) -> Option<usize> {
    let before = text[..at].chars().next_back();
    if before.is_some_and(|c| (c.is_alphanumeric() && c != 'b' && c != 'c') || c == '_') {
        return None;
    }
    let hashes = text[at..].strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let inside = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    Some(2 + count + inside.find(&end)? + end.len())
}

/// A quoted thing from its first quote to its last, escapes minded.
fn length_of_quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'a'` and `'\n'`, but not the lifetime `'a`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('\'') && matches!((chars.next(), chars.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}
