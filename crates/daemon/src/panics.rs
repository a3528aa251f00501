//! What a panic ends. A bug in any thread ends the service with a line in service.log: jobs go on, and a service that looks
//! healthy but does nothing would be worse. Work done for one request alone is the exception: only that request fails.

use std::cell::Cell;
use std::path::PathBuf;

use crate::service_log::{Level, Limits, Line, ServiceLog};

/// `EX_SOFTWARE` of sysexits.h.
const EXIT_BUG: i32 = 70;

thread_local! {
    static IS_SPARED: Cell<bool> = const { Cell::new(false) };
}

/// Writes each panic into service.log, and ends the process unless [`spare`] is on the stack.
pub fn set_hook(log: PathBuf) {
    std::panic::set_hook(Box::new(move |panic| {
        // At a limit (of open files, say) the line is lost; what follows counts more.
        if let Ok(mut log) = ServiceLog::open(log.clone(), Limits::NONE) {
            log.write(&[Line { level: Level::Error, text: format!("Bug: {panic}") }]);
        }
        if !IS_SPARED.get() {
            std::process::exit(EXIT_BUG);
        }
    }));
}

/// Does work whose panic must not end the process. The caller is whoever catches the panic, as tokio does for its tasks.
pub fn spare<T>(work: impl FnOnce() -> T) -> T {
    struct Guard(bool);
    impl Drop for Guard {
        fn drop(&mut self) {
            IS_SPARED.set(self.0);
        }
    }
    let _guard = Guard(IS_SPARED.replace(true));
    work()
}
