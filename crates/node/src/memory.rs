//! How much memory the allocator keeps for later.
//!
//! An answer about thousands of jobs takes megabytes for a moment. Left to itself the allocator would keep them, in as many
//! places as there are threads; told to keep nothing, it has the machine clear every page anew where megabytes come and go
//! a hundred times a second.

/// Pieces from so many bytes on are given back one by one.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: i32 = 128 << 10;

/// Where more than this is free at the end, it is given back. What a turn of the engine takes and lets go is less: it would
/// be cleared anew for each.
#[cfg(target_env = "gnu")]
const FREE_BYTES: i32 = 512 << 10;

/// The most that it can be told.
#[cfg(target_env = "gnu")]
const HUGE_BYTES: i32 = 32 << 20;

/// Threads that share what is free, at a time.
#[cfg(target_env = "gnu")]
const PLACES: i32 = 4;

/// For a process that is there all day; comes before its first thread.
pub fn share() {
    #[cfg(target_env = "gnu")]
    tell(&[(libc::M_ARENA_MAX, PLACES)]);
    give_back();
}

/// What is free goes back to the machine, now and from now on.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        tell(&[(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, FREE_BYTES)]);
        // SAFETY: gives back what nobody holds.
        unsafe { libc::malloc_trim(0) };
    }
}

/// What is free stays at hand for a while: much comes and goes.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    tell(&[(libc::M_MMAP_THRESHOLD, HUGE_BYTES), (libc::M_TRIM_THRESHOLD, HUGE_BYTES)]);
}

#[cfg(target_env = "gnu")]
fn tell(wanted: &[(i32, i32)]) {
    for (what, value) in wanted {
        // SAFETY: sets a number of the allocator, under a lock of its own.
        unsafe { libc::mallopt(*what, *value) };
    }
}
