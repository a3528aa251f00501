//! A pattern: words with `*` and `?` that stand next to each other in a command. `--llm x` and `--llm=x` are the same.

use nexus_api::shell_words::{self, NoWords};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    words: Vec<String>,
    /// The same with `--name=value` as two words.
    apart: Vec<String>,
}

impl Pattern {
    /// Quotes hold a word together, as in a shell; between them `*` and `?` mean what they mean elsewhere.
    pub fn new(text: &str) -> Result<Pattern, NoWords> {
        let words = shell_words::split(text, "")?;
        Ok(Pattern { text: text.into(), apart: apart(&words), words })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn fits(&self, commands: &[Vec<String>]) -> bool {
        commands.iter().any(|words| stands_in(&self.words, words) || stands_in(&self.apart, &apart(words)))
    }
}

fn stands_in(pattern: &[String], words: &[String]) -> bool {
    let fits = |some: &[String]| pattern.iter().zip(some).all(|(glob, word)| matches(glob, word));
    !pattern.is_empty() && words.windows(pattern.len()).any(fits)
}

/// `--name=value` as `--name` and `value`.
pub fn apart(words: &[String]) -> Vec<String> {
    let mut apart = Vec::with_capacity(words.len());
    for word in words {
        match word.split_once('=').filter(|_| word.starts_with('-')) {
            Some((name, value)) => apart.extend([name.to_string(), value.to_string()]),
            None => apart.push(word.clone()),
        }
    }
    apart
}

/// Whether the whole of a word is as the glob says. A star takes as little as it can, and more when the rest does not
/// fit: only the last one has to be taken back, so this is quick however many there are.
fn matches(glob: &str, word: &str) -> bool {
    let (glob, word): (Vec<char>, Vec<char>) = (glob.chars().collect(), word.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while read < word.len() {
        match glob.get(at) {
            Some('*') => {
                last_star = Some((at, read));
                at += 1;
            }
            Some(c) if *c == '?' || *c == word[read] => (at, read) = (at + 1, read + 1),
            _ => match last_star {
                Some((star, taken)) => {
                    (at, read) = (star + 1, taken + 1);
                    last_star = Some((star, taken + 1));
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_words() {
        for (glob, word, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything/at all", true),
            ("qwen*", "qwen2.5", true),
            ("qwen*", "my-qwen2.5", false),
            ("*3b*", "qwen2.5-3b-inst", true),
            ("qwen?.5", "qwen2.5", true),
            ("qwen?.5", "qwen.5", false),
            ("q?e", "qée", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXcX", false),
            ("a**c", "ac", true),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
            ("QWEN", "qwen", false),
        ] {
            assert_eq!(matches(glob, word), fits, "{glob} {word}");
        }
        let (many, long) = ("*a".repeat(30) + "b", "a".repeat(4000));
        assert!(!matches(&many, &long));
    }
}
