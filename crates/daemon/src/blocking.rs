//! Threads that wait for the disk and for other programs, so that the threads that serve clients do not.
//!
//! tokio makes such threads when there is work, ends them when there is none, and panics when the system refuses a new one. At
//! the limit of processes any `nexus status` would then end the service. So all threads are made when the service starts, and
//! they stay for as long as it runs: later work finds its thread, or waits for one. `clippy.toml` forbids tokio's own functions
//! outside this file.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nexus_api::problem::Problem;
use nexus_node::threads;
use rustix::process::{Resource, getrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::panics::spare;

/// Threads that serve clients.
const SERVING_THREADS: usize = 2;

/// Threads that read the database for clients; more would only stand in each other's way.
const BLOCKING_THREADS: usize = 8;

/// Threads and processes that the service starts next: the engine, the node, the launcher, watchers of GPUs and files, notices,
/// mirrors. The system must grant these too, and give back those of the probe, which are still ending.
const HEADROOM: usize = 16;

/// How long a new thread may take until it runs.
const THREAD_START_LIMIT: Duration = Duration::from_secs(20);

/// A thread that is not asked for anything for so long ends: never, that is.
const KEEP_ALIVE: Duration = Duration::from_secs(1 << 32);

/// Pieces of work for requests that run or wait at once. One more is refused, with 503.
const MAX_REQUESTS: usize = 1000;

/// The runtime of the service with all of its threads. An error where the system refuses one of them.
#[expect(clippy::disallowed_methods, reason = "the one runtime of the service")]
pub fn runtime() -> io::Result<Runtime> {
    // tokio panics where it is refused a thread, and its unwinding waits for the threads that it got.
    probe(SERVING_THREADS + BLOCKING_THREADS + HEADROOM)?;
    let build = || {
        Builder::new_multi_thread()
            .worker_threads(SERVING_THREADS)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_keep_alive(KEEP_ALIVE)
            .thread_name("nexus-http")
            .enable_all()
            .build()
    };
    let runtime = caught(build)??;
    start_all(&runtime)?;
    Ok(runtime)
}

/// Whether the system grants so many threads at once.
fn probe(count: usize) -> io::Result<()> {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    let start = |_| {
        let gate = gate.clone();
        threads::start("nexus-probe", move || drop(gate.read()))
    };
    let started: Vec<_> = (0..count).map(start).collect();
    drop(closed);
    let mut result = Ok(());
    let granted = started.iter().filter(|thread| thread.is_ok()).count();
    for thread in started {
        match thread {
            // It does nothing that could panic.
            Ok(thread) => drop(thread.join()),
            Err(error) => result = Err(refused(granted, count, &error)),
        }
    }
    result
}

fn refused(granted: usize, wanted: usize, error: &io::Error) -> io::Error {
    let limits = [
        getrlimit(Resource::Nproc)
            .current
            .map(|most| format!("; this user may have {most} processes and threads (ulimit -u)")),
        getrlimit(Resource::As).current.map(|bytes| format!("; it may map {} MiB of memory (ulimit -v)", bytes >> 20)),
    ];
    let limits: String = limits.into_iter().flatten().collect();
    let text = format!("it needs {wanted} threads, and the system grants {granted}: {error}{limits}");
    io::Error::new(error.kind(), text)
}

/// A panic of tokio's as an error.
fn caught<T>(make: impl FnOnce() -> T) -> io::Result<T> {
    spare(|| catch_unwind(AssertUnwindSafe(make))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map_or("a thread could not be started", String::as_str);
        io::Error::other(text.to_owned())
    })
}

/// Each thread of the pool starts when there is work that no other one is free for: one piece for each, that waits for the others.
#[expect(clippy::disallowed_methods, reason = "starts the threads that the other functions use")]
fn start_all(runtime: &Runtime) -> io::Result<()> {
    let meeting = Arc::new((Mutex::new(0), Condvar::new()));
    let until = Instant::now() + THREAD_START_LIMIT;
    let wait = move |meeting: &(Mutex<usize>, Condvar), arrives: usize| {
        let (count, changed) = meeting;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        *count += arrives;
        changed.notify_all();
        let left = until.saturating_duration_since(Instant::now());
        let all = changed.wait_timeout_while(count, left, |count| *count < BLOCKING_THREADS);
        *all.unwrap_or_else(PoisonError::into_inner).0
    };
    for _ in 0..BLOCKING_THREADS {
        let of_thread = meeting.clone();
        caught(|| drop(runtime.spawn_blocking(move || wait(&of_thread, 1))))?;
    }
    match wait(&meeting, 0) {
        BLOCKING_THREADS => Ok(()),
        came => Err(refused(came, BLOCKING_THREADS, &io::ErrorKind::WouldBlock.into())),
    }
}

/// Begins work for a request on a thread of the pool. Refused if too much waits already. A panic in it goes to the one who waits
/// for its end, as an error, and ends nothing else.
pub fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Problem> {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    begin_within(&REQUESTS, MAX_REQUESTS, work)
}

#[expect(clippy::disallowed_methods, reason = "the threads of the pool are there already")]
fn begin_within<T: Send + 'static>(
    requests: &'static AtomicUsize,
    max: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Problem> {
    struct Place(&'static AtomicUsize);
    impl Drop for Place {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    if requests.fetch_add(1, Ordering::Relaxed) >= max {
        requests.fetch_sub(1, Ordering::Relaxed);
        let error = format!("{max} requests wait for the disk already; try again later");
        return Err(Problem::Busy { error });
    }
    let place = Place(requests);
    Ok(tokio::task::spawn_blocking(move || {
        let _place = place;
        spare(work)
    }))
}

/// Does work for a request on a thread of the pool, and waits for its end.
pub async fn answer<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    begin(work)?.await.map_err(|error| match error.is_panic() {
        true => Problem::Internal { error: format!("{error}; service.log has more") },
        false => Problem::Stopping,
    })
}

/// Does work of the service's own on a thread of the pool. A panic in it ends the service, as any bug does.
#[expect(clippy::disallowed_methods, reason = "the threads of the pool are there already")]
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// Does short work that may wait for the disk on this very thread; a thread of the pool serves clients meanwhile.
#[expect(clippy::disallowed_methods, reason = "the threads of the pool are there already")]
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_in_a_reader_fails_one_request_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("service.log");
        crate::panics::set_hook(log.clone());
        runtime().unwrap().block_on(async {
            for round in 0..2 * BLOCKING_THREADS {
                let failed = answer(move || assert_eq!(round, usize::MAX, "planted")).await;
                let Err(Problem::Internal { error }) = failed else { panic!("{failed:?}") };
                assert!(error.contains("planted") && error.contains("service.log"), "{error}");
            }
            assert_eq!(answer(|| 7).await, Ok(7));
        });
        let lines = std::fs::read_to_string(log).unwrap();
        assert!(lines.contains("Bug: ") && lines.contains("planted"), "{lines}");
    }

    #[test]
    fn one_request_too_many_is_refused() {
        static REQUESTS: AtomicUsize = AtomicUsize::new(0);
        runtime().unwrap().block_on(async {
            let (open, gate) = mpsc::channel::<()>();
            let gate = Arc::new(Mutex::new(gate));
            let begun: Vec<_> = (0..20)
                .map(|_| {
                    let gate = gate.clone();
                    let wait = move || gate.lock().unwrap().recv().is_err();
                    begin_within(&REQUESTS, 20, wait).unwrap()
                })
                .collect();
            let Err(Problem::Busy { error }) = begin_within(&REQUESTS, 20, || ()) else { panic!("it was taken") };
            assert_eq!(error, "20 requests wait for the disk already; try again later");
            drop(open);
            for one in begun {
                one.await.unwrap();
            }
            begin_within(&REQUESTS, 20, || ()).unwrap().await.unwrap();
        });
    }

    /// All threads of the pool are there from the start: work for all of them at once makes none.
    #[test]
    fn work_makes_no_threads() {
        let runtime = runtime().unwrap();
        let count = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = count();
        runtime.block_on(async {
            let meeting = Arc::new(std::sync::Barrier::new(BLOCKING_THREADS));
            let meet = |_| {
                let meeting = meeting.clone();
                begin(move || meeting.wait().is_leader()).unwrap()
            };
            let all: Vec<_> = (0..BLOCKING_THREADS).map(meet).collect();
            for one in all {
                one.await.unwrap();
            }
        });
        assert_eq!(count(), before);
    }
}
