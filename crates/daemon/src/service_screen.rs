//! The service's own session of GNU screen: its window shows service.log. It is open for as long as that window is
//! connected, ends with the service, and stops the service when it is closed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use nexus_api::problem::Problem;
use nexus_api::run_dir::ScreenSession;
use nexus_node::screens::{self, Place, ScreenError, Wanted};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::blocking;

/// As people type it: `screen -r nexus`.
const NAME: &str = "nexus";

pub struct ServiceScreen {
    /// For its socket, should screen's own folder be of no use.
    own_dir: PathBuf,
    open: watch::Sender<Option<ScreenSession>>,
    /// One start at a time; where the last one put the session.
    starting: tokio::sync::Mutex<Place>,
}

impl ServiceScreen {
    pub fn new(own_dir: PathBuf) -> ServiceScreen {
        let place = Place { dir: None, is_own: false };
        ServiceScreen { own_dir, open: watch::Sender::new(None), starting: tokio::sync::Mutex::new(place) }
    }

    pub fn session(&self) -> Option<ScreenSession> {
        self.open.borrow().clone()
    }

    /// The window is here, or has gone.
    pub fn window(&self, session: Option<String>) {
        let place = match self.starting.try_lock() {
            Ok(place) => (place.dir.clone(), place.is_own),
            // It is being started: whoever does that puts the folder in.
            Err(_) => (None, false),
        };
        let open = session.map(|session| ScreenSession { session, dir: place.0, own_dir: place.1 });
        self.open.send_replace(open);
    }

    /// Starts the session, unless it is there, and waits for its window.
    pub async fn open(self: &Arc<ServiceScreen>) -> Result<(), Problem> {
        let mut place = self.starting.lock().await;
        if self.session().is_some() {
            return Ok(());
        }
        let own_dir = self.own_dir.clone();
        let fail = |error: String| Problem::NoScreen { error };
        let started = blocking::answer(move || start(own_dir)).await?;
        *place = started.map_err(|error| fail(error.to_string()))?;
        let mut opened = self.open.subscribe();
        // What is looked at is locked: it must be let go before it is changed.
        let is_here = async { opened.wait_for(Option::is_some).await.is_ok() };
        if timeout(screens::START_LIMIT, is_here).await != Ok(true) {
            return Err(fail(ScreenError::Late.to_string()));
        }
        self.open.send_modify(|open| {
            if let Some(open) = open {
                (open.dir, open.own_dir) = (place.dir.clone(), place.is_own);
            }
        });
        Ok(())
    }
}

fn start(own_dir: PathBuf) -> Result<Place, ScreenError> {
    let own = format!("/proc/{}/exe", std::process::id());
    let argv = [own, "__service-view".into()].map(OsString::from);
    let env: Vec<_> = std::env::vars_os().collect();
    screens::start(&Wanted { name: NAME, argv: &argv, env: &env, own_dir: &own_dir })
}
