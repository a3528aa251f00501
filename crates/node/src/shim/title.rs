//! What `ps` shows for a process that was forked and never executed: text put over the arguments of the process
//! it comes from, as the kernel expects of `setproctitle`.

use std::ffi::CStr;

use crate::processes::fields_after_name;
use crate::system_file;

/// The memory that holds arguments and, behind them, the environment. The same in every fork.
#[derive(Clone, Copy, Debug)]
pub struct Title {
    start: usize,
    arguments: usize,
    room: usize,
}

impl Title {
    /// No room, and so no title, where the kernel does not say where the arguments are.
    pub fn find() -> Title {
        system_file::read("/proc/self/stat").ok().and_then(|text| Title::parse(&text)).unwrap_or(Title {
            start: 0,
            arguments: 0,
            room: 0,
        })
    }

    fn parse(stat: &[u8]) -> Option<Title> {
        let fields: Vec<usize> =
            fields_after_name(stat)?.split_ascii_whitespace().skip(45).take(4).filter_map(|f| f.parse().ok()).collect();
        let [start, end, environment, environment_end] = fields.try_into().ok()?;
        if start == 0 || end <= start {
            return None;
        }
        let follows = environment == end && environment_end > environment;
        Some(Title { start, arguments: end - start, room: if follows { environment_end - start } else { end - start } })
    }

    /// Names the process. Replaces the arguments, and the environment where the text is longer than they: this
    /// process must not read either again.
    pub fn set(&self, name: &CStr, text: &str) {
        // SAFETY: a string that ends with a zero byte; the kernel takes its first 15.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        if self.room == 0 {
            return;
        }
        let length = text.len().min(self.room - 1);
        let end = self.arguments.max(length + 1);
        // SAFETY: the kernel put the arguments and the environment into this memory of ours, which is writable;
        // `length < room`, `end <= room`, and nothing here reads arguments or environment any more.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.start as *mut u8, length);
            std::ptr::write_bytes((self.start + length) as *mut u8, 0, end - length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_ends_with_the_environment_if_that_follows() {
        let line = |tail: &str| format!("1 (x) S {}{tail} 0", "0 ".repeat(44));
        let title = Title::parse(line("100 120 120 300").as_bytes()).unwrap();
        assert_eq!((title.start, title.arguments, title.room), (100, 20, 200));
        let title = Title::parse(line("100 120 4000 5000").as_bytes()).unwrap();
        assert_eq!((title.start, title.arguments, title.room), (100, 20, 20));
        assert!(Title::parse(line("0 0 0 0").as_bytes()).is_none());
    }
}
