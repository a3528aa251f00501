//! The `llm_config.json` of seed 001: what each model needs of GPUs, and what one that is not listed needs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::is_amount;
use super::pattern::apart;

/// The option that names a model.
const OPTION: &str = "--llm";

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Where it was read, as shown.
    path: String,
    file: File,
}

/// Line and what is wrong there.
pub type Fault = (Option<u64>, String);

impl Table {
    pub fn parse(text: &str, path: &str) -> Result<Table, Fault> {
        match serde_json::from_str(text) {
            Ok(file) => Ok(Table { path: path.into(), file }),
            Err(error) => {
                let told = error.to_string();
                let place = format!(" at line {} column {}", error.line(), error.column());
                let told = told.strip_suffix(&place).unwrap_or(&told).to_string();
                Err(((error.line() > 0).then_some(error.line() as u64), told))
            }
        }
    }

    pub fn count(&self) -> usize {
        self.file.models.0.len()
    }

    /// What the models that a command names need, the most of it, and by which entry. A command without a model is
    /// none of this table's.
    pub fn need(&self, commands: &[Vec<String>]) -> Option<(String, f64)> {
        let needs = commands.iter().flat_map(|words| named(words)).filter_map(|model| self.of(&model));
        needs.reduce(|most, next| if next.1 > most.1 { next } else { most })
    }

    fn of(&self, model: &str) -> Option<(String, f64)> {
        match (self.file.models.0.get(model), self.file.default_requirement) {
            (Some(need), _) => Some((format!("{OPTION} {model} in {}", self.path), need.0)),
            (None, Some(need)) => Some((format!("default_requirement in {}", self.path), need.0)),
            (None, None) => None,
        }
    }
}

/// The values of `--llm`. What looks like an option is none.
fn named(words: &[String]) -> Vec<String> {
    let words = apart(words);
    let pairs = words.windows(2).filter(|pair| pair[0] == OPTION);
    pairs.map(|pair| pair[1].clone()).filter(|model| !model.is_empty() && !model.starts_with("--")).collect()
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with default_requirement and models")]
struct File {
    default_requirement: Option<Need>,
    #[serde(default)]
    models: Models,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Need(f64);

impl<'de> Deserialize<'de> for Need {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Need, D::Error> {
        Number { twice: None }.deserialize(from)
    }
}

/// Reads a need. What is wrong is told while its number is read, since a reader of JSON knows its line then.
struct Number<'a> {
    /// The model that it is for, if that is listed already: which of the two counts would be a guess.
    twice: Option<&'a str>,
}

impl<'de> DeserializeSeed<'de> for Number<'_> {
    type Value = Need;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Need, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for Number<'_> {
    type Value = Need;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of GPUs, as in 0.5 or 2")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Need, E> {
        match self.twice {
            Some(model) => Err(E::custom(format!("{model} is listed twice"))),
            None if is_amount(number) => Ok(Need(number)),
            None => Err(E::custom(format!("{number} is no number of GPUs, as in 0.5 or 2"))),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Need, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Need, E> {
        self.visit_f64(number as f64)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Models(BTreeMap<String, Need>);

impl<'de> Deserialize<'de> for Models {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Models, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Models;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("models and what they need, as in {\"qwen2.5-3b-inst\": 0.5}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Models, A::Error> {
                let mut models = BTreeMap::new();
                while let Some(model) = entries.next_key::<String>()? {
                    let twice = models.contains_key(&model).then_some(model.as_str());
                    let need = entries.next_value_seed(Number { twice })?;
                    models.insert(model, need);
                }
                Ok(Models(models))
            }
        }
        from.deserialize_map(Entries)
    }
}
