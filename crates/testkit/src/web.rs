//! The page's address, without a browser: for requests that no browser would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::Nexus;

/// A service's way in over TCP.
pub struct Web {
    /// `127.0.0.1:4004`
    pub address: String,
    /// Works once.
    pub link: String,
    pub token: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON: {error}: {}", self.body))
    }
}

/// What a browser does that opened a link: it has a key, and asks the service for a proof before it shows a session.
#[derive(Clone, Debug)]
pub struct Browser {
    pub id: String,
    pub key: String,
    /// Where the service listened when it made the key.
    pub at: String,
}

impl Browser {
    /// Of one of the keys in an answer.
    pub fn of_key(key: &Value, at: &str) -> Browser {
        let text = |name: &str| key[name].as_str().unwrap_or_else(|| panic!("no {name} in {key}")).to_string();
        Browser { id: text("id"), key: text("key"), at: at.into() }
    }

    /// The session's header. Otherwise the status of the refusal, or 0 if the proof is wrong.
    #[track_caller]
    pub fn session(&self, web: &Web) -> Result<String, u16> {
        let nonce = "00112233445566778899aabbccddeeff";
        let path = format!("/v1/web/proof?key={}&nonce={nonce}", self.id);
        let answer = web.ask("GET", &path, &[("host", &web.address)], "");
        if answer.status != 200 {
            return Err(answer.status);
        }
        let challenge = answer.json()["challenge"].as_str().expect("a challenge").to_string();
        let expected = self.mac(&["nexus service", &self.at, nonce, &challenge]);
        if answer.json()["proof"] != *expected {
            return Err(0);
        }
        Ok(format!("Nexus {}.{challenge}.{}", self.id, self.mac(&["nexus session", &self.at, &challenge])))
    }

    /// The further key, `tab` or `stored`, whose id the service told for this session.
    #[track_caller]
    pub fn derived(&self, kind: &str, id: &Value, session: &str) -> Browser {
        let id = id.as_str().unwrap_or_else(|| panic!("no id of a {kind} key: {id}"));
        let challenge = session.split('.').nth(1).expect("a session");
        let key = self.mac(&[&format!("nexus {kind} key"), &self.at, id, challenge]);
        Browser { id: id.into(), key, at: self.at.clone() }
    }

    fn mac(&self, parts: &[&str]) -> String {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.key.as_bytes());
        let mac = ring::hmac::sign(&key, parts.join("\n").as_bytes());
        mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// In hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Web {
    /// A browser that opened this link; none if the link does not work.
    #[track_caller]
    pub fn enter(&self, link: &str) -> Option<Browser> {
        let path = link.strip_prefix(&format!("http://{}", self.address)).expect("a link to this address");
        let answer = self.ask("GET", path, &[("host", &self.address), ("user-agent", "Firefox/1 (Linux)")], "");
        assert_eq!(answer.header("set-cookie"), None, "{answer:?}");
        let (_, given) = answer.body.split_once("<meta name=\"nexus-key\" content='")?;
        let key: Value = serde_json::from_str(given.split('\'').next()?).expect("a key");
        Some(Browser::of_key(&key, key["at"].as_str().expect("an address")))
    }

    /// Turns the page on, at any port that is free.
    #[track_caller]
    pub fn of(nexus: &Nexus) -> Web {
        let web = nexus.json(&["web", "--no-open", "--port", "0", "--json"]);
        let token = std::fs::read_to_string(nexus.home().join("web.token")).expect("a token for programs");
        Web {
            address: web["address"].as_str().expect("an address").into(),
            link: web["link"].as_str().expect("a link").into(),
            token: token.trim().into(),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the page is served");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time can be set");
        stream
    }

    /// With these headers and no others but the length. The connection is closed behind it.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.connect();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        // Who is refused at once may be cut off while it still talks.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        read(&bytes)
    }

    /// As a program does that has the token.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.known("GET", path, "")
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.known("POST", path, &body.to_string())
    }

    #[track_caller]
    fn known(&self, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.ask(method, path, &[("host", &self.address), ("authorization", &bearer)], body)
    }
}

#[track_caller]
fn read(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()));
    Answer { status, headers: lines.filter_map(header).collect(), body: body.to_string() }
}
