//! Runs on other machines, as if they were here: what they print is brought here before it is read, and their terminals
//! are reached over the line.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use nexus_api::problem::Problem;
use nexus_api::run_dir::of_run;
use nexus_core::ids::RunId;
use nexus_node::line::Channel;
use nexus_node::threads;

use super::Shared;
use crate::backend::ssh::Remote;
use crate::blocking;
use crate::mirrors::Reading;
use crate::store::RunSite;

/// Bytes of a terminal at a time.
const PIECE: usize = 16 << 10;

const STACK: usize = 128 << 10;

/// A run on another machine, and the line to it.
pub(super) struct Away {
    run: RunId,
    machine: String,
    here: PathBuf,
    there: PathBuf,
    remote: Remote,
}

impl super::App {
    /// The run, if it is on another machine and not all of what it printed is here.
    pub(super) async fn away(self: &Shared, id: &str, number: u32) -> Result<Option<Away>, Problem> {
        let (job, missing) = (id.to_string(), Problem::NoLog { id: id.to_string(), attempt: Some(number) });
        let site = self.read(move |reader| reader.run_site(&job, number).map_err(|error| error.problem())).await?;
        let RunSite { run, machine, is_here, dir } = site.ok_or(missing)?;
        if is_here || self.lines.mirrors.is_whole(run) {
            return Ok(None);
        }
        let unreachable = |why: &str| Problem::Unreachable { machine: machine.clone(), why: why.to_string() };
        let remote = self.lines.named(&machine).ok_or_else(|| unreachable("it is not in the pool any more"))?;
        let hello = remote.hello().ok_or_else(|| unreachable("it was not reached since the service began"))?;
        let there = of_run(&hello.logs, run.job.as_str(), run.number);
        Ok(Some(Away { run, machine, here: dir, there, remote }))
    }

    /// Sees to it that what a run has printed so far is here. What comes back keeps it so; none where all of it is.
    pub(super) async fn brought(self: &Shared, id: &str, number: u32) -> Result<Option<Reading>, Problem> {
        let Some(Away { run, machine, here, there, remote }) = self.away(id, number).await? else { return Ok(None) };
        let reading = self.lines.mirrors.read(run, there, here, &remote);
        let level = match reading {
            Some(mut reading) => reading.level().await.map(|()| Some(reading)),
            None => Ok(None),
        };
        // It may have ended meanwhile: then all of it is brought.
        self.lines.mirrors.whole(run).await;
        match level {
            Ok(reading) => Ok(reading),
            Err(_) if self.lines.mirrors.is_whole(run) => Ok(None),
            Err(why) => Err(Problem::Unreachable { machine, why }),
        }
    }
}

impl Away {
    /// A connection to the shim, as if it were on this machine.
    pub async fn terminal(self) -> Result<UnixStream, String> {
        let Away { there, remote, .. } = self;
        let reach = move || remote.open_terminal(there).and_then(bridge).map_err(|error| error.to_string());
        blocking::answer(reach).await.unwrap_or_else(|problem| Err(problem.to_string()))
    }
}

/// A socket whose other end is the channel's.
fn bridge(channel: Channel) -> std::io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let (channel, back) = (Arc::new(channel), ours.try_clone()?);
    let to_there = channel.clone();
    threads::start_with_stack("nexus-terminal", STACK, move || {
        pass(&mut &ours, &mut &*to_there);
        // Nothing more is typed: the shim lets go of this viewer.
        to_there.close();
    })?;
    threads::start_with_stack("nexus-terminal", STACK, move || {
        pass(&mut &*channel, &mut &back);
        let _ = back.shutdown(Shutdown::Both);
    })?;
    Ok(theirs)
}

/// Until either end is closed.
fn pass(from: &mut impl Read, to: &mut impl Write) {
    let mut piece = [0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
}
