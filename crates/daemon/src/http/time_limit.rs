//! Another time limit for a job that runs: its shim keeps the limit, so it is told first, and what it agreed to is
//! recorded. A service that ends in between leaves the shim with the new limit and nobody with a success.

use std::time::Duration;

use nexus_api::jobs::State as Word;
use nexus_api::problem::Problem;
use nexus_api::terminal::{FORMAT, FromShim, FromViewer, TimeLimit, ViewerHello};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{App, Shared};
use crate::engine::{Message, Revision};

/// A shim answers at once; one that does not is stopped, or the machine is overwhelmed.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// In seconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub from: Option<u64>,
    pub to: Option<u64>,
}

impl App {
    /// Tells the shim, then records. A retry that began with the old limit meanwhile is told as well.
    pub(super) async fn revise_with_limit(
        self: &Shared,
        id: &str,
        limit: LimitChange,
        revision: Revision,
    ) -> Result<(), Problem> {
        let told = self.limit_run(id, limit.to).await?;
        if let Err(problem) = self.order(|reply| Message::Revise { revision, reply }).await {
            // What was not recorded shall not hold. If this fails too the run has ended, and has no limit any more.
            let _ = self.limit_run(id, limit.from).await;
            return Err(problem);
        }
        match self.state_of(id).await? {
            (Word::Starting | Word::Running, number) if number != told => match self.limit_run(id, limit.to).await {
                // It is over, or waits again: the next run has it from the record.
                Err(Problem::WrongState { .. }) => Ok(()),
                done => done.map(drop),
            },
            _ => Ok(()),
        }
    }

    /// Gives the newest run another limit; which run that is.
    async fn limit_run(self: &Shared, id: &str, seconds: Option<u64>) -> Result<u32, Problem> {
        let kept = |error: String| Problem::TimeLimitKept { id: id.into(), error };
        let (mut shim, number) = match self.shim_of(id, "edit --time").await {
            Err(Problem::NoTerminal { error, .. }) => return Err(kept(error)),
            reached => reached?,
        };
        let limit = TimeLimit { limit_ms: seconds.map(|seconds| seconds.saturating_mul(1000)) };
        match timeout(ANSWER_LIMIT, tell(&mut shim, limit)).await {
            Ok(Ok(())) => Ok(number),
            Ok(Err(Untold::Refused(why))) => Err(kept(why)),
            Ok(Err(Untold::Ended)) => Err(kept("it has just ended".into())),
            Err(_) => Err(kept(format!("its shim did not answer within {} seconds", ANSWER_LIMIT.as_secs()))),
        }
    }
}

/// Why a shim has not taken a limit.
#[derive(Debug, PartialEq, Eq)]
enum Untold {
    Refused(String),
    /// The connection ended, and with it most likely the run.
    Ended,
}

/// Comes back when the limit holds.
async fn tell(shim: &mut UnixStream, limit: TimeLimit) -> Result<(), Untold> {
    let mut arrived = Vec::new();
    // Nothing that was printed before is of interest.
    say(shim, FromViewer::Hello(ViewerHello { format: FORMAT, from: Some(u64::MAX), ..ViewerHello::default() }))
        .await?;
    loop {
        match next(shim, &mut arrived).await? {
            FromShim::Hello(hello) if hello.takes_time_limit => say(shim, FromViewer::TimeLimit(limit)).await?,
            FromShim::Hello(_) => {
                let why = "it was started by an older nexus, whose limits stay as they were";
                return Err(Untold::Refused(why.into()));
            }
            FromShim::TimeLimitSet(set) if set == limit => return Ok(()),
            FromShim::Refused(why) => return Err(Untold::Refused(why)),
            FromShim::Ended(_) => return Err(Untold::Ended),
            FromShim::TimeLimitSet(_) | FromShim::Output(_) | FromShim::LeftOut(_) => {}
        }
    }
}

async fn say(shim: &mut UnixStream, frame: FromViewer) -> Result<(), Untold> {
    let mut bytes = Vec::new();
    frame.append_to(&mut bytes);
    shim.write_all(&bytes).await.map_err(|_| Untold::Ended)
}

async fn next(shim: &mut UnixStream, arrived: &mut Vec<u8>) -> Result<FromShim, Untold> {
    loop {
        let frame = FromShim::take_from(arrived).map_err(|bad| Untold::Refused(bad.to_string()))?;
        if let Some(frame) = frame {
            return Ok(frame);
        }
        match shim.read_buf(arrived).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(Untold::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_HOURS: TimeLimit = TimeLimit { limit_ms: Some(7_200_000) };

    /// A shim that answers hello and limit with these bytes, and then hangs up.
    async fn told(hello: &str, answers: &[FromShim]) -> (Result<(), Untold>, Vec<FromViewer>) {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut bytes = vec![17];
        bytes.extend((hello.len() as u32).to_le_bytes());
        bytes.extend(hello.as_bytes());
        answers.iter().for_each(|answer| answer.append_to(&mut bytes));
        theirs.write_all(&bytes).await.unwrap();
        let reader = tokio::spawn(async move {
            let (mut heard, mut frames) = (Vec::new(), Vec::new());
            while frames.len() < 2 && theirs.read_buf(&mut heard).await.is_ok_and(|count| count > 0) {
                while let Some(frame) = FromViewer::take_from(&mut heard).unwrap() {
                    frames.push(frame);
                }
            }
            frames
        });
        let result = tell(&mut ours, TWO_HOURS).await;
        drop(ours);
        (result, reader.await.unwrap())
    }

    #[tokio::test]
    async fn a_limit_holds_when_the_shim_says_so() {
        let hello = r#"{"format": 1, "tty": true, "position": 7, "takes_time_limit": true}"#;
        let (result, heard) =
            told(hello, &[FromShim::Output(b"meanwhile".to_vec()), FromShim::TimeLimitSet(TWO_HOURS)]).await;
        assert_eq!((result, heard.last()), (Ok(()), Some(&FromViewer::TimeLimit(TWO_HOURS))));
        let (result, _) = told(hello, &[FromShim::Refused("it is ending already".into())]).await;
        assert_eq!(result, Err(Untold::Refused("it is ending already".into())));
        let (result, _) = told(hello, &[]).await;
        assert_eq!(result, Err(Untold::Ended), "it hung up");
    }

    #[tokio::test]
    async fn a_shim_of_before_is_not_asked() {
        let (result, heard) = told(r#"{"format": 1, "tty": true, "position": 7}"#, &[]).await;
        assert!(matches!(result, Err(Untold::Refused(why)) if why.contains("older nexus")));
        assert!(matches!(heard.as_slice(), [FromViewer::Hello(_)]), "{heard:?}");
    }
}
