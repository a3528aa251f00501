//! Who may come in over TCP: whoever knows the token, or has a cookie, which one gets for a link that works once.
//!
//! On disk lie the token, that programs read there, and of cookies only their digests: who reads that file can do no
//! more than who has the socket beside it.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nexus_api::paths::Home;
use serde::{Deserialize, Serialize};

use crate::digest;

/// How long a link that nobody opened is good.
const LINK_LASTS: Duration = Duration::from_secs(600);

/// Browsers that are in at once; the one that came first has to leave for the next.
const MOST_BROWSERS: usize = 64;

/// Links that wait to be opened.
const MOST_LINKS: usize = 16;

pub struct Keys {
    cookies_file: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// Digest of the token. Compared instead of the token: how long that takes tells nothing of it.
    token: String,
    /// Of the cookies, the oldest first.
    cookies: Cookies,
    links: Vec<(String, Instant)>,
}

#[derive(Default, Serialize, Deserialize)]
struct Cookies {
    digests: Vec<String>,
}

impl Keys {
    /// Made anew where there are none.
    pub fn open(home: &Home) -> std::io::Result<Keys> {
        let (token_file, cookies_file) = (home.web_token(), home.web_cookies());
        let token = match read(&token_file)?.map(|text| text.trim().to_string()).filter(|text| text.len() >= 32) {
            Some(token) => token,
            None => {
                let token = secret(32)?;
                write(&token_file, &format!("{token}\n"))?;
                token
            }
        };
        // Cookies that cannot be read let nobody in: a new link does.
        let cookies = read(&cookies_file)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let state = State { token: digest::hex(&token), cookies, links: vec![] };
        Ok(Keys { cookies_file, state: Mutex::new(state) })
    }

    /// A browser keeps one for each address and not for each port: services beside each other need names that differ.
    pub fn cookie_name(&self) -> String {
        format!("nexus_{}", &self.state().token[..8])
    }

    pub fn is_token(&self, text: &str) -> bool {
        digest::hex(text) == self.state().token
    }

    pub fn is_cookie(&self, text: &str) -> bool {
        self.state().cookies.digests.contains(&digest::hex(text))
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

    /// A cookie for a link that nobody has used.
    pub fn enter(&self, link: &str) -> std::io::Result<Option<String>> {
        let mut state = self.state();
        state.forget_old_links();
        let (digest_of_link, before) = (digest::hex(link), state.links.len());
        state.links.retain(|(known, _)| *known != digest_of_link);
        if state.links.len() == before {
            return Ok(None);
        }
        let cookie = secret(32)?;
        state.cookies.digests.push(digest::hex(&cookie));
        let surplus = state.cookies.digests.len().saturating_sub(MOST_BROWSERS);
        state.cookies.digests.drain(..surplus);
        self.keep(&state.cookies)?;
        Ok(Some(cookie))
    }

    /// Nobody has a cookie or a link any more.
    pub fn shut(&self) -> std::io::Result<()> {
        let mut state = self.state();
        (state.cookies, state.links) = (Cookies::default(), vec![]);
        self.keep(&state.cookies)
    }

    fn keep(&self, cookies: &Cookies) -> std::io::Result<()> {
        write(&self.cookies_file, &serde_json::to_string(cookies).expect("digests are plain text"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the keys")
    }
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

fn read(path: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file of mode 0600, whole or not at all.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
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
            user_id: 0,
            hostname: "box".into(),
        };
        Home::find(&around, |_| false).unwrap()
    }

    #[test]
    fn a_link_lets_one_in_and_the_cookie_outlives_the_service() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(&home(dir.path())).unwrap();
        assert_eq!(keys.enter("guess").unwrap(), None);
        let link = keys.new_link().unwrap();
        let cookie = keys.enter(&link).unwrap().unwrap();
        assert_eq!(keys.enter(&link).unwrap(), None, "once");
        assert!(keys.is_cookie(&cookie) && !keys.is_cookie(&link) && !keys.is_token(&cookie));
        let next = Keys::open(&home(dir.path())).unwrap();
        assert!(next.is_cookie(&cookie));
        assert_eq!(next.cookie_name(), keys.cookie_name());
        next.shut().unwrap();
        assert!(!next.is_cookie(&cookie));
    }

    #[test]
    fn nothing_on_disk_is_a_cookie_and_others_cannot_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(dir.path());
        let keys = Keys::open(&home).unwrap();
        let cookie = keys.enter(&keys.new_link().unwrap()).unwrap().unwrap();
        for file in [home.web_token(), home.web_cookies()] {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains(&cookie));
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let token = std::fs::read_to_string(home.web_token()).unwrap();
        assert!(keys.is_token(token.trim()) && !keys.is_token(""));
    }

    #[test]
    fn the_browser_that_came_first_leaves_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::open(&home(dir.path())).unwrap();
        let enter = || keys.enter(&keys.new_link().unwrap()).unwrap().unwrap();
        let first = enter();
        let others: Vec<String> = (0..MOST_BROWSERS).map(|_| enter()).collect();
        assert!(!keys.is_cookie(&first));
        assert!(others.iter().all(|cookie| keys.is_cookie(cookie)));
    }
}
