//! `{names}` in a text: of a sweep's parameters, and of variables. Only names that somebody declared are replaced; every
//! other brace is the text's own, as is `${name}`, which is the shell's. What is put in is not looked at again.

/// Where a name stands.
struct Place<'a> {
    name: &'a str,
    /// From its brace to behind the other.
    start: usize,
    end: usize,
}

/// Whether this can be the name of a parameter or a variable.
pub fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// Names that stand in the text as `{name}`, in their order; one that stands there twice comes twice.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    places(text).map(|place| place.name)
}

/// The text with a value for every name that `value_of` knows.
pub fn fill<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for Place { name, start, end } in places(text) {
        if let Some(value) = value_of(name) {
            filled.push_str(&text[from..start]);
            filled.push_str(value);
            from = end;
        }
    }
    filled.push_str(&text[from..]);
    filled
}

fn places(text: &str) -> impl Iterator<Item = Place<'_>> {
    text.match_indices('{').filter_map(|(start, _)| {
        if text[..start].ends_with('$') {
            return None;
        }
        let inside = &text[start + 1..];
        let length = inside.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        let name = &inside[..length];
        let closes = inside[length..].starts_with('}');
        (closes && is_name(name)).then_some(Place { name, start, end: start + length + 2 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        fill(text, |name| match name {
            "lr" => Some("0.1"),
            "seed" => Some("{lr}"),
            _ => None,
        })
    }

    #[test]
    fn declared_names_are_replaced_and_every_other_brace_stays() {
        for (text, expected) in [
            ("train --lr {lr}", "train --lr 0.1"),
            ("{lr}{lr}x{lr}", "0.10.1x0.1"),
            // What is put in is not looked at again.
            ("{seed}", "{lr}"),
            ("echo ${lr} $lr {lr}", "echo ${lr} $lr 0.1"),
            ("echo '{\"lr\": {lr}, \"x\": {}}'", "echo '{\"lr\": 0.1, \"x\": {}}'"),
            ("awk '{print $1}' | awk '{lr = 3}'", "awk '{print $1}' | awk '{lr = 3}'"),
            ("python -c 'print(f\"{x} {y:.3f} {lr!r}\")'", "python -c 'print(f\"{x} {y:.3f} {lr!r}\")'"),
            ("cp a.{txt,md} {a..z} { lr } {lr", "cp a.{txt,md} {a..z} { lr } {lr"),
            ("{other} {LR} {1} {} {{lr}} {é}", "{other} {LR} {1} {} {0.1} {é}"),
            ("日{lr}本{", "日0.1本{"),
        ] {
            assert_eq!(filled(text), expected);
        }
    }

    #[test]
    fn names_are_found_in_their_order() {
        let found: Vec<&str> = names("a {x} ${y} {z} {x} {1x} {}").collect();
        assert_eq!(found, ["x", "z", "x"]);
    }
}
