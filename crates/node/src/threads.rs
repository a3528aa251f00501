//! Makes threads, in the one place of this workspace that does. At the limit of processes (`ulimit -u`, the cgroup's
//! `pids.max`) or of memory the system refuses a new thread. `std::thread::spawn` and `Scope::spawn` panic then, which would
//! end the service; these functions return the error. `clippy.toml` forbids the others.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread with the usual stack.
#[expect(clippy::disallowed_methods, reason = "the one place that makes threads, and hands on the error")]
pub fn start<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(work)
}

/// Starts a thread with a stack of so many bytes.
#[expect(clippy::disallowed_methods, reason = "the one place that makes threads, and hands on the error")]
pub fn start_with_stack<T: Send + 'static>(
    name: impl Into<String>,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).stack_size(stack_bytes).spawn(work)
}

/// Starts a thread that may borrow from the scope.
#[expect(clippy::disallowed_methods, reason = "the one place that makes threads, and hands on the error")]
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(name.into()).spawn_scoped(scope, work)
}
