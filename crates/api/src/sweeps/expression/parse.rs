//! From the words of a condition to what it means.

use super::tokens::{self, Token};
use super::{Arithmetic, Kind, Node, Order, Wrong};

/// Parentheses in parentheses, and signs before signs.
const DEEPEST: usize = 100;

/// What stands where it makes no sense.
const LONGEST: usize = 10_000;

/// Its root, and how many words and signs it has.
pub fn read(text: &str, names: &[String]) -> Result<(Node, usize), Wrong> {
    if text.len() > LONGEST {
        return Err(Wrong::new(1, format!("it is longer than {LONGEST} bytes")));
    }
    let tokens = tokens::read(text)?;
    let mut reader = Reader { tokens, place: 0, end: text.chars().count() + 1, depth: 0, names };
    let root = reader.any()?;
    match reader.tokens.get(reader.place) {
        None => Ok((root, reader.tokens.len())),
        Some((at, token)) => Err(Wrong::new(*at, format!("{} is not expected here", token.shown()))),
    }
}

struct Reader<'a> {
    tokens: Vec<(usize, Token)>,
    place: usize,
    /// The character behind the last.
    end: usize,
    depth: usize,
    names: &'a [String],
}

impl Reader<'_> {
    fn at(&self) -> usize {
        self.tokens.get(self.place).map_or(self.end, |(at, _)| *at)
    }

    /// Takes the next one if it is this sign or this word.
    fn takes(&mut self, sign: &str, word: &str) -> bool {
        let found = match self.tokens.get(self.place) {
            Some((_, Token::Sign(next))) => *next == sign,
            Some((_, Token::Word(next))) => next == word,
            _ => false,
        };
        self.place += usize::from(found);
        found
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        self.takes(sign, "")
    }

    fn any(&mut self) -> Result<Node, Wrong> {
        let mut nodes = vec![self.all()?];
        while self.takes("||", "or") {
            nodes.push(self.all()?);
        }
        Ok(joined(nodes, Kind::Any))
    }

    fn all(&mut self) -> Result<Node, Wrong> {
        let mut nodes = vec![self.not()?];
        while self.takes("&&", "and") {
            nodes.push(self.not()?);
        }
        Ok(joined(nodes, Kind::All))
    }

    fn not(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        match self.takes("!", "not") {
            true => {
                let inner = self.deeper(Self::not)?;
                Ok(Node { at, kind: Kind::Not(Box::new(inner)) })
            }
            false => self.comparison(),
        }
    }

    fn comparison(&mut self) -> Result<Node, Wrong> {
        let first = self.sum()?;
        let mut others = Vec::new();
        loop {
            let at = self.at();
            let Some(order) = self.order() else { break };
            others.push((at, order, self.sum()?));
        }
        match others.is_empty() {
            true => Ok(first),
            false => Ok(Node { at: first.at, kind: Kind::Compare(Box::new(first), others) }),
        }
    }

    fn order(&mut self) -> Option<Order> {
        let orders = [
            ("<", Order::Less),
            ("<=", Order::AtMost),
            (">", Order::More),
            (">=", Order::AtLeast),
            ("==", Order::Equal),
            ("!=", Order::Other),
        ];
        orders.into_iter().find(|(sign, _)| self.takes_sign(sign)).map(|(_, order)| order)
    }

    fn sum(&mut self) -> Result<Node, Wrong> {
        self.chain(&[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Node, Wrong> {
        let signs = [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
        self.chain(&signs, Self::signed)
    }

    /// From left to right.
    fn chain(
        &mut self,
        signs: &[(&str, Arithmetic)],
        part: impl Fn(&mut Self) -> Result<Node, Wrong>,
    ) -> Result<Node, Wrong> {
        let mut left = part(self)?;
        // A long chain is deep when it is worked out.
        for _ in 0..DEEPEST {
            let at = self.at();
            let Some((_, how)) = signs.iter().find(|(sign, _)| self.takes_sign(sign)) else { return Ok(left) };
            let right = part(self)?;
            left = Node { at, kind: Kind::Sum(Box::new(left), *how, Box::new(right)) };
        }
        Err(Wrong::new(self.at(), "there is too much of it"))
    }

    fn signed(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        if self.takes_sign("+") {
            return self.deeper(Self::signed);
        }
        match self.takes_sign("-") {
            true => {
                let inner = self.deeper(Self::signed)?;
                Ok(Node { at, kind: Kind::Minus(Box::new(inner)) })
            }
            false => self.power(),
        }
    }

    /// Binds stronger than a sign before it: -2**2 is -4.
    fn power(&mut self) -> Result<Node, Wrong> {
        let base = self.single()?;
        let at = self.at();
        match self.takes_sign("**") {
            true => {
                let exponent = self.deeper(Self::signed)?;
                Ok(Node { at, kind: Kind::Sum(Box::new(base), Arithmetic::Power, Box::new(exponent)) })
            }
            false => Ok(base),
        }
    }

    fn single(&mut self) -> Result<Node, Wrong> {
        let at = self.at();
        let Some((_, token)) = self.tokens.get(self.place).cloned() else {
            let error =
                if self.tokens.is_empty() { "there is no condition" } else { "something is missing at its end" };
            return Err(Wrong::new(at, error));
        };
        self.place += 1;
        let kind = match token {
            Token::Number(number) => Kind::Number(number),
            Token::Text(text) => Kind::Text(text),
            Token::Word(word) => self.word(&word, at)?,
            Token::Sign("(") => {
                let inner = self.deeper(Self::any)?;
                return match self.takes_sign(")") {
                    true => Ok(inner),
                    false => Err(Wrong::new(at, "this parenthesis is not closed")),
                };
            }
            Token::Sign(sign) => return Err(Wrong::new(at, format!("a number or a name is missing before {sign}"))),
        };
        Ok(Node { at, kind })
    }

    fn word(&self, word: &str, at: usize) -> Result<Kind, Wrong> {
        if let Some(place) = self.names.iter().position(|name| name == word) {
            return Ok(Kind::Name(place));
        }
        match word {
            "true" | "True" => Ok(Kind::Truth(true)),
            "false" | "False" => Ok(Kind::Truth(false)),
            "and" | "or" | "not" => Err(Wrong::new(at, format!("{word} is not expected here"))),
            _ => {
                let names = self.names.join(", ");
                Err(Wrong::new(at, format!("there is no parameter {word}, only {names}; a text stands in quotes")))
            }
        }
    }

    fn deeper(&mut self, part: impl Fn(&mut Self) -> Result<Node, Wrong>) -> Result<Node, Wrong> {
        if self.depth == DEEPEST {
            return Err(Wrong::new(self.at(), "it is nested too deeply"));
        }
        self.depth += 1;
        let node = part(self);
        self.depth -= 1;
        node
    }
}

fn joined(mut nodes: Vec<Node>, kind: impl Fn(Vec<Node>) -> Kind) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => Node { at: nodes[0].at, kind: kind(nodes) },
    }
}
