//! Small input takes little memory: an allocation of more than this at once ends the target, as a finding.

use std::alloc::{GlobalAlloc, Layout, System};

/// A list of a million values grows to this.
const MOST_AT_ONCE: usize = 64 << 20;

struct Room;

#[global_allocator]
static ROOM: Room = Room;

fn checked(bytes: usize) {
    if bytes > MOST_AT_ONCE {
        // The size stands in the trace, where libFuzzer looks: nothing may be allocated to say it.
        std::process::abort();
    }
}

// SAFETY: all is left to the system's allocator; sizes are only looked at.
unsafe impl GlobalAlloc for Room {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        checked(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        checked(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        checked(size);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        unsafe { System.dealloc(old, layout) }
    }
}
