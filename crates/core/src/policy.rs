//! The settings that decisions depend on.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Wait before the first retry; doubles with each further one.
    pub retry_wait: Duration,
    pub retry_wait_max: Duration,
    /// How often a start that failed on the machine's side is tried before the job fails.
    pub start_attempts: u32,
    /// Jobs that fail one after another pause the queue when there are so many; 0 = never.
    pub pause_after_failures: u32,
    /// A machine on which so many different jobs fail one after another, while others complete elsewhere, is
    /// quarantined; 0 = never.
    pub quarantine_after: u32,
    /// A job that waits for runs of which nobody knows how long they take waits this long before GPUs are kept for it.
    pub patience: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            retry_wait: Duration::from_secs(5),
            retry_wait_max: Duration::from_secs(600),
            start_attempts: 5,
            pause_after_failures: 0,
            quarantine_after: 3,
            patience: Duration::from_secs(30 * 60),
        }
    }
}

impl Policy {
    /// The wait before the `nth` retry (from 1).
    pub fn wait_before_retry(&self, nth: u32) -> Duration {
        let doublings = nth.saturating_sub(1).min(20);
        self.retry_wait.saturating_mul(1 << doublings).min(self.retry_wait_max)
    }
}
