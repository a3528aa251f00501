//! The service's socket, without the client: for requests that the client would never send.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Sends a request and reads the answer: status and body.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "for tests alone")]
pub fn request(socket: &Path, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("the service listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: nexus\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no HTTP: {answer}"));
    (status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_string())
}
