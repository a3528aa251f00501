//! Variables: values that commands name as `{TOKEN}`. A value crosses the socket when it is set, and never comes back.

use serde::{Deserialize, Serialize};

/// Body of `PUT /v1/variables/NAME`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVariable {
    pub value: String,
}

/// Whoever prints it prints no secret.
impl std::fmt::Debug for SetVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SetVariable { .. }")
    }
}

/// A variable in `GET /v1/variables`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    /// False once it was taken back: its value stays until the last job that needs it has ended.
    pub is_set: bool,
    pub set_at: String,
    /// Jobs that need it and have not ended.
    pub jobs: u64,
}
