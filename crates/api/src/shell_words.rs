//! Splits a line into words as a shell does: blanks, quotes and backslashes, and nothing else of it; or a whole script,
//! roughly, into the words of its commands.

/// Why a line has no words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoWords {
    /// A quote that is never closed, or a backslash at the very end.
    Unclosed(char),
    /// A character that a shell would act on, outside of quotes.
    Special(char),
}

impl std::fmt::Display for NoWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoWords::Unclosed('\\') => f.write_str("nothing follows the last backslash"),
            NoWords::Unclosed(quote) => write!(f, "a {quote} is not closed"),
            NoWords::Special(c) => write!(f, "{c} means something to a shell, and there is none: quote it"),
        }
    }
}

/// What a shell would act on.
pub const SPECIAL: &str = "|&;<>()$`*?[]{}#~!";

/// The words of `text`. `refused`: characters of ASCII that may stand in quotes only.
pub fn split(text: &str, refused: &str) -> Result<Vec<String>, NoWords> {
    let is_refused = |c: char| c.is_ascii() && refused.as_bytes().contains(&(c as u8));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    loop {
        // Most of a word is taken at once: this is done for each of many commands.
        let rest = chars.as_str();
        let plain = rest.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '\\') || is_refused(c));
        let (plain, rest) = rest.split_at(plain.unwrap_or(rest.len()));
        if !plain.is_empty() {
            word.get_or_insert_default().push_str(plain);
        }
        chars = rest.chars();
        match chars.next() {
            None => break,
            Some(quote @ ('\'' | '"')) => quoted(&mut chars, quote, word.get_or_insert_default())?,
            Some('\\') => word.get_or_insert_default().push(chars.next().ok_or(NoWords::Unclosed('\\'))?),
            Some(c) if c.is_whitespace() => words.extend(word.take()),
            Some(c) => return Err(NoWords::Special(c)),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What ends a command, or stands between a command and a file.
const BETWEEN: &str = ";|&()<>\n";

/// The words of each command of a shell text, for somebody who looks for words in it and runs nothing: operators and
/// newlines part commands, comments are left out, all else stays as it is written.
pub fn commands(text: &str) -> Result<Vec<Vec<String>>, NoWords> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if BETWEEN.contains(c) => {
                commands.last_mut().expect("there is one").extend(word.take());
                commands.push(Vec::new());
            }
            c if c.is_whitespace() => commands.last_mut().expect("there is one").extend(word.take()),
            '#' if word.is_none() => {
                chars.find(|c| *c == '\n');
                commands.push(Vec::new());
            }
            '\'' | '"' => quoted(&mut chars, c, word.get_or_insert_default())?,
            '\\' => match chars.next().ok_or(NoWords::Unclosed('\\'))? {
                // The command goes on in the next line.
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().expect("there is one").extend(word);
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

/// All up to the closing quote. Between double quotes a backslash keeps its meaning before a few characters only.
fn quoted(chars: &mut std::str::Chars, quote: char, word: &mut String) -> Result<(), NoWords> {
    loop {
        match chars.next().ok_or(NoWords::Unclosed(quote))? {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match chars.next().ok_or(NoWords::Unclosed(quote))? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::quote;

    #[test]
    fn words_come_apart_as_in_a_shell() {
        for (text, words) in [
            ("", &[][..]),
            ("  a  b\tc ", &["a", "b", "c"]),
            (r#"code --wait "my file" 'it'\''s' a\ b"#, &["code", "--wait", "my file", "it's", "a b"]),
            (r#""a\"b\n" '' x"y"z"#, &["a\"b\\n", "", "xyz"]),
            ("nice -n  10", &["nice", "-n", "10"]),
            (" 'a b'c \"d 'e'\" '' ", &["a bc", "d 'e'", ""]),
            (r"a\ b '\n'", &["a b", r"\n"]),
        ] {
            assert_eq!(split(text, "").unwrap(), words, "{text}");
        }
        assert_eq!(split("a 'b", ""), Err(NoWords::Unclosed('\'')));
        assert_eq!(split("a\\", ""), Err(NoWords::Unclosed('\\')));
        let argv = ["it's", "a b", "", "$x"].map(String::from).to_vec();
        assert_eq!(split(&crate::command::Command::Argv(argv.clone()).text(), ""), Ok(argv));
    }

    #[test]
    fn a_script_is_the_words_of_its_commands() {
        for (text, expected) in [
            ("", &[][..]),
            ("python t.py --llm a", &[&["python", "t.py", "--llm", "a"][..]]),
            ("cd x && python t.py --llm a; echo", &[&["cd", "x"], &["python", "t.py", "--llm", "a"], &["echo"]]),
            ("t --llm a>log 2>&1 | tee b", &[&["t", "--llm", "a"], &["log", "2"], &["1"], &["tee", "b"]]),
            ("a 'x; y' # --llm b\nc#d", &[&["a", "x; y"], &["c#d"]]),
            ("python t.py \\\n  --llm a", &[&["python", "t.py", "--llm", "a"]]),
            ("(a)(b c)", &[&["a"], &["b", "c"]]),
            ("a ''", &[&["a", ""]]),
        ] {
            assert_eq!(commands(text).unwrap(), expected, "{text}");
        }
        assert_eq!(commands("it's"), Err(NoWords::Unclosed('\'')));
    }

    #[test]
    fn what_was_quoted_comes_back_and_what_a_shell_would_do_is_refused() {
        for word in ["plain", "", "it's", "a b", "$HOME", "*", "a\nb", "\\", "\"", "é日", "~", "#x"] {
            assert_eq!(split(&quote(word), SPECIAL).unwrap(), [word], "{word}");
        }
        assert_eq!(split("a | b", SPECIAL), Err(NoWords::Special('|')));
        assert_eq!(split("a '|' b", SPECIAL).unwrap(), ["a", "|", "b"]);
    }
}
