//! Reads a `config.yaml` of the dispatcher: six keys and their values, and the line of what is wrong. Reads nothing but
//! its arguments.

use saphyr_parser::{Event, Parser, ScalarStyle};

const KEYS: [&str; 6] = ["gpu_ids", "min_free_mem_mb", "poll_interval", "commands_file", "log_dir", "jobs_file"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub gpu_ids: Option<Vec<u16>>,
    pub min_free_mem_mb: Option<u32>,
    pub commands_file: Option<String>,
    pub log_dir: Option<String>,
    pub jobs_file: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// From 1.
    pub line: usize,
    pub error: String,
}

enum Value {
    /// `plain`: without quotes.
    Text {
        text: String,
        plain: bool,
    },
    List(Vec<String>),
    Nested,
}

impl Value {
    /// Nothing stands behind the key, or that it is nothing.
    fn is_nothing(&self) -> bool {
        matches!(self, Value::Text { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    fn shown(&self) -> String {
        match self {
            Value::Text { text, .. } => format!("{text:?}"),
            Value::List(_) => "a list".into(),
            Value::Nested => "more than one value".into(),
        }
    }
}

pub fn read(text: &str) -> Result<Config, Wrong> {
    let mut config = Config::default();
    let mut known: Vec<String> = Vec::new();
    for (line, key, value) in pairs(text)? {
        let wrong = |error: String| Wrong { line, error };
        if !KEYS.contains(&key.as_str()) {
            return Err(wrong(unknown(&key)));
        }
        if known.contains(&key) {
            return Err(wrong(format!("{key} is said twice")));
        }
        if !value.is_nothing() {
            set(&mut config, &key, &value).map_err(|want| wrong(format!("{key} is {want}, not {}", value.shown())))?;
        }
        known.push(key);
    }
    Ok(config)
}

fn set(config: &mut Config, key: &str, value: &Value) -> Result<(), &'static str> {
    match key {
        "gpu_ids" => config.gpu_ids = Some(gpu_ids(value).ok_or("a list of GPUs, as in [0, 1]")?),
        "min_free_mem_mb" => {
            let number = number(value).and_then(|text| text.parse().ok()).filter(|mib| *mib > 0);
            config.min_free_mem_mb = Some(number.ok_or("a whole number of MiB above 0")?);
        }
        // Needless: changes are seen at once. A wrong one is told all the same.
        "poll_interval" => {
            number(value).filter(|text| is_interval(text)).ok_or("a number of seconds above 0")?;
        }
        "commands_file" => config.commands_file = Some(path(value)?),
        "log_dir" => config.log_dir = Some(path(value)?),
        _ => config.jobs_file = Some(path(value)?),
    }
    Ok(())
}

/// Whether this is a time that one could wait for.
pub fn is_interval(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|seconds| seconds.is_finite() && seconds > 0.0)
}

/// What stands without quotes may be a number.
fn number(value: &Value) -> Option<&str> {
    match value {
        Value::Text { text, plain: true } => Some(text),
        _ => None,
    }
}

fn path(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Text { text, .. } if !text.is_empty() => Ok(text.clone()),
        _ => Err("a path"),
    }
}

/// `[0, 1]`, `0,1` or `0`
fn gpu_ids(value: &Value) -> Option<Vec<u16>> {
    let text = match value {
        Value::Text { text, .. } => text.clone(),
        Value::List(items) => items.join(","),
        Value::Nested => return None,
    };
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    nexus_api::values::gpu_list(&text).ok()
}

fn unknown(key: &str) -> String {
    let near = KEYS.iter().map(|known| (strsim::damerau_levenshtein(known, key), *known)).min();
    match near.filter(|(distance, _)| *distance <= key.chars().count().div_ceil(2).min(4)) {
        Some((_, near)) => format!("there is no key {key}; did you mean {near}?"),
        None => format!("there is no key {key}; there are {}", KEYS.join(", ")),
    }
}

/// The keys of the one mapping that the text is, each with its line.
fn pairs(text: &str) -> Result<Vec<(usize, String, Value)>, Wrong> {
    let mut events = Events { parser: Parser::new_from_str(text) };
    let mut pairs = Vec::new();
    loop {
        match events.next()? {
            (_, Event::StreamEnd) => return Ok(pairs),
            (_, Event::Scalar(text, ..)) if text.is_empty() => {}
            (_, Event::MappingStart(..)) if pairs.is_empty() => events.mapping(&mut pairs)?,
            (line, Event::MappingStart(..)) => {
                return Err(Wrong { line, error: "one set of keys is enough, and here begins another".into() });
            }
            (line, Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_)) => {
                return Err(Wrong { line, error: "lines KEY: VALUE are wanted here".into() });
            }
            _ => {}
        }
    }
}

struct Events<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(usize, Event<'a>), Wrong> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((span.start.line().max(1), event)),
            Some(Err(error)) => {
                Err(Wrong { line: error.marker().line().max(1), error: format!("this is no YAML: {}", error.info()) })
            }
            None => Ok((1, Event::StreamEnd)),
        }
    }

    fn mapping(&mut self, pairs: &mut Vec<(usize, String, Value)>) -> Result<(), Wrong> {
        loop {
            let (line, key) = match self.next()? {
                (line, Event::Scalar(key, ..)) => (line, key.into_owned()),
                (_, Event::MappingEnd) => return Ok(()),
                (line, _) => return Err(Wrong { line, error: "a key is one word".into() }),
            };
            let value = self.value()?;
            pairs.push((line, key, value));
        }
    }

    fn value(&mut self) -> Result<Value, Wrong> {
        match self.next()?.1 {
            Event::Scalar(text, style, ..) => {
                Ok(Value::Text { text: text.into_owned(), plain: style == ScalarStyle::Plain })
            }
            Event::SequenceStart(..) => self.list(),
            Event::MappingStart(..) => {
                self.skip()?;
                Ok(Value::Nested)
            }
            _ => Ok(Value::Nested),
        }
    }

    fn list(&mut self) -> Result<Value, Wrong> {
        let mut items = Vec::new();
        let mut nested = false;
        loop {
            match self.next()?.1 {
                Event::Scalar(text, ..) => items.push(text.into_owned()),
                Event::SequenceEnd => break,
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    self.skip()?;
                    nested = true;
                }
                _ => nested = true,
            }
        }
        Ok(if nested { Value::Nested } else { Value::List(items) })
    }

    /// To the end of what has begun.
    fn skip(&mut self) -> Result<(), Wrong> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()?.1 {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth -= 1,
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "\
gpu_ids: [0, 1, 2]          # Which GPUs to use
min_free_mem_mb: 10000      # Minimum free memory required
poll_interval: 30           # Check interval in seconds
commands_file: jobs.txt     # Job commands source
log_dir: ./job_logs         # Log storage location
jobs_file: ./queue.jsonl    # Job tracking file
";

    #[test]
    fn the_file_of_the_document_is_read() {
        let text = |text: &str| Some(text.to_string());
        assert_eq!(
            read(SEED),
            Ok(Config {
                gpu_ids: Some(vec![0, 1, 2]),
                min_free_mem_mb: Some(10000),
                commands_file: text("jobs.txt"),
                log_dir: text("./job_logs"),
                jobs_file: text("./queue.jsonl"),
            })
        );
    }

    #[test]
    fn gpus_are_a_list_or_a_text() {
        for text in ["[0, 1]", "0,1", "\"0, 1\"", "'0-1'", "\n  - 0\n  - 1", "[1, 0, 1]"] {
            assert_eq!(read(&format!("gpu_ids: {text}\n")).unwrap().gpu_ids, Some(vec![0, 1]), "{text}");
        }
        assert_eq!(read("gpu_ids: 3").unwrap().gpu_ids, Some(vec![3]));
        for nothing in ["", "# nothing\n", "---\n", "gpu_ids:\nlog_dir: null\n", "{}"] {
            assert_eq!(read(nothing), Ok(Config::default()), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, error) in [
            ("\ngpu_id: 0\n", 2, "there is no key gpu_id; did you mean gpu_ids?"),
            ("colour: red", 1, "there is no key colour; there are gpu_ids, min_free_mem_mb, "),
            ("log_dir: a\nlog_dir: b\n", 2, "log_dir is said twice"),
            ("gpu_ids: [0, x]", 1, "gpu_ids is a list of GPUs, as in [0, 1], not a list"),
            ("gpu_ids: []", 1, "gpu_ids is a list of GPUs"),
            ("gpu_ids: {a: 1}", 1, "gpu_ids is a list of GPUs, as in [0, 1], not more than one value"),
            ("min_free_mem_mb: 8G", 1, "min_free_mem_mb is a whole number of MiB above 0, not \"8G\""),
            ("min_free_mem_mb: '8000'", 1, "min_free_mem_mb is a whole number"),
            ("min_free_mem_mb: 0", 1, "min_free_mem_mb is a whole number"),
            ("min_free_mem_mb: -1", 1, "min_free_mem_mb is a whole number"),
            ("# a\n\npoll_interval: often", 3, "poll_interval is a number of seconds above 0, not \"often\""),
            ("poll_interval: 0", 1, "poll_interval is a number"),
            ("commands_file: [a, b]", 1, "commands_file is a path, not a list"),
            ("log_dir: {a: [1, {b: c}]}\n", 1, "log_dir is a path"),
            ("jobs_file: \"\"", 1, "jobs_file is a path"),
            ("just words", 1, "lines KEY: VALUE are wanted here"),
            ("- a\n- b\n", 1, "lines KEY: VALUE are wanted here"),
            ("log_dir: a\n---\nlog_dir: b\n", 3, "one set of keys is enough"),
            ("gpu_ids: [0, 1\nlog_dir: a\n", 2, "this is no YAML: "),
            ("\ngpu_ids: \"0\n", 2, "this is no YAML: "),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.error.starts_with(error), "{text:?}: {wrong:?}");
            assert_eq!(wrong.line, line, "{text:?}: {wrong:?}");
        }
    }
}
