//! Users by their number: their names, homes and shells.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

/// Names that were found, for the life of the process: asking a directory over the network at each reading would
/// be slow.
static FOUND: LazyLock<Mutex<HashMap<u32, String>>> = LazyLock::new(Mutex::default);

/// Room for one entry of the user database; more than this no entry needs.
const MOST_BYTES: usize = 1 << 20;

/// The user's name, or the number itself where it has none.
pub fn name_of(uid: u32) -> String {
    let known = FOUND.lock().ok().and_then(|found| found.get(&uid).cloned());
    known.unwrap_or_else(|| {
        let Some(Account { name, .. }) = account_of(uid) else { return uid.to_string() };
        if let Ok(mut found) = FOUND.lock() {
            found.insert(uid, name.clone());
        }
        name
    })
}

/// What the user database says of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub home: PathBuf,
    pub shell: PathBuf,
}

/// The home of this process's user, as their shell has it.
pub fn own_home() -> PathBuf {
    let named = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let account = || account_of(rustix::process::getuid().as_raw());
    named.or_else(|| Some(account()?.home)).unwrap_or_else(|| "/".into())
}

pub fn account_of(uid: u32) -> Option<Account> {
    let mut room: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: the structure holds numbers and pointers only.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all are ours, and the room is as long as is said.
        let code = unsafe { libc::getpwuid_r(uid, &mut entry, room.as_mut_ptr(), room.len(), &mut found) };
        match code {
            libc::ERANGE if room.len() < MOST_BYTES => room.resize(room.len() * 4, 0),
            libc::EINTR => {}
            0 if !found.is_null() && !entry.pw_name.is_null() => {
                let text = |field: *const libc::c_char| match field.is_null() {
                    true => &[],
                    // SAFETY: points to a text in `room` that ends with a zero byte.
                    false => unsafe { CStr::from_ptr(field) }.to_bytes(),
                };
                let path = |field| PathBuf::from(OsStr::from_bytes(text(field)));
                let name = String::from_utf8_lossy(text(entry.pw_name)).into_owned();
                return Some(Account { name, home: path(entry.pw_dir), shell: path(entry.pw_shell) });
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_at_least_numbers() {
        for _ in 0..2 {
            assert_eq!(name_of(0), "root");
            assert_eq!(name_of(4_000_000_000), "4000000000");
        }
    }
}
