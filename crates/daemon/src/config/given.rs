//! A value of the file, read as what a key wants; and back into the form in which it is written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::run_dir::UNLIMITED;
use nexus_api::values::{bytes, duration};
use nexus_core::request::MAX_GPUS;
use toml::Value;

/// What stands behind a key. Each way to read it fails with what would be right.
pub struct Given<'a> {
    pub value: &'a Value,
    pub user_home: Option<&'a Path>,
}

impl Given<'_> {
    pub fn flag(&self) -> Result<bool, String> {
        self.value.as_bool().ok_or_else(|| "true or false".into())
    }

    pub fn number(&self, least: u32, most: u32) -> Result<u32, String> {
        let number = self.value.as_integer().and_then(|number| u32::try_from(number).ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("a whole number from {least} to {most}"))
    }

    /// `0.8` or `"80%"`.
    pub fn fraction(&self) -> Result<f64, String> {
        let fraction = match self.value {
            Value::Float(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            Value::String(text) => {
                text.strip_suffix('%').and_then(|text| text.trim().parse::<f64>().ok()).map(|percent| percent / 100.0)
            }
            _ => None,
        };
        let inside = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
        inside.ok_or_else(|| "a part from 0 to 1, such as 0.8, or \"80%\"".into())
    }

    pub fn text(&self) -> Result<String, String> {
        let text = self.value.as_str().filter(|text| !text.contains('\0'));
        text.map(String::from).ok_or_else(|| "a text in quotes".into())
    }

    /// A text of one word at least.
    pub fn filled_text(&self) -> Result<String, String> {
        self.text().ok().filter(|text| !text.trim().is_empty()).ok_or_else(|| "a text in quotes, not empty".into())
    }

    /// None for an empty one.
    pub fn optional_text(&self) -> Result<Option<String>, String> {
        Ok(Some(self.text()?).filter(|text| !text.trim().is_empty()))
    }

    /// None for an empty one. The service works in no particular folder, so a path begins at one that is known.
    pub fn path(&self) -> Result<Option<PathBuf>, String> {
        let want = || "a path in quotes that begins with / or ~/".to_string();
        let text = self.text().map_err(|_| want())?;
        match (text.strip_prefix("~/"), self.user_home) {
            _ if text.is_empty() => Ok(None),
            (Some(rest), Some(home)) => Ok(Some(home.join(rest))),
            (Some(_), None) => Err("a path that begins with /, since HOME is not set".into()),
            (None, _) if text.starts_with('/') => Ok(Some(text.into())),
            (None, _) => Err(want()),
        }
    }

    pub fn duration(&self) -> Result<Duration, String> {
        let want = || "a duration in quotes, with its unit: \"10s\", \"5m\", \"2h\"".to_string();
        self.value.as_str().and_then(seconds).map(Duration::from_secs).ok_or_else(want)
    }

    /// In bytes.
    pub fn size(&self) -> Result<u64, String> {
        let want = || "a size in quotes, with its unit: \"50MB\", \"1GB\"".to_string();
        self.value.as_str().and_then(|text| bytes(text).ok()).ok_or_else(want)
    }

    /// A list of texts.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let want = || "a list of texts: [\"one\", \"two\"]".to_string();
        let list = self.value.as_array().ok_or_else(want)?;
        let is_word = |word: &&str| !word.is_empty() && !word.contains('\0');
        list.iter().map(|value| value.as_str().filter(is_word).map(String::from).ok_or_else(want)).collect()
    }

    /// A program and its arguments, as a list or as one text that is split as a shell would.
    pub fn argv(&self) -> Result<Vec<String>, String> {
        let want = || "\"a program and arguments\" or [\"a\", \"list\"]".to_string();
        match self.value {
            Value::String(text) if !text.contains('\0') => nexus_api::shell_words::split(text, "").map_err(|_| want()),
            Value::Array(_) => self.words().map_err(|_| want()),
            _ => Err(want()),
        }
    }

    /// GPU numbers in the order in which they stand: `"0-2,5"` or `[0, 1, 2, 5]`.
    pub fn gpu_list(&self) -> Result<Vec<u16>, String> {
        let want = || format!("GPU numbers under {MAX_GPUS}: \"0-2,5\" or [0, 1, 2, 5]");
        match self.value {
            Value::String(text) => gpus(text).ok_or_else(want),
            Value::Array(list) => {
                let index = |value: &Value| u16::try_from(value.as_integer()?).ok().filter(|index| *index < MAX_GPUS);
                list.iter().map(|value| index(value).ok_or_else(want)).collect()
            }
            _ => Err(want()),
        }
    }

    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        let found = self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("one of {}", quoted.join(", "))
        })
    }

    /// A limit: a number of things, or of bytes with their unit; `"unlimited"`; `""` for none of its own.
    pub fn limit(&self, in_bytes: bool) -> Result<Option<u64>, String> {
        let want = || match in_bytes {
            true => "a size in quotes (\"8GB\"), \"unlimited\", or \"\" to leave it alone".to_string(),
            false => "a whole number over 0, \"unlimited\", or \"\" to leave it alone".to_string(),
        };
        match self.value {
            Value::String(text) if text.is_empty() => Ok(None),
            Value::String(text) if text == "unlimited" => Ok(Some(UNLIMITED)),
            Value::String(text) if in_bytes => bytes(text).map(Some).map_err(|_| want()),
            Value::Integer(number @ 1..) if !in_bytes => Ok(Some(*number as u64)),
            _ => Err(want()),
        }
    }
}

/// `10s`, `1h30m`.
fn seconds(text: &str) -> Option<u64> {
    duration(text).ok()
}

fn gpus(text: &str) -> Option<Vec<u16>> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let index = |text: &str| {
        let text = text.trim();
        digits(text).then(|| text.parse::<u16>().ok()).flatten().filter(|index| *index < MAX_GPUS)
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (index(first)?, index(last)?);
                (first <= last).then(|| list.extend(first..=last))?;
            }
            None => list.push(index(part)?),
        }
    }
    Some(list)
}

/// How values are written, so that reading them gives the same again.
pub mod shown {
    use super::*;

    pub fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    pub fn optional(text: &Option<String>) -> Value {
        Value::String(text.clone().unwrap_or_default())
    }

    pub fn path(path: &Option<PathBuf>) -> Value {
        Value::String(path.as_ref().map(|path| path.display().to_string()).unwrap_or_default())
    }

    pub fn number(number: u32) -> Value {
        Value::Integer(number.into())
    }

    pub fn words(words: &[String]) -> Value {
        Value::Array(words.iter().map(|word| text(word)).collect())
    }

    pub fn indices(indices: &[u16]) -> Value {
        Value::Array(indices.iter().map(|index| Value::Integer((*index).into())).collect())
    }

    /// In the largest unit that leaves no rest.
    pub fn duration(duration: Duration) -> Value {
        let seconds = duration.as_secs();
        let units = [(86400, "d"), (3600, "h"), (60, "m"), (1, "s")];
        let (unit, letter) =
            units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit)).unwrap_or((1, "s"));
        Value::String(format!("{}{letter}", seconds / unit))
    }

    pub fn size(bytes: u64) -> Value {
        let units = [(1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B")];
        let (unit, word) =
            units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)).unwrap_or((1 << 20, "MB"));
        Value::String(format!("{}{word}", bytes / unit))
    }

    pub fn limit(limit: Option<u64>, in_bytes: bool) -> Value {
        match limit {
            None => text(""),
            Some(UNLIMITED) => text("unlimited"),
            Some(bytes) if in_bytes => size(bytes),
            Some(number) => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
        }
    }

    pub fn word<T: Copy + PartialEq>(words: &[(&str, T)], meaning: T) -> Value {
        text(words.iter().find(|(_, known)| *known == meaning).map_or("", |(word, _)| word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_go_there_and_back() {
        for (text, number) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172_800), ("0s", 0)] {
            assert_eq!(seconds(text), Some(number), "{text}");
            let shown = shown::duration(Duration::from_secs(number));
            assert_eq!(shown.as_str().and_then(seconds), Some(number), "{text}");
        }
        for (text, number) in
            [("50MB", 50 << 20), ("1g", 1 << 30), ("8 GiB", 8 << 30), ("0MB", 0), ("1500KB", 1500 << 10)]
        {
            assert_eq!(bytes(text), Ok(number), "{text}");
            assert_eq!(shown::size(number).as_str().map(bytes), Some(Ok(number)), "{text}");
        }
        for bad in ["", "5", "s", "5x", "1.5s", "-1s", "99999999999999999999s", "99999d", "5é"] {
            assert_eq!(seconds(bad), None, "{bad}");
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn gpu_lists_keep_their_order() {
        assert_eq!(gpus("0-2"), Some(vec![0, 1, 2]));
        assert_eq!(gpus("3, 0-1"), Some(vec![3, 0, 1]));
        for bad in ["", "a", "3-1", "0,", "-1", "0-", "128", "+1", "0-3-5"] {
            assert_eq!(gpus(bad), None, "{bad}");
        }
    }
}
