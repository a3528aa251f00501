//! Message authentication codes by which service and browser prove to each other that they have the same key, which neither
//! of them sends. `docs/design/0015-proof-of-the-service.md` says why; `web/src/api/session.ts` is the browser's side.
//!
//! | MAC of | made by | proves |
//! |---|---|---|
//! | `nexus service`, address, nonce, challenge | service | that it is the one which made the key |
//! | `nexus session`, address, challenge | browser | who it is; sent with each request |
//! | `nexus link`, address, challenge, path | browser | the same for one path, where the browser itself sends the request |
//!
//! A further key of a browser is a MAC too, with a label of its own ([`derive_key`]): it is computed at both ends and never sent.

use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use crate::digest;

/// How long a session is good after the challenge it answers, in seconds.
const SESSION_LIFETIME_S: u64 = 3600;

/// The same of a link, which the browser's history keeps.
const LINK_LIFETIME_S: u64 = 60;

/// Characters of the parts of a challenge: the time it was made, and the service's own MAC of that.
const TIME_CHARS: usize = 16;
const MAC_CHARS: usize = 64;

/// Characters of a browser's nonce: 16 bytes.
const NONCE_CHARS: usize = 32;

/// What one listener makes challenges with. Nothing of it is stored: whoever takes the port after the listener was closed
/// receives only answers to challenges that no service knows any more.
pub struct Prover {
    /// Address of the listener, as in `127.0.0.1:4004`. A proof relayed from another address does not match.
    at: String,
    secret: Key,
}

/// What a browser shows: `ID.CHALLENGE.MAC`.
pub struct Shown<'a> {
    pub key_id: &'a str,
    pub challenge: &'a str,
    mac: &'a str,
}

impl<'a> Shown<'a> {
    pub fn parse(text: &'a str) -> Option<Shown<'a>> {
        let (key_id, rest) = text.split_once('.')?;
        let (challenge, mac) = rest.split_once('.')?;
        Some(Shown { key_id, challenge, mac })
    }
}

impl Prover {
    pub fn new(at: String) -> std::io::Result<Prover> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(Prover { at, secret: Key::new(HMAC_SHA256, &secret) })
    }

    pub fn at(&self) -> &str {
        &self.at
    }

    pub fn challenge(&self, now_s: u64) -> String {
        let time = format!("{now_s:016x}");
        let mac = digest::in_hex(sign(&self.secret, time.as_bytes()).as_ref());
        time + &mac
    }

    /// The service's side. None: the nonce has not the form of one.
    pub fn prove(&self, key: &str, nonce: &str, challenge: &str) -> Option<String> {
        let is_nonce = nonce.len() == NONCE_CHARS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_nonce.then(|| mac(key, &["nexus service", &self.at, nonce, challenge]))
    }

    /// When the challenge of this session was made, if it is one of `key`.
    pub fn check_session(&self, shown: &Shown, key: &str, now_s: u64) -> Option<u64> {
        let made_s = self.made_within(shown.challenge, SESSION_LIFETIME_S, now_s)?;
        is_mac(key, &["nexus session", &self.at, shown.challenge], shown.mac).then_some(made_s)
    }

    /// The same of a link to `path`, which is a path and its query.
    pub fn check_link(&self, shown: &Shown, key: &str, path: &str, now_s: u64) -> Option<u64> {
        let made_s = self.made_within(shown.challenge, LINK_LIFETIME_S, now_s)?;
        is_mac(key, &["nexus link", &self.at, shown.challenge, path], shown.mac).then_some(made_s)
    }

    /// When this listener made the challenge.
    fn made_within(&self, challenge: &str, lifetime_s: u64, now_s: u64) -> Option<u64> {
        if challenge.len() != TIME_CHARS + MAC_CHARS || !challenge.is_ascii() {
            return None;
        }
        let (time, mac) = challenge.split_at(TIME_CHARS);
        verify(&self.secret, time.as_bytes(), &from_hex(mac)?).ok()?;
        let made_s = u64::from_str_radix(time, 16).ok()?;
        // A clock that was set back makes it young; one that was set forward ends it, and the browser asks anew.
        (now_s.saturating_sub(made_s) <= lifetime_s).then_some(made_s)
    }
}

/// What a further key of a browser is for. Each has a label of its own, so that no MAC of one kind is a key of the other.
#[derive(Clone, Copy)]
pub enum KeyKind {
    Tab,
    Stored,
}

/// A further key of a browser, made of the key `of` that it has. A program that relays the answer reads the id alone, and a
/// session of `of` is not enough to compute the key.
pub fn derive_key(of: &str, kind: KeyKind, at: &str, id: &str, challenge: &str) -> String {
    let label = match kind {
        KeyKind::Tab => "nexus tab key",
        KeyKind::Stored => "nexus stored key",
    };
    mac(of, &[label, at, id, challenge])
}

fn mac(key: &str, parts: &[&str]) -> String {
    digest::in_hex(sign(&Key::new(HMAC_SHA256, key.as_bytes()), parts.join("\n").as_bytes()).as_ref())
}

/// Compared in constant time.
fn is_mac(key: &str, parts: &[&str], shown: &str) -> bool {
    let key = Key::new(HMAC_SHA256, key.as_bytes());
    from_hex(shown).is_some_and(|mac| verify(&key, parts.join("\n").as_bytes(), &mac).is_ok())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

fn digit(letter: u8) -> Option<u8> {
    let value = char::from(letter).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const NONCE: &str = "00112233445566778899aabbccddeeff";

    /// A browser's session of a key.
    pub fn session(key_id: &str, key: &str, at: &str, challenge: &str) -> String {
        format!("{key_id}.{challenge}.{}", mac(key, &["nexus session", at, challenge]))
    }

    pub fn link_mac(key: &str, at: &str, challenge: &str, path: &str) -> String {
        mac(key, &["nexus link", at, challenge, path])
    }

    #[test]
    fn a_proof_holds_for_its_key_address_and_nonce_alone() {
        let prover = Prover::new("127.0.0.1:4004".into()).unwrap();
        let challenge = prover.challenge(1000);
        let proof = prover.prove("key", NONCE, &challenge).unwrap();
        assert_eq!(proof, mac("key", &["nexus service", "127.0.0.1:4004", NONCE, &challenge]));
        // By `openssl dgst -sha256 -hmac key`; web/tests/unit/hmac.spec.ts has it too.
        let known = "93a026aca2d0e394b44c9a130d935dac4449721f627f2b67e4d83a10699a568d";
        assert_eq!(prover.prove("key", NONCE, "c").unwrap(), known);
        assert_ne!(proof, prover.prove("kez", NONCE, &challenge).unwrap());
        let elsewhere = Prover { at: "127.0.0.1:4005".into(), secret: prover.secret.clone() };
        assert_ne!(proof, elsewhere.prove("key", NONCE, &challenge).unwrap());
        for bad in ["", "00", "00112233445566778899aabbccddeef\n", &"0".repeat(64)] {
            assert_eq!(prover.prove("key", bad, &challenge), None, "{bad:?}");
        }
    }

    #[test]
    fn a_derived_key_is_what_the_page_computes() {
        let derive = |kind| derive_key("key", kind, "127.0.0.1:4004", "00112233", "c");
        // By `openssl dgst -sha256 -hmac key`; web/tests/unit/hmac.spec.ts has them too.
        assert_eq!(derive(KeyKind::Tab), "c49a17ada90ada2b1821382eb6bc79333b3cb95b90b51208f37d7096b9131991");
        assert_eq!(derive(KeyKind::Stored), "5d877349b2374c915722b0b9f9236e74ffed0cbe7c1b1587f4ac5cddd0981fd0");
    }

    #[test]
    fn a_session_ends_with_its_listener_its_key_and_its_time() {
        let prover = Prover::new("127.0.0.1:4004".into()).unwrap();
        let challenge = prover.challenge(1000);
        let text = session("id", "key", prover.at(), &challenge);
        let shown = Shown::parse(&text).unwrap();
        assert_eq!(shown.key_id, "id");
        assert_eq!(prover.check_session(&shown, "key", 1000 + SESSION_LIFETIME_S), Some(1000));
        assert_eq!(prover.check_session(&shown, "key", 1001 + SESSION_LIFETIME_S), None, "an hour old");
        assert_eq!(prover.check_session(&shown, "key", 0), Some(1000), "the clock was set back");
        assert_eq!(prover.check_session(&shown, "other", 1000), None);
        let next = Prover::new("127.0.0.1:4004".into()).unwrap();
        assert_eq!(next.check_session(&shown, "key", 1000), None, "the next listener at the same place");
        let forged = session("id", "key", prover.at(), &format!("{:016x}{}", 1000, "0".repeat(64)));
        assert_eq!(prover.check_session(&Shown::parse(&forged).unwrap(), "key", 1000), None, "an own challenge");
    }

    #[test]
    fn a_link_is_for_one_path_and_no_session() {
        let prover = Prover::new("127.0.0.1:4004".into()).unwrap();
        let challenge = prover.challenge(1000);
        let text = format!("id.{challenge}.{}", mac("key", &["nexus link", prover.at(), &challenge, "/v1/a?b=c"]));
        let shown = Shown::parse(&text).unwrap();
        assert_eq!(prover.check_link(&shown, "key", "/v1/a?b=c", 1060), Some(1000));
        assert_eq!(prover.check_link(&shown, "key", "/v1/a?b=d", 1000), None);
        assert_eq!(prover.check_link(&shown, "key", "/v1/a?b=c", 1061), None);
        assert_eq!(prover.check_session(&shown, "key", 1000), None);
    }

    #[test]
    fn what_is_no_session_is_refused() {
        let prover = Prover::new("127.0.0.1:4004".into()).unwrap();
        for text in ["", "a", "a.b", "..", "a.b.c", "é.ü.ß", &format!("a.{}.{}", "é".repeat(40), "zz")] {
            let accepted = Shown::parse(text).and_then(|shown| prover.check_session(&shown, "key", 0));
            assert_eq!(accepted, None, "{text}");
        }
    }
}
