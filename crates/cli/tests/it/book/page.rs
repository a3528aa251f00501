//! A page of the book as its test sees it: the stage it asks for, and its blocks in order.
//!
//! ```text
//! <!-- stage: gpus=4 hosts=gpu1.lab,gpu2.lab -->   for the whole page, see stage.rs
//! <!-- before: touch data.csv -->                  typed where nobody sees it; may have several lines
//! <!-- block: exit=1 -->                           of the next block: it ends so
//! <!-- block: keys "GPU 0" q -->                   it is typed at a terminal: when this is seen, that is typed; and so on
//! ```

use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Page {
    /// From the root of the repository.
    pub path: String,
    /// What it asks for, word by word.
    pub stage: Vec<String>,
    pub items: Vec<Item>,
}

/// Something of the page that is not prose.
#[derive(Debug)]
pub struct Item {
    pub kind: Kind,
    /// Where it begins.
    pub line: usize,
    pub text: String,
    /// The code it ends with.
    pub exit: i32,
    /// What is seen at a terminal and what is typed then, in turns.
    pub keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of a comment.
    Before,
    /// A block, with the word behind its fence.
    Block(String),
}

impl Item {
    pub fn is(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Block(own) if own == word)
    }

    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

impl Page {
    pub fn read(path: &str) -> Page {
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Page::of(path, &text)
    }

    pub fn of(path: &str, text: &str) -> Page {
        let mut page = Page { path: path.into(), stage: Vec::new(), items: Vec::new() };
        let (mut exit, mut keys) = (0, Vec::new());
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let line = line.trim_start();
            if let Some(word) = line.strip_prefix("```") {
                let inside =
                    lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```"));
                let text: String = inside.flat_map(|line| [line, "\n"]).collect();
                let kind = Kind::Block(word.trim().to_string());
                let (exit, keys) = (std::mem::take(&mut exit), std::mem::take(&mut keys));
                page.items.push(Item { kind, line: number + 1, text, exit, keys });
            } else if let Some(comment) = line.strip_prefix("<!-- ") {
                let mut said = comment.to_string();
                while !said.contains("-->") {
                    let (_, line) = lines.next().unwrap_or_else(|| panic!("{path}:{}: no end", number + 1));
                    said.push('\n');
                    said.push_str(line);
                }
                let said = said.split("-->").next().unwrap_or_default().trim_end();
                match said.split_once(':').map(|(what, rest)| (what, rest.trim())) {
                    Some(("stage", rest)) => page.stage.extend(rest.split_whitespace().map(String::from)),
                    Some(("before", rest)) => page.items.push(Item {
                        kind: Kind::Before,
                        line: number + 1,
                        text: format!("{rest}\n"),
                        exit: 0,
                        keys: Vec::new(),
                    }),
                    Some(("block", rest)) => (exit, keys) = of_block(path, rest),
                    _ => panic!("{path}:{}: a comment says stage, before or block: {said}", number + 1),
                }
            }
        }
        page
    }

    /// Whether it has something to run.
    pub fn has_commands(&self) -> bool {
        self.items.iter().any(|item| item.is("sh") || item.is("console"))
    }
}

fn of_block(path: &str, said: &str) -> (i32, Vec<String>) {
    let words = nexus_api::shell_words::split(said, "").unwrap_or_else(|error| panic!("{path}: {said}: {error:?}"));
    match words.split_first() {
        Some((first, [])) if first.starts_with("exit=") => (first[5..].parse().expect("a code"), Vec::new()),
        Some((first, rest)) if first == "keys" => (0, rest.to_vec()),
        _ => panic!("{path}: a block has exit=CODE or keys SEEN TYPED …: {said}"),
    }
}

/// The README and all pages of the book.
pub fn paths() -> Vec<String> {
    let mut found = vec!["README.md".to_string()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root().join(&folder)).expect("a folder of pages");
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let path = folder.join(name);
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
