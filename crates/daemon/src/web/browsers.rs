//! The browsers that were let in and their keys, as they are stored in `web.browsers`. When each key ends is decided here.
//!
//! A browser has one stored key, which lies in its storage and ends `web.session` after the browser's last proof, and a key for
//! each open tab, which is in that tab's memory alone and lasts much longer: a tab that was open over a weekend comes back.
//!
//! All keys of a browser end `BROWSER_LIFETIME_S` after its link was opened. Proofs do not extend this time: a thief of a key
//! makes proofs as the browser does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Browsers at once; the one with the oldest proof leaves for the next.
const MAX_BROWSERS: usize = 64;

/// Tabs of one browser at once; the same holds for them.
const MAX_TABS: usize = 32;

/// Time from a browser's link to the end of all its keys, in seconds: 30 days.
pub const BROWSER_LIFETIME_S: u64 = 30 * 24 * 3600;

/// A proof is written down if it is so much later than the one that was: the file is not written for each request.
const PROOF_STEP_S: u64 = 60;

/// By browser id.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Browsers {
    browsers: BTreeMap<String, Browser>,
}

#[derive(Serialize, Deserialize)]
struct Browser {
    /// What it calls itself, in short: `Firefox on Linux`.
    name: String,
    added_s: u64,
    /// The last time at which this browser took a proof of the service.
    proved_s: u64,
    /// None once it has ended: it does not become good again.
    stored: Option<Key>,
    /// By key id.
    #[serde(default)]
    tabs: BTreeMap<String, Tab>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub id: String,
    pub key: String,
}

#[derive(Serialize, Deserialize)]
struct Tab {
    key: String,
    proved_s: u64,
}

/// A key that is good now.
pub struct Found {
    pub browser: String,
    pub key: String,
}

/// A row of `nexus web browsers`.
pub struct Row {
    pub id: String,
    pub name: String,
    pub added_s: u64,
    pub proved_s: u64,
    /// When its stored key ends; none if that has ended.
    pub ends_s: Option<u64>,
    pub tabs: usize,
}

impl Browsers {
    pub fn add(&mut self, id: String, name: String, stored: Key, now_s: u64) {
        while self.browsers.len() >= MAX_BROWSERS {
            let oldest = self.browsers.iter().min_by_key(|(_, browser)| browser.proved_s).map(|(id, _)| id.clone());
            self.browsers.remove(&oldest.expect("there are some"));
        }
        let browser = Browser { name, added_s: now_s, proved_s: now_s, stored: Some(stored), tabs: BTreeMap::new() };
        self.browsers.insert(id, browser);
    }

    /// Forgets what has ended. Says whether there was any.
    pub fn prune(&mut self, session_s: u64, now_s: u64) -> bool {
        let before = self.browsers.len();
        self.browsers.retain(|_, browser| now_s.saturating_sub(browser.added_s) <= BROWSER_LIFETIME_S);
        let mut changed = self.browsers.len() < before;
        for browser in self.browsers.values_mut() {
            if now_s.saturating_sub(browser.proved_s) > session_s {
                changed |= browser.stored.take().is_some();
            }
        }
        self.browsers.retain(|_, browser| browser.stored.is_some() || !browser.tabs.is_empty());
        changed
    }

    pub fn find(&self, key_id: &str) -> Option<Found> {
        self.browsers.iter().find_map(|(id, browser)| {
            let stored = browser.stored.as_ref().filter(|stored| stored.id == key_id).map(|stored| &stored.key);
            let key = stored.or_else(|| browser.tabs.get(key_id).map(|tab| &tab.key))?;
            Some(Found { browser: id.clone(), key: key.clone() })
        })
    }

    /// The browser showed that it took the proof made at `made_s`. Says whether that is worth writing down.
    pub fn proved(&mut self, found: &Found, key_id: &str, made_s: u64) -> bool {
        let Some(browser) = self.browsers.get_mut(&found.browser) else { return false };
        let tab = browser.tabs.get_mut(key_id).map(|tab| &mut tab.proved_s);
        let mut is_later = false;
        for proved_s in tab.into_iter().chain([&mut browser.proved_s]) {
            if made_s > *proved_s + PROOF_STEP_S {
                *proved_s = made_s;
                is_later = true;
            }
        }
        is_later
    }

    pub fn is_tab(&self, browser: &str, key_id: &str) -> bool {
        self.browsers.get(browser).is_some_and(|browser| browser.tabs.contains_key(key_id))
    }

    pub fn has_stored(&self, browser: &str) -> bool {
        self.browsers.get(browser).is_some_and(|browser| browser.stored.is_some())
    }

    pub fn set_stored(&mut self, browser: &str, key: Key, now_s: u64) {
        if let Some(browser) = self.browsers.get_mut(browser) {
            browser.stored = Some(key);
            browser.proved_s = browser.proved_s.max(now_s);
        }
    }

    pub fn add_tab(&mut self, browser: &str, key: Key, now_s: u64) {
        let Some(browser) = self.browsers.get_mut(browser) else { return };
        while browser.tabs.len() >= MAX_TABS {
            let oldest = browser.tabs.iter().min_by_key(|(_, tab)| tab.proved_s).map(|(id, _)| id.clone());
            browser.tabs.remove(&oldest.expect("there are some"));
        }
        browser.tabs.insert(key.id, Tab { key: key.key, proved_s: now_s });
    }

    pub fn rows(&self, session_s: u64) -> Vec<Row> {
        let row = |(id, browser): (&String, &Browser)| {
            let session_ends_s = browser.proved_s.saturating_add(session_s);
            let stored_ends_s = session_ends_s.min(browser.added_s.saturating_add(BROWSER_LIFETIME_S));
            Row {
                id: id.clone(),
                name: browser.name.clone(),
                added_s: browser.added_s,
                proved_s: browser.proved_s,
                ends_s: browser.stored.is_some().then_some(stored_ends_s),
                tabs: browser.tabs.len(),
            }
        };
        self.browsers.iter().map(row).collect()
    }

    /// Says whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        self.browsers.remove(id).is_some()
    }
}

/// A browser's name in short, from the header `User-Agent`, of which nothing is believed.
pub fn name_of(agent: &str) -> String {
    let first =
        |words: &[(&str, &'static str)]| words.iter().find(|(word, _)| agent.contains(word)).map(|(_, name)| *name);
    // Edge and Opera call themselves Chrome too, and Chrome calls itself Safari.
    let program = first(&[
        ("Firefox/", "Firefox"),
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = first(&[
        ("Windows", "Windows"),
        ("Android", "Android"),
        ("iPhone", "iOS"),
        ("iPad", "iOS"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (program, system) {
        (Some(program), Some(system)) => format!("{program} on {system}"),
        (Some(program), None) => program.into(),
        (None, _) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 24 * 3600;
    const SESSION_S: u64 = DAY_S / 2;

    fn key(id: &str) -> Key {
        Key { id: id.into(), key: format!("secret of {id}") }
    }

    fn one() -> Browsers {
        let mut browsers = Browsers::default();
        browsers.add("b".into(), "Firefox".into(), key("stored"), 1000);
        browsers
    }

    #[test]
    fn a_closed_browser_is_in_until_the_session_after_its_last_proof() {
        let mut browsers = one();
        browsers.prune(SESSION_S, 1000 + SESSION_S);
        let found = browsers.find("stored").expect("it has not ended");
        assert_eq!((found.browser.as_str(), found.key.as_str()), ("b", "secret of stored"));
        assert!(browsers.proved(&found, "stored", 5000));
        assert!(!browsers.proved(&found, "stored", 5000 + PROOF_STEP_S), "soon after is not written down");
        assert!(!browsers.proved(&found, "stored", 0), "an older proof");
        browsers.prune(SESSION_S, 5000 + SESSION_S);
        assert!(browsers.find("stored").is_some(), "the proof made it longer");
        browsers.prune(SESSION_S, 5001 + SESSION_S);
        assert!(browsers.find("stored").is_none());
        assert!(browsers.rows(SESSION_S).is_empty(), "nothing is left of it");
    }

    #[test]
    fn an_open_tab_outlives_the_session_and_what_has_ended_stays_so() {
        let mut browsers = one();
        browsers.add_tab("b", key("tab"), 1000);
        browsers.prune(SESSION_S, 1000 + 3 * DAY_S);
        assert!(browsers.find("stored").is_none());
        let found = browsers.find("tab").expect("the tab is in");
        browsers.proved(&found, "tab", 1000 + 3 * DAY_S);
        browsers.prune(SESSION_S, 1000 + 3 * DAY_S);
        assert!(browsers.find("stored").is_none(), "the tab's proof does not bring it back");
        assert!(browsers.is_tab("b", "tab") && !browsers.has_stored("b"));
        browsers.set_stored("b", key("next"), 1000 + 3 * DAY_S);
        assert!(browsers.find("next").is_some());
    }

    #[test]
    fn all_keys_of_a_browser_end_30_days_after_its_link_whatever_proofs_it_took() {
        let mut browsers = one();
        browsers.add_tab("b", key("tab"), 1000);
        let end_s = 1000 + BROWSER_LIFETIME_S;
        for at_s in (1000..=end_s).step_by(SESSION_S as usize / 2) {
            assert!(!browsers.prune(SESSION_S, at_s), "{at_s}");
            for id in ["stored", "tab"] {
                browsers.proved(&browsers.find(id).expect("the key is good"), id, at_s);
            }
        }
        assert_eq!(browsers.rows(SESSION_S)[0].ends_s, Some(end_s));
        browsers.prune(SESSION_S, end_s);
        assert!(browsers.find("stored").is_some() && browsers.find("tab").is_some());
        assert!(browsers.prune(SESSION_S, end_s + 1), "worth writing down");
        assert!(browsers.find("stored").is_none() && browsers.find("tab").is_none());
        assert!(browsers.rows(SESSION_S).is_empty());
    }

    #[test]
    fn the_browser_and_the_tab_with_the_oldest_proof_leave_first() {
        let mut browsers = Browsers::default();
        for number in 0..=MAX_BROWSERS {
            browsers.add(format!("b{number}"), String::new(), key(&format!("k{number}")), number as u64);
        }
        assert!(browsers.find("k0").is_none() && browsers.find("k1").is_some());
        for number in 0..=MAX_TABS {
            browsers.add_tab("b1", key(&format!("t{number}")), number as u64);
        }
        assert!(browsers.find("t0").is_none() && browsers.find("t1").is_some());
        assert!(browsers.remove("b1") && !browsers.remove("b1"));
        assert!(browsers.find("t1").is_none(), "its tabs are out too");
    }

    #[test]
    fn names_are_short_and_made_of_known_words() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
        for (agent, name) in [
            (chrome, "Chrome on Linux"),
            ("Mozilla/5.0 (Windows NT 10.0; rv:133.0) Gecko/20100101 Firefox/133.0", "Firefox on Windows"),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/18 Safari/605", "Safari on macOS"),
            ("curl/8.5\u{1b}[31m", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(name_of(agent), name, "{agent}");
        }
    }
}
