//! The kernel's own messages, as far as this user may read them: whom it killed when memory ran out.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::processes;
use crate::system_file;

const LOG: &str = "/dev/kmsg";

/// The longest message it gives out.
const RECORD_BYTES: usize = 8 << 10;

/// More messages than the kernel keeps.
const MOST_RECORDS: usize = 1 << 17;

/// Its clock and ours are not quite the same.
const SLACK: Duration = Duration::from_secs(5);

/// Whether one of these processes was killed since then because there was no memory left. Where the log cannot be
/// read, or its numbers are not ours, nobody was.
pub fn killed_for_memory(pids: &[u32], since: Instant) -> bool {
    let log = system_file::open(LOG);
    let Some(log) = log.ok().filter(|_| processes::are_all_seen()) else { return false };
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
    let since = now.saturating_sub(since.elapsed() + SLACK);
    records(log).filter_map(|record| killed(&record)).any(|(at, pid)| at >= since && pids.contains(&pid))
}

/// Each read gives one message, until there is none left.
fn records(mut log: File) -> impl Iterator<Item = String> {
    let mut buffer = vec![0; RECORD_BYTES];
    let next = move || {
        loop {
            match log.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => return Some(String::from_utf8_lossy(&buffer[..count]).into_owned()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It was overwritten before it was read: the next one is the oldest that is left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return None,
            }
        }
    };
    std::iter::from_fn(next).take(MOST_RECORDS)
}

/// `3,555,23353188083,-;Out of memory: Killed process 4312 (python) …`: when since the boot, and whom.
fn killed(record: &str) -> Option<(Duration, u32)> {
    let (head, message) = record.split_once(';')?;
    let at = head.split(',').nth(2)?.parse().ok()?;
    let (_, victim) = message.split_once("Killed process ")?;
    let pid = victim.split([' ', ',']).next()?.parse().ok()?;
    Some((Duration::from_micros(at), pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_is_read_from_the_kernels_words() {
        let of = |message: &str| killed(&format!("3,555,23353188083,-;{message}\n")).map(|(_, pid)| pid);
        assert_eq!(of("Out of memory: Killed process 4312 (python) total-vm:1kB, anon-rss:2kB, UID:0"), Some(4312));
        assert_eq!(of("Memory cgroup out of memory: Killed process 7 (a b) total-vm:1kB"), Some(7));
        assert_eq!(of("Killed process 99, UID 1000, (python) total-vm:1kB"), Some(99), "as older kernels say");
        for other in ["Out of memory: Kill process 4312 (python) score 900", "Killed process (python)", "", "oom-kill:"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(killed("no record"), None);
        assert_eq!(
            killed("3,555,23353188083,-;Killed process 7 (x)").unwrap().0,
            Duration::from_micros(23_353_188_083)
        );
    }
}
