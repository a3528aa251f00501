//! The GNU screen session of a run: started before the command, which waits for its window, and closed with the run.
//! The shim stays outside of it, so that closing the session, however hard, leaves somebody to end the job.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{RunSpec, ScreenSession, ScreenSpec};
use rustix::event::{PollFd, Timespec, poll};
use rustix::process::{getpid, set_child_subreaper};

use super::failure::Failure;
use super::viewers::{Seen, Viewers};
use crate::processes::{self, Process};
use crate::screens::{self, ScreenError, Wanted};

/// A session whose window has ended goes by itself within this time; then it is told to.
const BY_ITSELF: Duration = Duration::from_millis(300);
const GONE_LIMIT: Duration = Duration::from_secs(2);
const GONE_LOOK: Duration = Duration::from_millis(5);

/// The session and its process.
pub struct Session {
    pub told: ScreenSession,
    process: Option<Process>,
}

impl Session {
    /// Starts it and waits for its window.
    pub fn open(wanted: &ScreenSpec, spec: &RunSpec, viewers: &mut Viewers) -> Result<Session, Failure> {
        let fail = |error: ScreenError| Failure::Screen { error };
        let name = viewers.name.clone().ok_or_else(|| fail(ScreenError::Late))?;
        viewers.await_session();
        let own = format!("/proc/{}/exe", std::process::id());
        let argv = [own, "__viewer".into(), name].map(OsString::from);
        let env: Vec<_> = spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        // The session is to be nobody's child here: the shim waits for all of its children to end.
        let _ = set_child_subreaper(None);
        let started = screens::start(&Wanted { name: &wanted.name, argv: &argv, env: &env, own_dir: &wanted.dir });
        let _ = set_child_subreaper(Some(getpid()));
        let place = started.map_err(fail)?;
        let until = Instant::now() + screens::START_LIMIT;
        let session = loop {
            if let Some(session) = viewers.session() {
                break session.to_owned();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(fail(ScreenError::Late));
            }
            let mut polled: Vec<_> =
                viewers.polled().map(|(one, flags)| PollFd::from_borrowed_fd(one, flags)).collect();
            let _ = poll(&mut polled, Timespec::try_from(left).ok().as_ref());
            drop(polled);
            viewers.serve(&Seen { stdout: None, stderr: None, printed: 0 });
        };
        let told = ScreenSession { session, dir: place.dir, own_dir: place.is_own };
        let process = told.pid().and_then(processes::stat).map(|stat| stat.process);
        Ok(Session { told, process })
    }

    /// After the run: a session with windows of the user's own goes as well.
    pub fn close(self) {
        let Some(process) = self.process else { return };
        if is_gone_within(process, BY_ITSELF) {
            return;
        }
        process.signal(libc::SIGTERM);
        if !is_gone_within(process, GONE_LIMIT) {
            process.signal(libc::SIGKILL);
        }
    }
}

fn is_gone_within(process: Process, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let lives = processes::stat(process.pid).is_some_and(|stat| stat.process == process && !stat.zombie);
        if !lives || Instant::now() > until {
            return !lives;
        }
        std::thread::sleep(GONE_LOOK);
    }
}
