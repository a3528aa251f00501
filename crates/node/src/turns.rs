//! How long a turn on a processor a thread asks for. Those who decide on runs have little to do each time, and a GPU waits for it:
//! with turns shorter than those of others they have one as soon as there is something to do, and not when whoever is at it has
//! had its own (since Linux 6.12; before that nothing changes). How much of a processor a thread gets stays the same.

use std::io;
use std::time::Duration;

/// Shims have those of everybody: with shorter ones too, a thousand empty jobs took a seventh longer.
const DECIDING: Duration = Duration::from_micros(100);

/// For this thread, and nothing that it starts. Where the kernel does not let it, decisions come later.
pub fn shorten() {
    let _ = ask_for(DECIDING);
}

fn ask_for(turn: Duration) -> io::Result<()> {
    let mut wanted = get()?;
    // Others have no turns, or nothing to do with those.
    if !matches!(wanted.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return Ok(());
    }
    wanted.sched_runtime = turn.as_nanos() as u64;
    wanted.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    set(&wanted)
}

fn get() -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are numbers; the kernel writes as many bytes as it is told there are.
    unsafe {
        let mut found: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        match libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) {
            0 => Ok(found),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn set(wanted: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the structure says that it has.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *wanted, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_turn_is_of_the_thread_that_asked_and_of_none_that_it_starts() {
        let usual = get().unwrap();
        // Older kernels know of none.
        let short = if usual.sched_runtime == 0 { 0 } else { DECIDING.as_nanos() as u64 };
        std::thread::spawn(move || {
            shorten();
            let own = get().unwrap();
            assert_eq!((own.sched_runtime, own.sched_nice), (short, usual.sched_nice));
            let inherited = std::thread::spawn(|| get().unwrap()).join().unwrap();
            assert_eq!((inherited.sched_runtime, inherited.sched_nice), (usual.sched_runtime, usual.sched_nice));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn whoever_has_no_turns_keeps_what_it_has() {
        std::thread::spawn(|| {
            let mut idle = get().unwrap();
            (idle.sched_policy, idle.sched_runtime) = (libc::SCHED_IDLE as u32, 0);
            set(&idle).unwrap();
            ask_for(DECIDING).unwrap();
            assert_eq!(get().unwrap().sched_policy, libc::SCHED_IDLE as u32);
        })
        .join()
        .unwrap();
    }
}
