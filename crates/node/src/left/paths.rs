//! Paths on the line. Jobs name their files as they like: what is no text goes as numbers, and nothing is lost of it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Told {
    Text(String),
    Bytes(Vec<u8>),
}

impl Told {
    fn of(path: &Path) -> Told {
        match path.to_str() {
            Some(text) => Told::Text(text.to_owned()),
            None => Told::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Told::Text(text) => text.into(),
            Told::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Told::of(path).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Told::deserialize(deserializer).map(Told::path)
}

/// Something for each of many paths: names of JSON objects must be text, so it goes as pairs.
pub mod of_map {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Told;

    pub fn serialize<S: Serializer, T: Serialize>(
        map: &BTreeMap<PathBuf, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.iter().map(|(path, value)| (Told::of(path), value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<PathBuf, T>, D::Error> {
        let pairs = Vec::<(Told, T)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(told, value)| (told.path(), value)).collect())
    }
}
