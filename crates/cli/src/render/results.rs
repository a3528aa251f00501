//! What a job left behind.

use nexus_api::left::Results;
use nexus_api::results::ResultsState;

use super::paint::Paint;
use super::text;

const VALUE_COLUMN: usize = 12;

/// A line for each thing that is known.
pub fn results(results: &Results, paint: Paint) -> String {
    let mut lines = format!("{}: {}\n", paint.id(&results.id), state(results, paint));
    let mut add = |key: &str, value: &str| {
        let blanks = " ".repeat(VALUE_COLUMN.saturating_sub(3 + key.len()));
        lines.push_str(&format!("  {key}:{blanks}{}\n", text::hanging(value, VALUE_COLUMN)));
    };
    if !results.named.is_empty() {
        add("Named", &results.named.join("\n"));
    }
    if results.named_left_out > 0 {
        add("Left out", &format!("{} more RESULTS lines, too many or too long", results.named_left_out));
    }
    if let Some(folder) = &results.folder {
        add("Folder", folder);
    }
    for (name, value) in results.extracted.iter().flatten() {
        add("Value", &format!("{name} = {value}"));
    }
    if let Some(error) = error(results) {
        add("Why", &error);
        add("Type", &format!("nexus results {}{}", results.id, if wants_place(results) { " --to DIR" } else { "" }));
    }
    lines
}

/// Of the newest copy, else of the record.
fn error(results: &Results) -> Option<String> {
    let newest = results.copy.as_ref().filter(|copy| copy.ended).and_then(|copy| copy.error.clone());
    newest.or_else(|| results.error.clone())
}

fn wants_place(results: &Results) -> bool {
    results.results.is_none() || results.copy.as_ref().is_some_and(|copy| Some(&copy.to) != results.results.as_ref())
}

fn state(results: &Results, paint: Paint) -> String {
    let to = results.results.as_deref().unwrap_or_default();
    let failed = results.copy.as_ref().filter(|copy| copy.ended && copy.error.is_some());
    let extra = failed.filter(|copy| Some(&copy.to) != results.results.as_ref());
    let word = ResultsState::ALL.into_iter().find(|state| state.word() == results.results_state).unwrap_or_default();
    let known = match word {
        ResultsState::Copied => paint.good(&format!("copied to {}", text::printable(to))),
        ResultsState::Failed => paint.error(&format!("not copied to {}", text::printable(to))),
        ResultsState::Copying => paint.state(&progress(results)),
        ResultsState::None if results.named.is_empty() && results.folder.is_none() => {
            "nothing is known of results".into()
        }
        ResultsState::None if !results.state.has_ended() && results.results.is_some() => {
            format!("to be copied to {} when it has succeeded", text::printable(to))
        }
        ResultsState::None => "not copied".into(),
    };
    match extra {
        Some(copy) => format!("{}; {known}", paint.error(&format!("not copied to {}", text::printable(&copy.to)))),
        None => known,
    }
}

/// `copying to /data/abc: 120M of 300M (40%)`
pub fn progress(results: &Results) -> String {
    let Some(copy) = &results.copy else { return "copying".into() };
    let amount = match copy.total_bytes {
        0 => String::new(),
        total => {
            let percent = copy.done_bytes.min(total) * 100 / total;
            format!(": {} of {} ({percent}%)", text::size(copy.done_bytes.min(total)), text::size(total))
        }
    };
    let trouble = copy.trouble.as_ref().map(|why| format!("; {}, tried again", text::first_line(why)));
    format!("copying to {}{amount}{}", text::printable(&copy.to), trouble.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;
    use nexus_api::results::Copy;

    use super::*;
    use crate::render::paint::PLAIN;

    fn left(state: ResultsState) -> Results {
        Results {
            id: "abc".into(),
            state: State::Completed,
            results: Some("/data/abc".into()),
            results_state: state.word().into(),
            error: None,
            named: vec!["out".into(), "run-".into()],
            named_left_out: 0,
            folder: None,
            extracted: None,
            copy: None,
        }
    }

    #[test]
    fn what_it_left_and_what_became_of_it() {
        let copied = results(&left(ResultsState::Copied), PLAIN);
        assert_eq!(copied, "abc: copied to /data/abc\n  Named:    out\n            run-\n");
        let mut failed = left(ResultsState::Failed);
        failed.error = Some("out does not exist".into());
        assert_eq!(
            results(&failed, PLAIN),
            "abc: not copied to /data/abc\n  Named:    out\n            run-\n  Why:      out does not exist\n  \
             Type:     nexus results abc\n"
        );
        let nothing = Results { named: vec![], results: None, ..left(ResultsState::None) };
        assert_eq!(results(&nothing, PLAIN), "abc: nothing is known of results\n");
    }

    #[test]
    fn how_far_it_is() {
        let copy = |done_bytes, total_bytes, trouble: Option<&str>| Copy {
            number: 1,
            to: "/data/abc".into(),
            done_bytes,
            total_bytes,
            trouble: trouble.map(String::from),
            ended: false,
            error: None,
        };
        let told = |copy| progress(&Results { copy: Some(copy), ..left(ResultsState::Copying) });
        assert_eq!(told(copy(0, 0, None)), "copying to /data/abc");
        assert_eq!(told(copy(120 << 20, 300 << 20, None)), "copying to /data/abc: 120M of 300M (40%)");
        let troubled = told(copy(512, 2048, Some("x cannot be written: No space left on device")));
        assert!(troubled.ends_with("(25%); x cannot be written: No space left on device, tried again"), "{troubled}");
    }
}
