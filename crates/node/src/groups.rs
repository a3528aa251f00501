//! Groups by number or name, with all their members: those that the group lists, and the users whose primary group it is.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Room for one entry of the group database: groups of thousands of members exist.
const MOST_BYTES: usize = 16 << 20;

/// How long an answer is kept. Directories over the network are slow, and a watched file asks at every change.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Answers by the number of the group, with when they came.
type Answers = HashMap<u32, (Instant, Option<Group>)>;

static KNOWN: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);

/// getpwent(3) has one cursor for the whole process.
static USER_LIST: Mutex<()> = Mutex::new(());

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub gid: u32,
    pub name: String,
    /// The user whose private group it is: user and group have the same name, and it is the user's primary group.
    pub private_of: Option<u32>,
    /// Users whose primary group this is are members as well, as far as the user database can be listed.
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// None: the group lists a name that no user has.
    pub uid: Option<u32>,
}

impl Group {
    pub fn has(&self, uid: u32) -> bool {
        self.members.iter().any(|member| member.uid == Some(uid))
    }
}

/// The group of this number; none where it is unknown, or its members cannot be listed. The answer may be [`KEPT_FOR`] old.
pub fn group_of(gid: u32) -> Option<Group> {
    let kept = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&gid).cloned();
    if let Some((_, group)) = kept.filter(|(since, _)| since.elapsed() < KEPT_FOR) {
        return group;
    }
    let group = read_group(|entry, room, found| {
        // SAFETY: the pointers are valid, and `room` has the length that is said.
        unsafe { libc::getgrgid_r(gid, entry, room.as_mut_ptr(), room.len(), found) }
    });
    let group = group.and_then(|group| with_primary_members(group).ok());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(gid, (Instant::now(), group.clone()));
    group
}

/// The group of this name, or of this number where no group has the name.
pub fn group_named(name: &str) -> Option<Group> {
    let text = CString::new(name).ok()?;
    let group = read_group(|entry, room, found| {
        // SAFETY: the pointers are valid, `text` ends with a zero byte, and `room` has the length that is said.
        unsafe { libc::getgrnam_r(text.as_ptr(), entry, room.as_mut_ptr(), room.len(), found) }
    });
    group.and_then(|group| group_of(group.gid)).or_else(|| group_of(name.parse().ok()?))
}

/// The entry that `ask` finds, with the members that it lists.
fn read_group(
    ask: impl Fn(&mut libc::group, &mut [libc::c_char], &mut *mut libc::group) -> libc::c_int,
) -> Option<Group> {
    let mut room: Vec<libc::c_char> = vec![0; 4096];
    loop {
        // SAFETY: the structure holds numbers and pointers only.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match ask(&mut entry, &mut room, &mut found) {
            libc::ERANGE if room.len() < MOST_BYTES => room.resize(room.len() * 4, 0),
            libc::EINTR => {}
            // SAFETY: what was found points into `room`.
            0 if !found.is_null() => return Some(unsafe { group(&entry) }),
            _ => return None,
        }
    }
}

/// # Safety
/// The entry's pointers are null or valid: texts end with a zero byte, the list of members with a null pointer.
unsafe fn group(entry: &libc::group) -> Group {
    let mut members = Vec::new();
    let mut next = entry.gr_mem;
    // SAFETY: as the caller promises.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            let name = CStr::from_ptr(*next);
            members
                .push(Member { uid: user_named(name).map(|user| user.uid), name: name.to_string_lossy().into_owned() });
            next = next.add(1);
        }
    }
    let gid = entry.gr_gid;
    if entry.gr_name.is_null() {
        return Group { gid, name: gid.to_string(), private_of: None, members };
    }
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(entry.gr_name) };
    let private_of = user_named(name).filter(|user| user.primary_gid == gid).map(|user| user.uid);
    Group { gid, name: name.to_string_lossy().into_owned(), private_of, members }
}

struct User {
    uid: u32,
    primary_gid: u32,
}

/// By getpwnam_r(3), which finds users that a list of all users leaves out.
fn user_named(name: &CStr) -> Option<User> {
    let mut room: Vec<libc::c_char> = vec![0; 4096];
    loop {
        // SAFETY: the structure holds numbers and pointers only.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the pointers are valid, and `room` has the length that is said.
        let code = unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, room.as_mut_ptr(), room.len(), &mut found) };
        match code {
            libc::ERANGE if room.len() < MOST_BYTES => room.resize(room.len() * 4, 0),
            libc::EINTR => {}
            0 if !found.is_null() => return Some(User { uid: entry.pw_uid, primary_gid: entry.pw_gid }),
            _ => return None,
        }
    }
}

/// An error if the list of users ends early: whoever follows in it may be a member.
fn with_primary_members(mut group: Group) -> io::Result<Group> {
    let _only = USER_LIST.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the lock keeps other threads from the list; no other code of this program walks it.
    unsafe {
        libc::setpwent();
        let ended = loop {
            // getpwent(3) tells an error from the end of the list by errno alone.
            *libc::__errno_location() = 0;
            let entry = libc::getpwent();
            if entry.is_null() {
                break io::Error::last_os_error();
            }
            let (uid, gid, name) = ((*entry).pw_uid, (*entry).pw_gid, (*entry).pw_name);
            if gid == group.gid && !group.has(uid) && !name.is_null() {
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                group.members.push(Member { name, uid: Some(uid) });
            }
        };
        libc::endpwent();
        match ended.raw_os_error() {
            // glibc since 2.32 leaves ENOENT behind at the end of a file.
            Some(0 | libc::ENOENT) => Ok(group),
            _ => Err(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::without_descriptors;

    #[test]
    fn a_group_has_the_users_whose_primary_group_it_is() {
        let group = group_of(0).expect("group 0 is in every group database");
        assert!(group.has(0), "{group:?}");
        assert_eq!(group_named(&group.name), Some(group.clone()));
        assert_eq!(group_named("0").map(|found| found.gid), Some(0));
        assert_eq!(group_named("no such group"), None);
        assert_eq!(group_of(4_000_000_000), None);
        assert_eq!(group.private_of, Some(0), "root's own");
    }

    #[test]
    fn a_group_whose_members_cannot_be_listed_is_unknown() {
        let group = group_of(0).expect("group 0 is in every group database");
        let test = "groups::tests::a_group_whose_members_cannot_be_listed_is_unknown";
        // The list of users looks empty.
        without_descriptors(test, || assert!(with_primary_members(Group { members: vec![], ..group }).is_err()));
    }
}
