//! Names of signals.

const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("WINCH", 28),
    ("SYS", 31),
];

/// `USR1`, `SIGUSR1`, `usr1` or `10`.
pub fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number)
}

/// `signal 9 (KILL)`
pub fn described(number: i32) -> String {
    match NAMES.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => format!("signal {number} ({name})"),
        None => format!("signal {number}"),
    }
}

/// `USR1`, or the number.
pub fn name(number: i32) -> String {
    match NAMES.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => name.to_string(),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_and_named() {
        for text in ["USR1", "SIGUSR1", "usr1", "10"] {
            assert_eq!(number(text), Some(10), "{text}");
        }
        for bad in ["", "SIG", "0", "65", "USR3"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(described(9), "signal 9 (KILL)");
        assert_eq!(name(34), "34");
    }
}
