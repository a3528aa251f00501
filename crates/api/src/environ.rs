//! The environment of a process in one piece of memory. A run has some fifty variables; by themselves they would be hundreds of
//! pieces that are made and thrown away for every run.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Variables in their order. Written down as a list of pairs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environ {
    /// `NAME=value`, each closed by a zero byte, as execve(2) wants them.
    text: String,
    ends: Vec<Ends>,
}

/// Of a name and of its value, in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    name: usize,
    value: usize,
}

impl Environ {
    /// Whatever has this name already stays before it.
    pub fn push(&mut self, name: &str, value: &str) {
        self.text.extend([name, "=", value, "\0"]);
        let value_end = self.text.len() - 1;
        self.ends.push(Ends { name: value_end - value.len() - 1, value: value_end });
    }

    fn places(&self) -> impl Iterator<Item = (usize, &Ends)> {
        [0].into_iter().chain(self.ends.iter().map(|ends| ends.value + 1)).zip(&self.ends)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.places().map(|(begin, ends)| (&self.text[begin..ends.name], &self.text[ends.name + 1..ends.value]))
    }

    /// The last of this name, which is the one that counts.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().filter(|(known, _)| *known == name).last().map(|(_, value)| value)
    }

    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        *self = self.iter().filter(|(name, _)| keep(name)).collect();
    }

    /// Whether one has a zero byte inside, where a program would see it end.
    pub fn has_zero_byte(&self) -> bool {
        self.text.bytes().filter(|byte| *byte == 0).count() > self.ends.len()
    }

    /// `NAME=value`, each with the zero byte that closes it.
    pub fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.places().map(|(begin, ends)| &self.text.as_bytes()[begin..=ends.value])
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Environ {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environ {
        let mut all = Environ::default();
        all.extend(variables);
        all
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Extend<(N, V)> for Environ {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, variables: I) {
        for (name, value) in variables {
            self.push(name.as_ref(), value.as_ref());
        }
    }
}

impl fmt::Debug for Environ {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Environ {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Environ {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Environ, D::Error> {
        let mut all = Environ::default();
        from.deserialize_seq(Pairs(&mut all))?;
        Ok(all)
    }
}

struct Pairs<'a>(&'a mut Environ);

impl<'de> Visitor<'de> for Pairs<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list of variables")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        while pairs.next_element_seed(Pair(self.0))?.is_some() {}
        Ok(())
    }
}

struct Pair<'a>(&'a mut Environ);

impl<'de> DeserializeSeed<'de> for Pair<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for Pair<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a name and a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<(), A::Error> {
        let Environ { text, ends } = self.0;
        let mut next = |place: usize, closed_by: char| {
            pair.next_element_seed(Text { behind: &mut *text, closed_by })?
                .ok_or_else(|| A::Error::invalid_length(place, &"a name and a value"))
        };
        let (name, value) = (next(0, '=')?, next(1, '\0')?);
        ends.push(Ends { name, value });
        Ok(())
    }
}

/// A text that is put behind another. What it gives is where it ends there.
struct Text<'a> {
    behind: &'a mut String,
    closed_by: char,
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        self.behind.push_str(text);
        let end = self.behind.len();
        self.behind.push(self.closed_by);
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &[(&str, &str)] = &[("A", "1"), ("EMPTY", ""), ("Ä", "ü\n\"=\""), ("", ""), ("A", "2"), ("A=B", "c")];

    #[test]
    fn it_is_written_as_pairs_and_read_again() {
        for pairs in [&[], &ODD[..1], ODD, &[("A", "a\0b")]] {
            let all: Environ = pairs.iter().copied().collect();
            assert_eq!(all.iter().collect::<Vec<_>>(), pairs);
            let text = serde_json::to_string(&all).unwrap();
            assert_eq!(text, serde_json::to_string(pairs).unwrap());
            assert_eq!(serde_json::from_str::<Environ>(&text).unwrap(), all);
        }
        for wrong in [r#"[["A"]]"#, r#"[["A","b","c"]]"#, r#"[["A",1]]"#, r#"["A"]"#, r#"{"A":"b"}"#, "7"] {
            assert!(serde_json::from_str::<Environ>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let mut all: Environ = ODD.iter().copied().collect();
        assert_eq!((all.get("A"), all.get("EMPTY"), all.get("B")), (Some("2"), Some(""), None));
        all.retain(|name| name != "A");
        assert_eq!((all.get("A"), all.iter().count()), (None, 4));
    }

    #[test]
    fn each_entry_is_closed_by_a_zero_byte() {
        let mut all: Environ = ODD[..3].iter().copied().collect();
        assert!(!all.has_zero_byte() && !Environ::default().has_zero_byte());
        all.push("B", "a\0b");
        assert!(all.has_zero_byte());
        let entries: Vec<&[u8]> = all.entries().collect();
        assert_eq!(entries, [&b"A=1\0"[..], b"EMPTY=\0", "Ä=ü\n\"=\"\0".as_bytes(), b"B=a\0b\0"]);
    }
}
