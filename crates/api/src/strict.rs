//! JSON read into a type that must know every key: one that it does not know would be dropped without a word. The bodies of
//! requests are read so. Answers are not: a client reads what it knows of a newer service's answer.
//!
//! Keys below an internally tagged or flattened type are not seen here, since serde reads those from a buffer.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use crate::nearest::nearest;

/// More known keys than this are not listed.
const MOST_LISTED: usize = 40;

/// Letters of a key that are shown.
const SHOWN_LETTERS: usize = 40;

/// What the error for an unknown key begins with.
const NO_KEY: &str = "there is no key ";

/// Reads JSON. An error says where it is in the text, or which key is not known.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut is_ignored = false;
    // The plain reader says line and column of other faults, and sees a key that is said twice.
    let plain = plain(bytes, &mut is_ignored);
    if !is_ignored && plain.is_ok() {
        return plain.map_err(|error: Error| error.to_string());
    }
    // Something is wrong: the text is read once more, value by value, to name the key and its place.
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return plain.map_err(|error| error.to_string()) };
    match T::deserialize(Strict { value: &value, at: &At::Top }).map_err(|error| error.to_string()) {
        Err(error) if error.starts_with(NO_KEY) => Err(error),
        _ => plain.map_err(|error| error.to_string()),
    }
}

/// Reads JSON in one pass, and notes whether a value was ignored since its key is not known.
fn plain<T: DeserializeOwned>(bytes: &[u8], is_ignored: &mut bool) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_ignored::deserialize(&mut reader, |_| *is_ignored = true)?;
    reader.end().map(|()| value)
}

/// Where a value is: a list from the inside out.
enum At<'a> {
    Top,
    Key(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

/// `[0].request`
impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            At::Top => Ok(()),
            At::Key(At::Top, key) => f.write_str(&head(key)),
            At::Key(before, key) => write!(f, "{before}.{}", head(key)),
            At::Item(before, number) => write!(f, "{before}[{number}]"),
        }
    }
}

fn head(key: &str) -> String {
    key.chars().take(SHOWN_LETTERS).collect()
}

/// A value that is read by a type, and where it is.
#[derive(Clone, Copy)]
struct Strict<'de, 'p> {
    value: &'de Value,
    at: &'p At<'p>,
}

/// The error for a key that a type does not have.
fn unknown(key: &str, at: &At, fields: &[&str]) -> Error {
    let place = match at {
        At::Top => String::new(),
        at => format!(" in {at}"),
    };
    let what = format!("{NO_KEY}{}{place}", head(key));
    Error::custom(match nearest(key, fields.iter().copied()) {
        Some(near) => format!("{what}; did you mean {near}?"),
        None if fields.is_empty() => what,
        None => {
            let more = if fields.len() > MOST_LISTED { ", …" } else { "" };
            format!("{what}; there are {}{more}", fields[..fields.len().min(MOST_LISTED)].join(", "))
        }
    })
}

impl<'de> Deserializer<'de> for Strict<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(object) => visitor.visit_map(Entries { entries: object.iter(), value: None, at: self.at }),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate(), at: self.at }),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Value::Object(object) = self.value
            && let Some(key) = object.keys().find(|key| !fields.contains(&key.as_str()))
        {
            return Err(unknown(key, self.at, fields));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// A word, or an object with the word as its only key.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let alone = self.value.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next());
        match alone {
            Some((word, content)) => visitor.visit_enum(Variant { word, content, at: self.at }),
            None => self.value.deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Entries<'de, 'p> {
    entries: serde_json::map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    at: &'p At<'p>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) = self.value.take().expect("a key comes before its value");
        seed.deserialize(Strict { value, at: &At::Key(self.at, key) })
    }
}

struct Items<'de, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    at: &'p At<'p>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((number, value)) = self.items.next() else { return Ok(None) };
        seed.deserialize(Strict { value, at: &At::Item(self.at, number) }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Variant<'de, 'p> {
    word: &'de str,
    content: &'de Value,
    at: &'p At<'p>,
}

impl<'de, 'p> EnumAccess<'de> for Variant<'de, 'p> {
    type Error = Error;
    type Variant = Variant<'de, 'p>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::new(self.word))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        serde::Deserialize::deserialize(self.content)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Strict { value: self.content, at: &At::Key(self.at, self.word) })
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        Strict { value: self.content, at: &At::Key(self.at, self.word) }.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        Strict { value: self.content, at: &At::Key(self.at, self.word) }.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::import::Import;
    use crate::jobs::{JobSpec, Move, OnJobs};

    #[test]
    fn a_key_that_is_not_known_is_refused_with_the_one_that_was_meant() {
        let spec = || json!({"command": {"shell": "x"}, "cwd": "/"});
        let with = |path: &[&str], key: &str| {
            let mut spec = spec();
            let mut place = &mut spec;
            for name in path {
                place = &mut place[*name];
            }
            place[key] = json!("x");
            json!([plain(), spec]).to_string()
        };
        for (body, words) in [
            (with(&[], "afterr"), "there is no key afterr in [1]; did you mean after?"),
            (with(&["request"], "gpu"), "there is no key gpu in [1].request; did you mean gpus?"),
            (with(&["code"], "elsewhere"), "there is no key elsewhere in [1].code; there are content, of"),
        ] {
            assert_eq!(read::<Vec<JobSpec>>(body.as_bytes()).unwrap_err(), words);
        }
        let entry = json!({"file": "f", "folder": "/", "usual": spec(), "entries": [
            {"line": 1, "command": {"script": {"script": "x", "torchrun": null, "arguments": [], "argument": []}}}
        ]});
        let told = read::<Import>(entry.to_string().as_bytes()).unwrap_err();
        assert_eq!(told, "there is no key argument in entries[0].command.script; did you mean arguments?");
    }

    fn plain() -> Value {
        json!({"command": {"argv": ["x"]}, "cwd": "/", "env": {"any": "name"}, "params": {"of": "a map"}})
    }

    #[test]
    fn what_is_known_is_read_as_ever() {
        let sample = include_str!("../frozen/v1/job_spec_full.json");
        assert_eq!(read::<JobSpec>(sample.as_bytes()).unwrap(), serde_json::from_str(sample).unwrap());
        for gpus in ["1", "0.5", "0"] {
            let text = format!(r#"{{"command": {{"shell": "x"}}, "cwd": "/", "request": {{"gpus": {gpus}}}}}"#);
            assert_eq!(read::<JobSpec>(text.as_bytes()).unwrap(), serde_json::from_str(&text).unwrap());
        }
        assert_eq!(read::<Move>(b"{\"before\": null}").unwrap(), Move { before: None });
        // Other faults are told as the plain reader tells them.
        for wrong in ["", "{", "{\"ids\": 3}", "{\"ids\": [], \"ids\": []}", "{}", "[3]"] {
            let plain = serde_json::from_str::<OnJobs>(wrong).unwrap_err().to_string();
            assert_eq!(read::<OnJobs>(wrong.as_bytes()).unwrap_err(), plain, "{wrong}");
        }
    }
}
