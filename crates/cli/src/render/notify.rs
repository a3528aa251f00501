//! What became of a test notice at each who is told.

use nexus_api::notify::Tried;

use super::paint::Paint;
use super::text;

pub fn tried(tried: &[Tried], paint: Paint) -> String {
    let line = |one: &Tried| {
        let answer = match (&one.error, &one.answer) {
            (Some(error), _) => paint.error(&format!("not told: {}", text::printable(error))),
            (None, answer) => {
                let answer = answer.as_deref().map(|answer| format!(" ({})", text::printable(answer)));
                paint.good(&format!("told{}", answer.unwrap_or_default()))
            }
        };
        format!("{}: {answer}, {} ms\n", one.recipient, one.milliseconds)
    };
    tried.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn each_says_whether_it_was_told() {
        let told = Tried {
            recipient: "slack:https://x.org/…".into(),
            answer: Some("200 OK: ok".into()),
            error: None,
            milliseconds: 120,
        };
        let not = Tried { answer: None, error: Some("it answered 404 Not Found".into()), ..told.clone() };
        assert_eq!(
            tried(&[told, not], PLAIN),
            "slack:https://x.org/…: told (200 OK: ok), 120 ms\nslack:https://x.org/…: not told: it answered 404 Not Found, 120 ms\n"
        );
    }
}
