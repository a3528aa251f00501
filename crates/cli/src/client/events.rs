//! Reads server-sent events.

use nexus_api::events::Event;

use super::http::Body;
use crate::error::CliError;

/// What the service tells, as it happens.
pub struct Events {
    body: Body,
    lines: Lines,
}

impl Events {
    pub(super) fn new(body: Body) -> Events {
        Events { body, lines: Lines::default() }
    }

    /// The next event; none when the service is gone.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(data) = self.lines.next_data() {
                // An event of a newer service that this client does not know tells it nothing.
                if let Ok(event) = serde_json::from_str(&data) {
                    return Some(event);
                }
            }
            // A connection that breaks off says the same as one that ends.
            let bytes: Result<_, CliError> = self.body.next().await;
            self.lines.push(&bytes.ok()??);
        }
    }
}

/// Puts lines together from bytes, and events from lines.
#[derive(Default)]
struct Lines {
    unread: Vec<u8>,
    data: Vec<String>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    fn next_data(&mut self) -> Option<String> {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if !self.data.is_empty() {
                    return Some(std::mem::take(&mut self.data).join("\n"));
                }
            } else if let Some(value) = line.strip_prefix("data:") {
                self.data.push(value.strip_prefix(' ').unwrap_or(value).to_string());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::events::What;
    use nexus_api::jobs::State;

    use super::*;

    #[test]
    fn events_come_out_whole_however_they_are_cut() {
        let text = ": hello\n\nevent: x\ndata: {\"number\":1,\ndata: \"kind\":\"job\",\"id\":\"abc\",\"state\":\"running\"}\r\n\r\ndata:{}\n\n";
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for byte in text.as_bytes() {
            lines.push(&[*byte]);
            found.extend(lines.next_data());
        }
        assert_eq!(found.len(), 2);
        let event: Event = serde_json::from_str(&found[0]).unwrap();
        assert_eq!(event.what, What::Job { id: "abc".into(), state: State::Running });
        assert_eq!(found[1], "{}");
    }
}
