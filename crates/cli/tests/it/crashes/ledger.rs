//! What the jobs themselves wrote down. Lines were appended whole, so their order is the order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub struct Ledger {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    id: String,
    attempt: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Start { gpus: Vec<String> },
    End(Left),
}

/// How a job said it would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Exit(i64),
    Signal(i64),
    /// It was asked to end.
    Asked,
}

/// One job's part: for each attempt how often it started, and how it ended.
#[derive(Debug, Default)]
pub struct Part {
    pub starts: BTreeMap<u32, usize>,
    pub ends: BTreeMap<u32, Vec<Left>>,
}

impl Ledger {
    pub fn read(path: &Path) -> Ledger {
        let text = std::fs::read_to_string(path).expect("the ledger is there");
        Ledger { lines: text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("ledger: {line:?}"))).collect() }
    }

    pub fn runs(&self) -> usize {
        self.lines.iter().filter(|line| matches!(line.what, What::Start { .. })).count()
    }

    pub fn parts(&self) -> BTreeMap<String, Part> {
        let mut parts: BTreeMap<String, Part> = BTreeMap::new();
        for line in &self.lines {
            let part = parts.entry(line.id.clone()).or_default();
            match &line.what {
                What::Start { .. } => *part.starts.entry(line.attempt).or_default() += 1,
                What::End(left) => part.ends.entry(line.attempt).or_default().push(*left),
            }
        }
        parts
    }

    /// GPUs that two jobs had at once: one started before another that had it wrote its end.
    pub fn shared_gpus(&self) -> Vec<String> {
        let parts = self.parts();
        let tells_its_end = |id: &str, attempt: u32| parts[id].ends.contains_key(&attempt);
        let mut holders: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
        let mut findings = Vec::new();
        for line in &self.lines {
            match &line.what {
                What::Start { gpus } => {
                    for gpu in gpus {
                        if let Some((other, attempt)) = holders.get(gpu.as_str()) {
                            findings.push(format!("GPU {gpu}: {} started while {other}.{attempt} had it", line.id));
                        }
                        // One that was shot in mid-life wrote no end; what became of it is another finding.
                        if tells_its_end(&line.id, line.attempt) {
                            holders.insert(gpu, (&line.id, line.attempt));
                        }
                    }
                }
                What::End(_) => holders.retain(|_, holder| *holder != (&line.id, line.attempt)),
            }
        }
        findings
    }
}

/// `S id attempt machine:gpus pid` or `E id attempt how number`.
fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, id, attempt, fourth, fifth] = words.try_into().ok()?;
    let number: i64 = fifth.parse().ok()?;
    let what = match (kind, fourth) {
        ("S", place) => {
            let (machine, gpus) = place.split_once(':')?;
            let gpus = gpus.split(',').filter(|gpu| !gpu.is_empty());
            What::Start { gpus: gpus.map(|gpu| format!("{machine}:{gpu}")).collect() }
        }
        ("E", "exit") => What::End(Left::Exit(number)),
        ("E", "signal") => What::End(Left::Signal(number)),
        ("E", "term") => What::End(Left::Asked),
        _ => return None,
    };
    Some(Line { id: id.to_string(), attempt: attempt.parse().ok()?, what })
}

/// Follows a ledger that is being written: the jobs that have written an end.
pub struct Ends {
    ledger: File,
    unread: Vec<u8>,
    ids: BTreeSet<String>,
}

impl Ends {
    pub fn of(ledger: &Path) -> Ends {
        Ends { ledger: File::open(ledger).expect("the ledger is there"), unread: Vec::new(), ids: BTreeSet::new() }
    }

    pub fn look(&mut self) -> &BTreeSet<String> {
        self.ledger.read_to_end(&mut self.unread).expect("the ledger can be read");
        let whole = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = String::from_utf8(self.unread.drain(..whole).collect()).expect("a ledger is text");
        let ended = lines.lines().filter_map(|line| line.strip_prefix("E ")?.split(' ').next());
        self.ids.extend(ended.map(str::to_string));
        &self.ids
    }
}

#[test]
fn a_shared_gpu_is_found() {
    let ledger = |text: &str| Ledger { lines: text.lines().map(|line| parse(line).unwrap()).collect() };
    let well =
        ledger("S abc 1 a:0,1 7\nE abc 1 exit 0\nS def 1 a:0 8\nS ghi 1 b:0 9\nE def 1 term 143\nE ghi 1 exit 1");
    assert!(well.shared_gpus().is_empty(), "{:?}", well.shared_gpus());
    assert_eq!(well.parts()["def"].ends[&1], [Left::Asked]);
    let badly = ledger("S abc 1 a:0,1 7\nS def 1 a:1 8\nE abc 1 exit 0\nE def 1 exit 0");
    assert_eq!(badly.shared_gpus(), ["GPU a:1: def started while abc.1 had it"]);
}
