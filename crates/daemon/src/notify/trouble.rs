//! Why a notice did not arrive.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub why: String,
    /// It may go away by itself.
    pub may_pass: bool,
    /// The server wants to be left alone for so long.
    pub after: Option<Duration>,
}

impl Trouble {
    pub fn passing(why: String) -> Trouble {
        Trouble { why, may_pass: true, after: None }
    }

    pub fn lasting(why: String) -> Trouble {
        Trouble { why, may_pass: false, after: None }
    }
}
