//! Verbs of queue and service that were given a job: nothing is done, the right verb is named.

use crate::error::{CliError, Usage};

/// Words after a verb that takes none.
pub fn refuse(verb: &'static str, words: &[String]) -> Result<(), CliError> {
    let Some(word) = words.first() else { return Ok(()) };
    Err(Usage::new(format!("{verb} takes no job, and nothing was done"), right_verb(verb, word)).of(verb))
}

fn right_verb(verb: &str, word: &str) -> String {
    match verb {
        "stop" => format!("nexus kill {word} ends a running job, nexus remove {word} a queued one"),
        "restart" => format!("nexus rerun {word} runs a job again"),
        "pause" => format!("nexus hold {word} keeps a queued job from starting"),
        "resume" => format!("nexus release {word} lets a held job start"),
        _ => format!("nexus {verb}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_sent_to_its_verb() {
        let told = |verb, word: &str| refuse(verb, &[word.to_string()]).unwrap_err();
        assert!(refuse("pause", &[]).is_ok());
        assert!(told("pause", "abc").told().hint.unwrap().contains("nexus hold abc"));
        assert!(told("resume", "abc").told().hint.unwrap().contains("nexus release abc"));
        assert!(told("stop", "abc").told().hint.unwrap().contains("nexus kill abc"));
        assert!(told("restart", "abc").told().hint.unwrap().contains("nexus rerun abc"));
        assert_eq!(told("stop", "0").exit_code(), 2);
    }
}
