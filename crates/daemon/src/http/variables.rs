//! Variables: set, listed by name, taken back. A value comes in and never goes out.

use axum::Json;
use axum::extract::State;
use nexus_api::problem::Problem;
use nexus_api::variables::{SetVariable, Variable, check_name, check_value};

use super::extract::{Path, Sent};
use super::problem::Failed;
use super::{App, Shared};
use crate::clock;
use crate::engine::Message;
use crate::store::VariableChange;

pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Variable>>, Failed> {
    Ok(Json(app.variables().await?))
}

pub async fn set(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Sent(SetVariable { value }): Sent<SetVariable>,
) -> Result<Json<Variable>, Failed> {
    let bad = |value: &str, want| Problem::BadField { field: "a variable".into(), value: value.into(), want };
    check_name(&name).map_err(|want| bad(&name, want))?;
    check_value(&value).map_err(|want| bad("this value", want))?;
    let change = VariableChange::Set { name: name.clone(), value, at: clock::now() };
    app.order(|reply| Message::Variable { change, reply }).await?;
    Ok(Json(app.named_variable(name).await?))
}

pub async fn unset(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Variable>, Failed> {
    let change = VariableChange::Unset { name: name.clone() };
    app.order(|reply| Message::Variable { change, reply }).await?;
    Ok(Json(app.named_variable(name).await?))
}

impl App {
    async fn variables(self: &Shared) -> Result<Vec<Variable>, Problem> {
        self.read(|reader| reader.variables().map_err(|error| error.problem())).await
    }

    /// As it is now; one that is gone was taken back, and no job needs it.
    async fn named_variable(self: &Shared, name: String) -> Result<Variable, Problem> {
        let known = self.variables().await?.into_iter().find(|variable| variable.name == name);
        let gone = || Variable { name, is_set: false, set_at: clock::rfc3339(clock::now()), jobs: 0 };
        Ok(known.unwrap_or_else(gone))
    }
}
