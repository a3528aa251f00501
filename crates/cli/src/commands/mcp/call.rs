//! One call of a tool: what it asks for, and who asks.

use rmcp::RoleServer;
use rmcp::model::{JsonObject, ProgressNotificationParam, Tool};
use rmcp::service::RequestContext;
use tokio::sync::watch;

use super::answer::Answer;
use super::asked::read;
use super::{kill, list, logs, look, submit, sweep, sweep_results, wait};
use crate::app::App;
use crate::client::Client;
use crate::error::CliError;

pub enum Call {
    Submit(Box<submit::Call>),
    Sweep(Box<sweep::Call>),
    Kill(kill::Call),
    Wait(wait::Call),
    List(list::Args),
    Logs(logs::Args),
    SweepResults(sweep_results::Args),
    Show(look::OneJob),
    Why(look::OneJob),
    Status,
    Gpus,
}

impl Call {
    /// What these arguments of the tool mean.
    pub fn read(tool: &Tool, arguments: &JsonObject, app: &App) -> Result<Call, CliError> {
        Ok(match tool.name.as_ref() {
            "submit" => Call::Submit(Box::new(submit::Call::new(read(tool, arguments)?, app)?)),
            "sweep" => Call::Sweep(Box::new(sweep::Call::new(read(tool, arguments)?, app)?)),
            "kill" => Call::Kill(kill::Call::new(read(tool, arguments)?)?),
            "wait" => Call::Wait(wait::Call::new(read(tool, arguments)?)?),
            "list" => Call::List(read(tool, arguments)?),
            "logs" => Call::Logs(read(tool, arguments)?),
            "sweep_results" => Call::SweepResults(read(tool, arguments)?),
            "show" => Call::Show(read(tool, arguments)?),
            "why" => Call::Why(read(tool, arguments)?),
            "status" => read::<look::NoArgs>(tool, arguments).map(|_| Call::Status)?,
            "gpus" => read::<look::NoArgs>(tool, arguments).map(|_| Call::Gpus)?,
            other => unreachable!("{other} is listed, and nobody answers it"),
        })
    }

    pub fn changes(&self) -> bool {
        matches!(self, Call::Submit(_) | Call::Sweep(_) | Call::Kill(_))
    }

    /// Does it. To do it again, after the service went away meanwhile, does no harm.
    pub async fn answer(&self, client: &Client, caller: &Caller) -> Result<Answer, CliError> {
        match self {
            Call::Submit(call) => submit::run(call, client).await,
            Call::Sweep(call) => sweep::run(call, client).await,
            Call::Kill(call) => kill::run(call, client, caller).await,
            Call::Wait(call) => wait::run(call, client, caller).await,
            Call::List(args) => list::run(args, client).await,
            Call::Logs(args) => logs::run(args, client).await,
            Call::SweepResults(args) => sweep_results::run(args, client).await,
            Call::Show(job) => look::show(job, client).await,
            Call::Why(job) => look::why(job, client).await,
            Call::Status => look::status(client).await,
            Call::Gpus => look::gpus(client).await,
        }
    }
}

/// Who called, and may go away.
pub struct Caller {
    context: RequestContext<RoleServer>,
    is_gone: watch::Receiver<bool>,
}

impl Caller {
    pub fn new(context: RequestContext<RoleServer>, is_gone: watch::Receiver<bool>) -> Caller {
        Caller { context, is_gone }
    }

    /// Returns when the client is gone.
    pub async fn gone(&self) {
        // An input that is dropped is over, too.
        let _ = self.is_gone.clone().wait_for(|gone| *gone).await;
    }

    /// Tells how far a call is, if that was asked for.
    pub async fn tell(&self, done: f64, of: f64, message: String) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let told = ProgressNotificationParam::new(token, done).with_total(of).with_message(message);
        // Who does not listen any more is told nothing.
        let _ = self.context.peer.notify_progress(told).await;
    }
}
