//! Who may come in over TCP: a program with the token, or a browser with a key, which it gets for a link that works once.
//!
//! The token and the keys lie in files of mode 0600 in the home, as they are: whoever can read them can use the socket beside
//! them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nexus_api::paths::Home;
use nexus_api::web::BrowserKeys;
use nexus_node::{own_file, run_file};

use super::browsers::{Browsers, Found, Key, Row, name_of};
use super::proof::{KeyKind, derive_key};
use crate::{clock, digest};

/// How long a link that nobody opened is good.
const LINK_LASTS: Duration = Duration::from_secs(600);

/// Links that wait to be opened.
const MOST_LINKS: usize = 16;

/// Where an older nexus kept digests of cookies. They let nobody in any more.
const OLD_COOKIES_FILE: &str = "web.cookies";

pub struct Keys {
    token_file: PathBuf,
    file: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// Digest of the token. Compared instead of the token: how long that takes tells nothing of it.
    token: String,
    browsers: Browsers,
    links: Vec<(String, Instant)>,
}

/// A browser that showed a session or a link of one of its keys.
#[derive(Clone)]
pub struct BrowserCaller {
    pub browser: String,
    pub key_id: String,
    /// Address and challenge of the proof that the browser took. Further keys are made of them.
    pub at: String,
    pub challenge: String,
}

impl Keys {
    /// Made anew where there are none.
    pub fn open(home: &Home) -> std::io::Result<Keys> {
        let (token_file, file) = (home.web_token(), home.web_browsers());
        let token = match read(&token_file)?.map(|text| text.trim().to_string()).filter(|text| text.len() >= 32) {
            Some(token) => token,
            None => new_token(&token_file)?,
        };
        // It is not there but once, after an update.
        let _ = std::fs::remove_file(home.dir.join(OLD_COOKIES_FILE));
        // Keys that cannot be read let nobody in: a new link does.
        let browsers = read(&file)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let state = State { token: digest::hex(&token), browsers, links: vec![] };
        Ok(Keys { token_file, file, state: Mutex::new(state) })
    }

    /// The cookie by which an older nexus knew a browser, which may still send it.
    pub fn old_cookie_name(&self) -> String {
        format!("nexus_{}", &self.state().token[..8])
    }

    pub fn is_token(&self, text: &str) -> bool {
        digest::hex(text) == self.state().token
    }

    /// What lets one browser in.
    pub fn new_link(&self) -> std::io::Result<String> {
        let link = secret(16)?;
        let mut state = self.state();
        state.forget_old_links();
        if state.links.len() == MOST_LINKS {
            state.links.remove(0);
        }
        state.links.push((digest::hex(&link), Instant::now()));
        Ok(link)
    }

    /// A key for a link that nobody has used.
    pub fn enter(&self, link: &str, agent: &str) -> std::io::Result<Option<Key>> {
        let mut state = self.state();
        state.forget_old_links();
        let (digest_of_link, before) = (digest::hex(link), state.links.len());
        state.links.retain(|(known, _)| *known != digest_of_link);
        if state.links.len() == before {
            return Ok(None);
        }
        let key = Key { id: secret(KEY_ID_BYTES)?, key: secret(32)? };
        state.browsers.add(secret(3)?, name_of(agent), key.clone(), now_s());
        self.keep(&state.browsers)?;
        Ok(Some(key))
    }

    /// A key that is good now. `session`: how long that of a closed browser is.
    pub fn find(&self, key_id: &str, session: Duration) -> Option<Found> {
        self.pruned(session).browsers.find(key_id)
    }

    /// The browser took a proof whose challenge was made at this time.
    pub fn proved(&self, found: &Found, key_id: &str, made_s: u64) {
        let mut state = self.state();
        if state.browsers.proved(found, key_id, made_s) {
            // What cannot be written now is written with the next proof.
            let _ = self.keep(&state.browsers);
        }
    }

    /// Ids of the keys that the caller lacked: one of its own if it showed the stored one, a stored one if that has ended. The
    /// keys are derived from the one that the caller showed, and none is sent: a program that relays reads the answer.
    pub fn missing(&self, caller: &BrowserCaller) -> std::io::Result<BrowserKeys> {
        let mut state = self.state();
        let mut keys = BrowserKeys::default();
        // Revoked since the request was admitted.
        let Some(found) = state.browsers.find(&caller.key_id) else { return Ok(keys) };
        let derived = |kind, id: &str| {
            let key = derive_key(&found.key, kind, &caller.at, id, &caller.challenge);
            Key { id: id.into(), key }
        };
        if !state.browsers.is_tab(&caller.browser, &caller.key_id) {
            let id = secret(KEY_ID_BYTES)?;
            state.browsers.add_tab(&caller.browser, derived(KeyKind::Tab, &id), now_s());
            keys.tab_id = Some(id);
        }
        if !state.browsers.has_stored(&caller.browser) {
            let id = secret(KEY_ID_BYTES)?;
            state.browsers.set_stored(&caller.browser, derived(KeyKind::Stored, &id), now_s());
            keys.stored_id = Some(id);
        }
        if keys != BrowserKeys::default() {
            self.keep(&state.browsers)?;
        }
        Ok(keys)
    }

    pub fn rows(&self, session: Duration) -> Vec<Row> {
        self.pruned(session).browsers.rows(session.as_secs())
    }

    /// Says whether there was such a browser.
    pub fn revoke(&self, browser: &str) -> std::io::Result<bool> {
        let mut state = self.state();
        let was_there = state.browsers.remove(browser);
        self.keep(&state.browsers)?;
        Ok(was_there)
    }

    /// Nobody has a key, a link or the token any more. The file of the token has a new one.
    pub fn shut(&self) -> std::io::Result<()> {
        let mut state = self.state();
        (state.browsers, state.links) = (Browsers::default(), vec![]);
        self.keep(&state.browsers)?;
        state.token = digest::hex(&new_token(&self.token_file)?);
        Ok(())
    }

    /// The state without keys that have ended.
    fn pruned(&self, session: Duration) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if state.browsers.prune(session.as_secs(), now_s()) {
            // What cannot be written now has ended all the same, and is written with the next change.
            let _ = self.keep(&state.browsers);
        }
        state
    }

    fn keep(&self, browsers: &Browsers) -> std::io::Result<()> {
        write(&self.file, &serde_json::to_string(browsers).expect("keys are plain text"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the keys")
    }
}

/// Random bytes of a key's id. The page takes no id of another length (`web/src/api/session.ts`).
const KEY_ID_BYTES: usize = 8;

fn new_token(file: &Path) -> std::io::Result<String> {
    let token = secret(32)?;
    write(file, &format!("{token}\n"))?;
    Ok(token)
}

/// Seconds of the wall clock: what is stored has to mean the same after a reboot.
pub fn now_s() -> u64 {
    u64::try_from(clock::now().0 / 1000).unwrap_or(0)
}

impl State {
    fn forget_old_links(&mut self) {
        self.links.retain(|(_, made)| made.elapsed() < LINK_LASTS);
    }
}

fn secret(bytes: usize) -> std::io::Result<String> {
    let mut chance = vec![0; bytes];
    getrandom::fill(&mut chance).map_err(std::io::Error::other)?;
    Ok(digest::in_hex(&chance))
}

/// No file of keys is longer.
const MAX_BYTES: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<Option<String>> {
    match own_file::read_text(path, MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file of mode 0600, whole or not at all.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // Of a name of its own: web.json, web.token and web.browsers are written at the same time.
    let mut beside = path.as_os_str().to_os_string();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    let mut file = run_file::create_new(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
pub mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nexus_api::paths::Surroundings;

    use super::*;

    pub fn home(dir: &Path) -> Home {
        let around = Surroundings {
            nexus_home: Some(dir.as_os_str().to_os_string()),
            home: None,
            runtime_dir: None,
            hostname: "box".into(),
        };
        Home::find(&around, |_| false).unwrap()
    }

    const SESSION: Duration = Duration::from_secs(12 * 3600);

    fn caller(keys: &Keys, key: &Key) -> BrowserCaller {
        let found = keys.find(&key.id, SESSION).expect("it is in");
        assert_eq!(found.key, key.key);
        BrowserCaller { browser: found.browser, key_id: key.id.clone(), at: AT.into(), challenge: "c".into() }
    }

    const AT: &str = "127.0.0.1:4004";

    /// The browser's side: the key that it computes for an id which it was told.
    fn derived(of: &Key, kind: KeyKind, id: Option<String>) -> Key {
        let id = id.expect("a new key");
        Key { key: derive_key(&of.key, kind, AT, &id, "c"), id }
    }

    /// Time passes for this thread alone.
    fn at(seconds: i64) {
        crate::pretend::set(nexus_core::time::Time(seconds * 1000), Duration::ZERO, 0);
    }

    #[test]
    fn a_link_lets_one_in_and_its_key_outlives_the_service() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(&home(dir.path())).unwrap();
        assert_eq!(keys.enter("guess", "").unwrap(), None);
        let link = keys.new_link().unwrap();
        let key = keys.enter(&link, "Firefox/1 (Linux)").unwrap().unwrap();
        assert_eq!(keys.enter(&link, "").unwrap(), None, "once");
        assert!(keys.find(&link, SESSION).is_none() && !keys.is_token(&key.key));
        let next = Keys::open(&home(dir.path())).unwrap();
        caller(&next, &key);
        assert_eq!(next.rows(SESSION)[0].name, "Firefox on Linux");
        let token = || std::fs::read_to_string(home(dir.path()).web_token()).unwrap();
        let before = token();
        assert!(next.is_token(before.trim()));
        next.shut().unwrap();
        assert!(next.is_token(token().trim()) && !next.is_token(before.trim()), "the token is the same");
        assert!(next.find(&key.id, SESSION).is_none());
        assert!(Keys::open(&home(dir.path())).unwrap().find(&key.id, SESSION).is_none());
    }

    #[test]
    fn a_closed_browser_ends_and_an_open_tab_gets_it_a_new_key() {
        at(1000);
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(&home(dir.path())).unwrap();
        let stored = keys.enter(&keys.new_link().unwrap(), "").unwrap().unwrap();
        let ids = keys.missing(&caller(&keys, &stored)).unwrap();
        assert_eq!(ids.stored_id, None, "the stored one is good");
        let tab = derived(&stored, KeyKind::Tab, ids.tab_id);
        assert_eq!(keys.missing(&caller(&keys, &tab)).unwrap(), BrowserKeys::default());
        at(1001 + 12 * 3600);
        assert!(keys.find(&stored.id, SESSION).is_none());
        assert!(keys.find(&stored.id, Duration::from_secs(30 * 24 * 3600)).is_none(), "what has ended stays so");
        let keys = Keys::open(&home(dir.path())).unwrap();
        assert!(keys.find(&stored.id, SESSION).is_none(), "after a restart too");
        let found = keys.find(&tab.id, SESSION).unwrap();
        keys.proved(&found, &tab.id, now_s());
        let next = derived(&tab, KeyKind::Stored, keys.missing(&caller(&keys, &tab)).unwrap().stored_id);
        assert_ne!(next.id, stored.id);
        caller(&keys, &next);
        assert_eq!(Keys::open(&home(dir.path())).unwrap().find(&next.id, SESSION).unwrap().browser, found.browser);
        assert!(keys.revoke(&found.browser).unwrap() && !keys.revoke(&found.browser).unwrap());
        assert!(keys.find(&tab.id, SESSION).is_none() && keys.find(&next.id, SESSION).is_none());
        crate::pretend::clear();
    }

    #[test]
    fn files_that_differ_in_their_extension_are_written_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for name in ["web.json", "web.browsers"] {
                let path = dir.path().join(name);
                scope.spawn(move || {
                    for _ in 0..50 {
                        write(&path, name).unwrap();
                        assert_eq!(std::fs::read_to_string(&path).unwrap(), name);
                    }
                });
            }
        });
    }

    #[test]
    fn others_can_read_nothing_and_cookies_of_an_older_nexus_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(dir.path());
        let old = home.dir.join(OLD_COOKIES_FILE);
        std::fs::write(&old, r#"{"digests":["00"]}"#).unwrap();
        let keys = Keys::open(&home).unwrap();
        assert!(!old.exists());
        keys.enter(&keys.new_link().unwrap(), "").unwrap().unwrap();
        for file in [home.web_token(), home.web_browsers()] {
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let token = std::fs::read_to_string(home.web_token()).unwrap();
        assert!(keys.is_token(token.trim()) && !keys.is_token(""));
    }
}
