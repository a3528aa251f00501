//! A long list of jobs, read in pages. Only those that somebody looks at are read again; what follows is read when one
//! gets there.

use nexus_api::jobs::Job;

/// Rows of a page.
pub const PAGE_ROWS: u64 = 100;

/// So near the end of what is known more is read.
const NEAR: usize = 30;

#[derive(Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    /// How often something happened.
    touched: u64,
}

#[derive(Debug)]
struct Page {
    cursor: String,
    rows: Vec<Job>,
    next: Option<String>,
    /// Something has happened since it was read.
    stale: bool,
}

/// A page to be read: the how manieth, and what leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub number: usize,
    pub cursor: String,
    /// How often something had happened when it was asked for.
    touched: u64,
}

impl Pages {
    pub fn len(&self) -> usize {
        self.pages.iter().map(|page| page.rows.len()).sum()
    }

    pub fn rows(&self) -> impl Iterator<Item = &Job> {
        self.pages.iter().flat_map(|page| &page.rows)
    }

    pub fn get(&self, index: usize) -> Option<&Job> {
        self.rows().nth(index)
    }

    /// Whether it was read at all.
    pub fn is_known(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Whether more follow those that are known.
    pub fn has_more(&self) -> bool {
        self.pages.last().is_some_and(|page| page.next.is_some())
    }

    /// All that is known may be old.
    pub fn touch(&mut self) {
        self.touched += 1;
        self.pages.iter_mut().for_each(|page| page.stale = true);
    }

    /// Another list is meant.
    pub fn forget(&mut self) {
        self.pages.clear();
    }

    /// What is to be read for rows of these places to be right.
    pub fn wanted(&self, first: usize, last: usize) -> Option<Wanted> {
        let mut start = 0;
        for (number, page) in self.pages.iter().enumerate() {
            let end = start + page.rows.len();
            if page.stale && start <= last && end >= first {
                return Some(Wanted { number, cursor: page.cursor.clone(), touched: self.touched });
            }
            start = end;
        }
        let cursor = match self.pages.last() {
            None => String::new(),
            Some(page) if last + NEAR >= start => page.next.clone()?,
            Some(_) => return None,
        };
        Some(Wanted { number: self.pages.len(), cursor, touched: self.touched })
    }

    pub fn take(&mut self, wanted: Wanted, rows: Vec<Job>, next: Option<String>) {
        let Wanted { number, cursor, touched } = wanted;
        // The list became another one meanwhile.
        if number > self.pages.len() {
            return;
        }
        let follows = self.pages.get(number + 1).is_some_and(|after| Some(&after.cursor) == next.as_ref());
        // What follows begins elsewhere now: it is read when somebody gets there.
        if !follows {
            self.pages.truncate(number + 1);
        }
        // What happened while it was on its way may not be in it.
        let page = Page { cursor, rows, next, stale: touched != self.touched };
        match self.pages.get_mut(number) {
            Some(known) => *known = page,
            None => self.pages.push(page),
        }
        self.drop_doubles(number);
    }

    /// A job that moved between two reads stands in two pages: where it was read last counts.
    fn drop_doubles(&mut self, number: usize) {
        let Some(read) = self.pages.get(number) else { return };
        let ids: std::collections::HashSet<String> = read.rows.iter().map(|job| job.id.clone()).collect();
        for (_, page) in self.pages.iter_mut().enumerate().filter(|(at, _)| *at != number) {
            page.rows.retain(|job| !ids.contains(&job.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    fn jobs(ids: &[&str]) -> Vec<Job> {
        ids.iter().map(|id| samples::queued(id)).collect()
    }

    fn wanted(number: usize, cursor: impl Into<String>) -> Wanted {
        Wanted { number, cursor: cursor.into(), touched: 0 }
    }

    fn ids(pages: &Pages) -> String {
        pages.rows().map(|job| job.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_what_is_looked_at_is_read() {
        let mut pages = Pages::default();
        let first = pages.wanted(0, 20).unwrap();
        assert_eq!((first.number, first.cursor.as_str()), (0, ""));
        let many: Vec<Job> = (0..100).map(|n| samples::queued(&format!("a{n}"))).collect();
        pages.take(first, many.clone(), Some("c1".into()));
        assert_eq!(pages.wanted(0, 20), None, "the end is far");
        let second = pages.wanted(60, 80).unwrap();
        assert_eq!((second.number, second.cursor.as_str()), (1, "c1"));
        pages.take(second, jobs(&["x", "y"]), None);
        assert_eq!((pages.len(), pages.has_more(), pages.wanted(90, 101)), (102, false, None));
        pages.touch();
        assert_eq!(pages.wanted(101, 101).unwrap().number, 1, "the first is not seen");
        assert_eq!(pages.wanted(0, 20).unwrap().number, 0);
    }

    #[test]
    fn what_follows_a_changed_page_is_read_anew() {
        let mut pages = Pages::default();
        pages.take(wanted(0, ""), jobs(&["a", "b"]), Some("c1".into()));
        pages.take(wanted(1, "c1"), jobs(&["c"]), None);
        assert_eq!(ids(&pages), "a b c");
        pages.take(wanted(0, ""), jobs(&["b", "c"]), Some("c2".into()));
        assert_eq!((ids(&pages).as_str(), pages.has_more()), ("b c", true));
        pages.take(wanted(7, "c9"), jobs(&["z"]), None);
        assert_eq!(ids(&pages), "b c", "of another list");
    }

    #[test]
    fn what_happens_while_a_page_is_read_is_read_too() {
        let mut pages = Pages::default();
        let first = pages.wanted(0, 20).unwrap();
        pages.touch();
        pages.take(first, jobs(&["a"]), None);
        let again = pages.wanted(0, 20).expect("it may be old");
        pages.take(again, jobs(&["a", "b"]), None);
        assert_eq!((ids(&pages).as_str(), pages.wanted(0, 20)), ("a b", None));
    }

    #[test]
    fn a_job_stands_in_one_place() {
        let mut pages = Pages::default();
        pages.take(wanted(0, ""), jobs(&["a", "b"]), Some("c1".into()));
        pages.take(wanted(1, "c1"), jobs(&["b", "c"]), None);
        assert_eq!(ids(&pages), "a b c");
    }
}
