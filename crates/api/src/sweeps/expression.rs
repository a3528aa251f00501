//! Conditions on the values of a point: `lr*seed < 3 and opt == 'adam'`.
//!
//! Numbers, texts in quotes, names of parameters; `+ - * / % **`, `< <= > >= == !=`, `and or not` (`&& || !`) and
//! parentheses, with the precedence of Python; `1 < lr < 3` too. A value that looks like a number is one; `true` and
//! `false` are what they say. Numbers count to 15 digits, so that 3 times 0.1 is 0.3.

mod parse;
mod tokens;
mod value;

use self::value::Value;

/// What is wrong, and at which character, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub at: usize,
    pub error: String,
}

impl Wrong {
    fn new(at: usize, error: impl Into<String>) -> Wrong {
        Wrong { at, error: error.into() }
    }
}

/// A condition that can be read, over names in their order.
#[derive(Clone, Debug)]
pub struct Condition {
    root: Node,
    /// Words and signs that it is made of.
    pub parts: usize,
}

/// A part of it, and where that stands.
#[derive(Clone, Debug)]
struct Node {
    at: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Number(f64),
    Text(String),
    Truth(bool),
    /// By its place among the names.
    Name(usize),
    Minus(Box<Node>),
    Not(Box<Node>),
    Sum(Box<Node>, Arithmetic, Box<Node>),
    /// `a < b <= c`: each with the next.
    Compare(Box<Node>, Vec<(usize, Order, Node)>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Other,
}

impl Condition {
    pub fn read(text: &str, names: &[String]) -> Result<Condition, Wrong> {
        let (root, parts) = parse::read(text, names)?;
        Ok(Condition { root, parts })
    }

    /// Whether it holds for these values, in the order of the names.
    pub fn holds(&self, values: &[String]) -> Result<bool, Wrong> {
        self.root.truth(values)
    }
}

impl Node {
    fn truth(&self, values: &[String]) -> Result<bool, Wrong> {
        let value = self.value(values)?;
        value.truth().ok_or_else(|| Wrong::new(self.at, format!("{value} is neither true nor false")))
    }

    fn value<'a>(&'a self, values: &'a [String]) -> Result<Value<'a>, Wrong> {
        Ok(match &self.kind {
            Kind::Number(number) => Value::Number(*number),
            Kind::Text(text) => Value::Text(text),
            Kind::Truth(truth) => Value::Truth(*truth),
            Kind::Name(place) => Value::Given(&values[*place]),
            Kind::Minus(inner) => Value::Number(-inner.number(values)?),
            Kind::Not(inner) => Value::Truth(!inner.truth(values)?),
            Kind::Sum(left, how, right) => {
                let (left, right) = (left.number(values)?, right.number(values)?);
                Value::Number(value::arithmetic(left, *how, right).map_err(|error| Wrong::new(self.at, error))?)
            }
            Kind::Compare(first, others) => {
                let mut left = first.value(values)?;
                for (at, order, node) in others {
                    let right = node.value(values)?;
                    if !value::compare(left, *order, right).map_err(|error| Wrong::new(*at, error))? {
                        return Ok(Value::Truth(false));
                    }
                    left = right;
                }
                Value::Truth(true)
            }
            Kind::All(nodes) => {
                let mut all = true;
                for node in nodes {
                    all = all && node.truth(values)?;
                }
                Value::Truth(all)
            }
            Kind::Any(nodes) => {
                let mut any = false;
                for node in nodes {
                    any = any || node.truth(values)?;
                }
                Value::Truth(any)
            }
        })
    }

    fn number(&self, values: &[String]) -> Result<f64, Wrong> {
        let value = self.value(values)?;
        value.number().ok_or_else(|| Wrong::new(self.at, format!("{value} is no number")))
    }
}

#[cfg(test)]
mod tests;
