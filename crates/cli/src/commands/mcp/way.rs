//! The way to the service, through its restarts.
//!
//! A service that restarts is waited for. Whether one that is gone is started again depends on why it is gone: one that
//! died left its socket behind, one that was stopped took it away, and whoever stopped it did not mean it to come back
//! because an assistant looks at the queue. So what only looks starts a service when this server has met none yet, or
//! when it died; what changes something starts one in any case; with `--read-only` none is started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::ends::{RESTART_LIMIT, RESTART_LOOK, is_away};
use crate::error::CliError;

/// A service on its way out leaves its socket for less than this.
const GOING: Duration = Duration::from_secs(1);

pub struct Way {
    pub app: App,
    pub read_only: bool,
    /// Whether a service has answered this server before.
    met: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Look,
    Change,
}

impl Way {
    pub fn new(app: App, read_only: bool) -> Way {
        Way { app, read_only, met: AtomicBool::new(false) }
    }

    /// After something failed: returns when it may be tried again, from its beginning; with the error where that is of no use.
    /// `away_since` is when this began.
    pub async fn again(&self, wish: Wish, error: CliError, away_since: &mut Option<Instant>) -> Result<(), CliError> {
        if !is_away(&error) && !matches!(error, CliError::ServiceLeft { .. }) {
            if matches!(error, CliError::Problem(_)) {
                self.met();
            }
            return Err(error);
        }
        let away = away_since.get_or_insert_with(Instant::now).elapsed();
        if away > RESTART_LIMIT || self.is_left_alone(&error) {
            return Err(error);
        }
        match self.starts(wish, &error, away) {
            true => drop(self.app.started().await?),
            false => sleep(RESTART_LOOK).await,
        }
        Ok(())
    }

    /// A service has answered.
    pub fn met(&self) {
        self.met.store(true, Ordering::Relaxed);
    }

    /// Nobody was there yet, and nobody is to be started: there is nothing to wait for.
    fn is_left_alone(&self, error: &CliError) -> bool {
        matches!(error, CliError::NoService { .. }) && self.read_only && !self.met.load(Ordering::Relaxed)
    }

    fn starts(&self, wish: Wish, error: &CliError, away: Duration) -> bool {
        let is_gone = matches!(error, CliError::NoService { .. });
        let has_died = || away > GOING && self.app.client.has_socket();
        is_gone && !self.read_only && (wish == Wish::Change || !self.met.load(Ordering::Relaxed) || has_died())
    }
}
