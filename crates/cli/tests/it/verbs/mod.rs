//! Each verb as a user types it, rightly and wrongly.
