//! Conditions and what they come to.

use super::*;

fn names() -> Vec<String> {
    ["lr", "seed", "opt", "amp"].map(String::from).to_vec()
}

fn holds(text: &str) -> Result<bool, Wrong> {
    let values = ["0.1", "3", "adam", "true"].map(String::from);
    Condition::read(text, &names())?.holds(&values)
}

#[test]
fn conditions_hold_or_not() {
    for (text, expected) in [
        ("lr*seed<3", true),
        ("lr * seed == 0.3", true),
        ("lr + 0.2 == 0.3", true),
        ("seed ** 2 == 9 and seed % 2 == 1", true),
        ("2 ** 3 ** 2 == 512", true),
        ("-2**2 == -4", true),
        ("2**-1 == 0.5", true),
        ("-7 % 3 == 2", true),
        ("1 + 2 * 3 == 7 && (1 + 2) * 3 == 9", true),
        ("7 - 2 - 1 == 4 and 8 / 4 / 2 == 1", true),
        ("1 < seed < 5", true),
        ("1 < seed < 2", false),
        ("1 < seed == 3 != 4", true),
        ("opt == 'adam'", true),
        ("opt != \"sgd\"", true),
        ("opt == 3 or opt == lr", false),
        ("opt < 'b'", true),
        ("seed == '3'", true),
        ("seed == 3.0 and seed == 3e0", true),
        ("amp", true),
        ("not amp or !amp", false),
        ("amp == true and amp != False", true),
        ("not seed == 4", true),
        ("seed == 1 or seed == 2 or seed == 3", true),
        ("seed == 3 or lr == 0 and seed == 4", true),
        ("opt == 'sgd' and 1/0 == 1", false),
        ("+seed == - -3", true),
        ("1e-3 < lr<=.1", true),
    ] {
        assert_eq!(holds(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let deep = "(".repeat(5000);
    let long = vec!["1"; 3000].join("+");
    for (text, at, error) in [
        ("", 1, "there is no condition"),
        ("lr <", 5, "missing at its end"),
        ("lr < rl", 6, "no parameter rl, only lr, seed"),
        ("opt == adam", 8, "a text stands in quotes"),
        ("lr = 3", 4, "=="),
        ("lr < 3)", 7, ") is not expected"),
        ("(lr < 3", 1, "not closed"),
        ("opt == 'adam", 8, "not closed"),
        ("lr < 3 seed", 8, "seed is not expected"),
        ("lr < 1x", 6, "1x is no number"),
        ("* 3", 1, "missing before *"),
        ("lr and or 3", 8, "or is not expected"),
        ("日 < 3", 1, "has no meaning"),
        ("'日本' == 本", 9, "has no meaning"),
        ("lr", 1, "0.1 is neither true nor false"),
        ("seed + 1", 6, "4 is neither"),
        ("opt < 3", 5, "\"adam\" and 3 are of different kinds"),
        ("lr < 'x'", 4, "0.1 and \"x\" are of different kinds"),
        ("opt * 2 == 1", 1, "\"adam\" is no number"),
        ("seed / (seed - 3) > 1", 6, "divides by zero"),
        ("seed % 0 == 1", 6, "divides by zero"),
        ("10 ** 10 ** 10 > 1", 4, "too large"),
        ("(0-1) ** 0.5 > 1", 7, "no number"),
        (&deep, 102, "nested too deeply"),
        (&long, 202, "too much"),
    ] {
        let wrong = holds(text).expect_err(text);
        assert!(wrong.at == at && wrong.error.contains(error), "{at} {error}: {wrong:?}");
    }
}
