//! `--gpu-arg=--cuda`: tells a command its GPUs in an argument of its own. What stands there already is rewritten,
//! else the argument is put at the end. Reads nothing but its arguments.

mod shell_text;

use nexus_api::command::Command;

use self::shell_text::Simple;
pub use self::shell_text::commands;

/// Programs that go with the one that works, and use no GPU.
const COMPANIONS: &[&str] = &[
    ":", "cat", "cd", "date", "echo", "exit", "export", "false", "printf", "set", "sleep", "source", "tee", "touch",
    "true", "unset", "wait", ".",
];

/// What is done to one word of a command, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// `--cuda X`: this word is the value.
    Value(usize),
    /// `--cuda=X`: this word is both.
    Joined(usize),
    /// `--cuda`, and no value behind it.
    Bare(usize),
}

/// The command with `option` saying `ids`.
pub fn told(command: Command, option: &str, ids: &str) -> Command {
    match command {
        Command::Argv(words) => Command::Argv(told_argv(words, option, ids)),
        Command::Shell(text) => Command::Shell(told_shell(text, option, ids)),
    }
}

fn told_argv(mut words: Vec<String>, option: &str, ids: &str) -> Vec<String> {
    let found = changes(&words.iter().map(String::as_str).collect::<Vec<_>>(), option);
    if found.is_empty() {
        words.extend([option.to_string(), ids.to_string()]);
    }
    // From the end on, so that places before it stay what they are.
    for change in found.into_iter().rev() {
        match change {
            Change::Value(place) => words[place] = ids.to_string(),
            Change::Joined(place) => words[place] = format!("{option}={ids}"),
            Change::Bare(place) => words.insert(place + 1, ids.to_string()),
        }
    }
    words
}

/// A text that no shell could read stays as it is: the shell will say what is wrong with it.
fn told_shell(mut text: String, option: &str, ids: &str) -> String {
    let Some(commands) = commands(&text) else { return text };
    let mut edits = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.words.iter().map(|word| &text[word.clone()]).collect();
        edits.extend(changes(&words, option).into_iter().map(|change| match change {
            Change::Value(place) => (command.words[place].clone(), ids.to_string()),
            Change::Joined(place) => (command.words[place].clone(), format!("{option}={ids}")),
            Change::Bare(place) => (command.words[place].end..command.words[place].end, format!(" {ids}")),
        }));
    }
    if edits.is_empty() {
        edits.extend(meant(&text, &commands).map(|command| (command.end..command.end, format!(" {option} {ids}"))));
    }
    for (range, new) in edits.into_iter().rev() {
        text.replace_range(range, &new);
    }
    text
}

/// The command that uses the GPUs, most likely: the first that could in the last pipeline that has one. Commands
/// behind it in its pipeline take what it prints.
fn meant<'a>(text: &str, commands: &'a [Simple]) -> Option<&'a Simple> {
    let could = |command: &&Simple| {
        let mut words = command.words.iter().map(|word| &text[word.clone()]);
        // Variables may be set before the program.
        words.find(|word| !word.contains('=')).is_some_and(|program| !COMPANIONS.contains(&program))
    };
    let mut pipelines = commands.chunk_by(|_, next| next.piped).rev();
    let last = pipelines.clone().next()?;
    pipelines.find_map(|pipeline| pipeline.iter().find(could)).or(last.first())
}

/// What to do to the words of one command; the first is the program.
fn changes(words: &[&str], option: &str) -> Vec<Change> {
    let joined = format!("{option}=");
    let mut changes = Vec::new();
    let mut place = 1;
    while place < words.len() {
        if words[place].starts_with(&joined) {
            changes.push(Change::Joined(place));
        } else if words[place] == option {
            match words.get(place + 1).is_some_and(|next| is_value(next)) {
                true => {
                    place += 1;
                    changes.push(Change::Value(place));
                }
                false => changes.push(Change::Bare(place)),
            }
        }
        place += 1;
    }
    changes
}

/// Another option is none; a negative number, for "no GPU", is one.
fn is_value(word: &str) -> bool {
    match word.strip_prefix('-') {
        Some(rest) => rest.starts_with(|c: char| c.is_ascii_digit()),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_rewritten_or_added() {
        let table: [(&[&str], &[&str]); 11] = [
            (&["python", "t.py"], &["python", "t.py", "--cuda", "1,3"]),
            (&["python", "t.py", "--cuda", "0"], &["python", "t.py", "--cuda", "1,3"]),
            (&["t", "--cuda", "0", "--lr", "3"], &["t", "--cuda", "1,3", "--lr", "3"]),
            (&["t", "--cuda=0", "x"], &["t", "--cuda=1,3", "x"]),
            (&["t", "--cuda="], &["t", "--cuda=1,3"]),
            (&["t", "--cuda"], &["t", "--cuda", "1,3"]),
            (&["t", "--cuda", "--lr", "3"], &["t", "--cuda", "1,3", "--lr", "3"]),
            (&["t", "--cuda", "-1"], &["t", "--cuda", "1,3"]),
            (&["t", "--cuda", ""], &["t", "--cuda", "1,3"]),
            // The last one counts for most programs, the first for some.
            (&["t", "--cuda", "0", "--cuda=2", "--cuda"], &["t", "--cuda", "1,3", "--cuda=1,3", "--cuda", "1,3"]),
            (&["--cuda", "--cudax", "x--cuda"], &["--cuda", "--cudax", "x--cuda", "--cuda", "1,3"]),
        ];
        for (before, after) in table {
            let argv = |words: &[&str]| Command::Argv(words.iter().map(|word| word.to_string()).collect());
            assert_eq!(told(argv(before), "--cuda", "1,3"), argv(after), "{before:?}");
        }
    }

    #[test]
    fn shell_texts_are_rewritten_outside_of_quotes() {
        for (before, after) in [
            ("t.py --cuda 0 --lr 3", "t.py --cuda 1,3 --lr 3"),
            ("t.py --cuda=0", "t.py --cuda=1,3"),
            ("t.py --cuda=\"$GPU\"'x' --lr 3", "t.py --cuda=1,3 --lr 3"),
            ("t.py --cuda \"$(pick a 'b c')\" -v", "t.py --cuda 1,3 -v"),
            ("t.py --cuda", "t.py --cuda 1,3"),
            ("t.py --cuda; echo done", "t.py --cuda 1,3; echo done"),
            ("t.py --cuda --lr 3", "t.py --cuda 1,3 --lr 3"),
            ("t.py --cuda -1 &", "t.py --cuda 1,3 &"),
            ("t.py --cuda >log 2>&1", "t.py --cuda 1,3 >log 2>&1"),
            ("t.py --cuda 2>err", "t.py --cuda 1,3 2>err"),
            ("t.py --cuda \\\n  0 \\\n  --lr 3", "t.py --cuda \\\n  1,3 \\\n  --lr 3"),
            ("a --cuda 0 && (b --cuda=0 | c) # --cuda 7", "a --cuda 1,3 && (b --cuda=1,3 | c) # --cuda 7"),
            ("for i in 1 2; do t.py --cuda 0; done", "for i in 1 2; do t.py --cuda 1,3; done"),
            (
                "cat <<EOF | t.py --cuda 0\n--cuda 5\nEOF\necho --cuda x",
                "cat <<EOF | t.py --cuda 1,3\n--cuda 5\nEOF\necho --cuda 1,3",
            ),
            ("é --cuda 0 ü", "é --cuda 1,3 ü"),
        ] {
            assert_eq!(told(Command::Shell(before.into()), "--cuda", "1,3"), Command::Shell(after.into()), "{before}");
        }
    }

    #[test]
    fn brackets_in_brackets_do_not_fill_the_stack() {
        for open in ["$(", "${", "\"$(", "<(", "a=("] {
            let deep = Command::Shell(open.repeat(60_000));
            assert_eq!(told(deep.clone(), "--cuda", "0"), deep, "{open}");
        }
        let nested = format!("t.py {}x{}", "$(".repeat(50), ")".repeat(50));
        assert_eq!(told(Command::Shell(nested.clone()), "-g", "2"), Command::Shell(format!("{nested} -g 2")));
    }

    #[test]
    fn what_a_shell_text_lacks_goes_to_its_last_command() {
        for (before, after) in [
            ("t.py", "t.py -g 2"),
            ("cd x && python t.py --lr 3\n\n", "cd x && python t.py --lr 3 -g 2\n\n"),
            ("t.py # not --cuda 0", "t.py -g 2 # not --cuda 0"),
            ("t.py\n# the end", "t.py -g 2\n# the end"),
            ("t.py &", "t.py -g 2 &"),
            ("t.py; ", "t.py -g 2; "),
            ("t.py >log 2>&1", "t.py >log 2>&1 -g 2"),
            ("t.py &>> log", "t.py &>> log -g 2"),
            ("t.py 2>&1 | tee log | tail", "t.py 2>&1 -g 2 | tee log | tail"),
            ("cd x || t.py |\n  tee log", "cd x || t.py -g 2 |\n  tee log"),
            ("cat x | t.py | sort", "cat x | t.py -g 2 | sort"),
            ("t.py & wait", "t.py -g 2 & wait"),
            ("A=1 t.py && echo done || exit 1", "A=1 t.py -g 2 && echo done || exit 1"),
            ("one.py; two.py; sleep 1", "one.py; two.py -g 2; sleep 1"),
            ("cd x; echo a | cat", "cd x; echo a -g 2 | cat"),
            ("(cd x; t.py)", "(cd x; t.py -g 2)"),
            ("(cd x; t.py) | tee log", "(cd x; t.py -g 2) | tee log"),
            ("{ cd x; t.py; }", "{ cd x; t.py -g 2; }"),
            ("for i in 1 2; do t.py $i; done > log", "for i in 1 2; do t.py $i -g 2; done > log"),
            ("if true; then t.py; fi | tee log", "if true; then t.py -g 2; fi | tee log"),
            ("t.py <<'E O'\n-g 7\nE O\n", "t.py -g 2 <<'E O'\n-g 7\nE O\n"),
            ("t.py <<-E\n\tx\n\tE\n", "t.py -g 2 <<-E\n\tx\n\tE\n"),
            ("t.py <<< 'a b'", "t.py <<< 'a b' -g 2"),
            ("t.py \"-g\" '-g 0' \"a -g 0\"", "t.py \"-g\" '-g 0' \"a -g 0\" -g 2"),
            ("t.py <(gen a) $((1 << 2))", "t.py <(gen a) $((1 << 2)) -g 2"),
            ("a=(1 2); t.py \"${a[@]}\"", "a=(1 2); t.py \"${a[@]}\" -g 2"),
            ("t.py a\\ b \\;", "t.py a\\ b \\; -g 2"),
            ("t.py $'it\\'s' `date -u`", "t.py $'it\\'s' `date -u` -g 2"),
            ("t.py x#y", "t.py x#y -g 2"),
            // No shell can read these.
            ("t.py 'x", "t.py 'x"),
            ("t.py \"x$(a", "t.py \"x$(a"),
            ("t.py \\", "t.py \\"),
            ("# nothing", "# nothing"),
        ] {
            assert_eq!(told(Command::Shell(before.into()), "-g", "2"), Command::Shell(after.into()), "{before}");
        }
    }
}
