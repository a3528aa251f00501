//! What parts of a condition come to, and how they are compared.

use std::cmp::Ordering;
use std::fmt;

use super::{Arithmetic, Order};
use crate::sweeps::decimal::fraction;

#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Number(f64),
    /// In quotes: never a number.
    Text(&'a str),
    Truth(bool),
    /// A parameter's: whatever it looks like.
    Given(&'a str),
}

impl Value<'_> {
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Given(text) => fraction(text.trim()),
            Value::Text(_) | Value::Truth(_) => None,
        }
    }

    pub fn truth(&self) -> Option<bool> {
        match self {
            Value::Truth(truth) => Some(*truth),
            Value::Given("true" | "True") => Some(true),
            Value::Given("false" | "False") => Some(false),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Given(text) => Some(text),
            Value::Number(_) | Value::Truth(_) => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Truth(truth) => write!(f, "{truth}"),
            Value::Given(text) if self.number().is_some() => f.write_str(text.trim()),
            Value::Text(text) | Value::Given(text) => write!(f, "{text:?}"),
        }
    }
}

pub fn arithmetic(left: f64, how: Arithmetic, right: f64) -> Result<f64, String> {
    if right == 0.0 && matches!(how, Arithmetic::Divide | Arithmetic::Remainder) {
        return Err("this divides by zero".into());
    }
    let result = match how {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        // Of the sign of the divisor, as in Python.
        Arithmetic::Remainder => left - right * (left / right).floor(),
        Arithmetic::Power => libm::pow(left, right),
    };
    match result.is_finite() {
        true => Ok(to_fifteen_digits(result)),
        false => Err("this comes to no number, or to one that is too large".into()),
    }
}

/// What is computed in binary fractions is off in the 16th digit, and nobody means that.
fn to_fifteen_digits(number: f64) -> f64 {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => number,
        false => format!("{number:.14e}").parse().unwrap_or(number),
    }
}

pub fn compare(left: Value, order: Order, right: Value) -> Result<bool, String> {
    match order {
        Order::Equal => return Ok(equal(left, right)),
        Order::Other => return Ok(!equal(left, right)),
        _ => {}
    }
    let ordering = match (left.number(), right.number(), left.text(), right.text()) {
        (Some(left), Some(right), ..) => left.partial_cmp(&right),
        // Two texts; a number among them is one that the other is not.
        (None, None, Some(left), Some(right)) => Some(left.cmp(right)),
        _ => None,
    };
    let ordering =
        ordering.ok_or_else(|| format!("{left} and {right} are of different kinds, and neither is the smaller"))?;
    Ok(match order {
        Order::Less => ordering == Ordering::Less,
        Order::AtMost => ordering != Ordering::Greater,
        Order::More => ordering == Ordering::Greater,
        _ => ordering != Ordering::Less,
    })
}

/// As numbers where both are, else as truths, else letter by letter; what differs in kind is not equal.
fn equal(left: Value, right: Value) -> bool {
    if let (Some(left), Some(right)) = (left.number(), right.number()) {
        return left == right;
    }
    if let (Some(left), Some(right)) = (left.truth(), right.truth()) {
        return left == right;
    }
    matches!((left.text(), right.text()), (Some(left), Some(right)) if left == right)
}
