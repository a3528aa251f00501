//! The service dies, restarts, is upgraded; the machine reboots. Jobs do not notice.
