//! The rule with owners, groups and modes that are made up, and with real files, folders and links.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;
use crate::groups::Member;

const USER: u32 = 1000;
const STRANGER: u32 = 1001;

fn group(gid: u32, name: &str, members: &[u32]) -> Group {
    let members = members.iter().map(|uid| Member { name: format!("u{uid}"), uid: Some(*uid) });
    Group { gid, name: name.into(), private_of: None, members: members.collect() }
}

fn private(uid: u32, name: &str, members: &[u32]) -> Group {
    Group { private_of: Some(uid), ..group(uid, name, members) }
}

/// The groups of a machine that never was.
fn groups(gid: u32) -> Option<Group> {
    Some(match gid {
        0 => private(0, "root", &[0]),
        // A directory that cannot be enumerated names those alone who are in it beside their primary group.
        101 => group(101, "users", &[USER]),
        1001 => private(1001, "bob", &[STRANGER, USER]),
        1003 => private(1003, "carol", &[USER]),
        100 => group(100, "lab", &[USER, STRANGER]),
        1000 => private(1000, "alice", &[USER]),
        // Its only member is no user of this machine.
        1002 => Group { members: vec![Member { name: "gone".into(), uid: None }], ..group(1002, "old", &[]) },
        50 => group(50, "empty", &[]),
        _ => return None,
    })
}

fn alone() -> Writers {
    Writers { user: USER, shared_with: None }
}

fn facts(uid: u32, gid: u32, mode: u32) -> Facts {
    Facts { uid, gid, mode, list: List::None, unmapped: None }
}

fn of(facts: &Facts, kind: Kind) -> Option<Stranger> {
    facts.stranger(kind, &alone(), &groups)
}

#[test]
fn who_can_write_to_what() {
    use Kind::{File, Folder, Link};
    use Stranger::{Everybody, Owner};
    let group = Stranger::Group;
    let table = [
        (USER, 1000, 0o600, File, None),
        (USER, 100, 0o644, File, None),
        (0, 0, 0o644, File, None),
        (0, 0, 0o664, File, None),
        // A user private group.
        (USER, 1000, 0o664, File, None),
        (USER, 1000, 0o775, Folder, None),
        (USER, 100, 0o664, File, Some(group(100))),
        (0, 100, 0o664, File, Some(group(100))),
        (USER, 101, 0o664, File, Some(group(101))),
        (USER, 101, 0o775, Folder, Some(group(101))),
        // Another user's private group.
        (USER, 1001, 0o664, File, Some(group(1001))),
        (USER, 1003, 0o664, File, Some(group(1003))),
        (USER, 50, 0o664, File, Some(group(50))),
        (USER, 1002, 0o664, File, Some(group(1002))),
        (USER, 4242, 0o664, File, Some(group(4242))),
        (USER, 1000, 0o602, File, Some(Everybody)),
        (USER, 1000, 0o666, File, Some(Everybody)),
        (STRANGER, 1001, 0o600, File, Some(Owner(STRANGER))),
        (STRANGER, 1001, 0o755, Folder, Some(Owner(STRANGER))),
        (65534, 65534, 0o644, File, Some(Owner(65534))),
        (0, 0, 0o1777, Folder, None),
        (0, 0, 0o777, Folder, Some(Everybody)),
        (0, 100, 0o3775, Folder, None),
        (0, 100, 0o2775, Folder, Some(group(100))),
        (STRANGER, 1001, 0o1777, Folder, Some(Owner(STRANGER))),
        // A sticky bit on a file means nothing.
        (USER, 1000, 0o1666, File, Some(Everybody)),
        (USER, 100, 0o777, Link, None),
        (0, 0, 0o777, Link, None),
        (STRANGER, 1001, 0o777, Link, Some(Owner(STRANGER))),
    ];
    for (uid, gid, mode, kind, expected) in table {
        assert_eq!(of(&facts(uid, gid, mode), kind), expected, "{uid} {gid} {mode:o} {kind:?}");
    }
}

#[test]
fn a_group_that_is_named_may_write_and_nobody_else() {
    let shared = Writers { user: USER, shared_with: groups(100) };
    let of = |facts: Facts, kind| facts.stranger(kind, &shared, &groups);
    assert_eq!(of(facts(USER, 100, 0o664), Kind::File), None);
    assert_eq!(of(facts(USER, 100, 0o2775), Kind::Folder), None);
    // An editor of a colleague has put a new file in its place.
    assert_eq!(of(facts(STRANGER, 100, 0o664), Kind::File), None);
    assert_eq!(of(facts(1003, 100, 0o664), Kind::File), Some(Stranger::Owner(1003)));
    assert_eq!(of(facts(USER, 50, 0o664), Kind::File), Some(Stranger::Group(50)));
    assert_eq!(of(facts(USER, 100, 0o666), Kind::File), Some(Stranger::Everybody));
}

#[test]
fn root_obeys_nobody_but_root() {
    let root = Writers { user: 0, shared_with: None };
    let of = |facts: Facts| facts.stranger(Kind::File, &root, &groups);
    assert_eq!(of(facts(0, 0, 0o664)), None);
    assert_eq!(of(facts(USER, 1000, 0o600)), Some(Stranger::Owner(USER)));
}

#[test]
fn an_owner_without_a_number_is_nobody() {
    let with = |is_root_folder| Some(Unmapped { uid: 65534, is_root_folder });
    let facts = |unmapped| Facts { unmapped, ..facts(65534, 65534, 0o755) };
    // Not even where the user himself has that number.
    let nobody = Writers { user: 65534, shared_with: None };
    assert_eq!(facts(with(true)).stranger(Kind::File, &nobody, &groups), Some(Stranger::UnknownOwner));
    assert_eq!(facts(with(true)).stranger(Kind::Folder, &alone(), &groups), None);
    assert_eq!(facts(with(false)).stranger(Kind::Folder, &alone(), &groups), Some(Stranger::UnknownOwner));
    assert_eq!(facts(None).stranger(Kind::File, &nobody, &groups), None);
}

/// Entries of an access list as the kernel gives them: tag, permissions, number.
fn list(entries: &[(u16, u16, u32)]) -> List {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes().iter().chain(&permissions.to_le_bytes()).chain(&id.to_le_bytes()));
    }
    list_of(Ok(bytes), || Err(Errno::OPNOTSUPP))
}

#[test]
fn only_an_answer_that_says_so_means_that_there_is_no_access_list() {
    let of = |posix: Result<&[u8], Errno>, nfs4: Result<&[u8], Errno>| {
        let list = list_of(posix.map(<[u8]>::to_vec), || nfs4.map(<[u8]>::to_vec));
        facts_with(list).stranger(Kind::File, &alone(), &groups)
    };
    let unknown = Some(Stranger::UnknownList);
    let unused = Ok(&[][..]);
    assert_eq!(of(Err(Errno::NODATA), unused), None, "the file has none");
    assert_eq!(of(Err(Errno::OPNOTSUPP), Err(Errno::OPNOTSUPP)), None, "the file system has none");
    assert_eq!(of(Err(Errno::OPNOTSUPP), Err(Errno::NODATA)), None);
    assert_eq!(of(Err(Errno::OPNOTSUPP), Ok(b"an access list of NFSv4")), unknown);
    assert_eq!(of(Err(Errno::OPNOTSUPP), Err(Errno::IO)), unknown);
    for error in [Errno::IO, Errno::NOENT, Errno::ACCESS, Errno::MFILE, Errno::RANGE] {
        assert_eq!(of(Err(error), unused), unknown, "{error}");
    }
    assert_eq!(of(Ok(&[3, 0, 0, 0]), unused), unknown, "of a later version");
    assert_eq!(of(Ok(&[]), unused), unknown);
    let closed = Facts { mode: 0o644, ..facts_with(List::Unknown) };
    assert_eq!(closed.stranger(Kind::File, &alone(), &groups), None, "the mask of a list lets nobody write");
    let folder = facts_with(List::Unknown);
    assert_eq!(folder.stranger(Kind::Folder, &alone(), &groups), Some(Stranger::UnknownList));
}

/// Of the user, and the user's own group can write.
fn facts_with(list: List) -> Facts {
    Facts { list, ..facts(USER, 1000, 0o664) }
}

#[test]
fn an_access_list_is_read() {
    let of = |entries: &[(u16, u16, u32)]| facts_with(list(entries)).stranger(Kind::File, &alone(), &groups);
    let none = u32::MAX;
    let own = (0x01, 6, none);
    assert_eq!(of(&[own, (0x04, 6, none), (0x10, 7, none)]), None, "the user's own group");
    assert_eq!(of(&[own, (0x02, 6, STRANGER), (0x10, 7, none)]), Some(Stranger::UserOfList(STRANGER)));
    assert_eq!(of(&[own, (0x02, 6, STRANGER), (0x10, 4, none)]), None, "the mask takes it away");
    assert_eq!(of(&[own, (0x02, 4, STRANGER), (0x10, 7, none)]), None);
    assert_eq!(of(&[own, (0x02, 6, 0), (0x08, 6, 1000), (0x10, 7, none)]), None);
    assert_eq!(of(&[own, (0x08, 6, 100), (0x10, 7, none)]), Some(Stranger::GroupOfList(100)));
    let lab = Facts { list: list(&[own, (0x04, 4, none), (0x10, 7, none)]), ..facts(USER, 100, 0o674) };
    assert_eq!(lab.stranger(Kind::File, &alone(), &groups), None, "the bit of the group is the mask");
    assert_eq!(AccessList::parse(&[1, 0, 0, 0]), None);
    assert_eq!(AccessList::parse(&[]), None);
}

#[test]
fn sentences_name_the_path_who_and_what_to_type() {
    let say = |kind, who| Untrusted { path: "/data/my jobs.csv".into(), kind, who }.to_string();
    assert_eq!(
        say(Kind::File, Stranger::Everybody),
        "anybody can write to /data/my jobs.csv; check what it says, then chmod o-w '/data/my jobs.csv'"
    );
    assert_eq!(
        say(Kind::Folder, Stranger::Everybody),
        "anybody can write to the folder /data/my jobs.csv, in which it could be replaced; chmod o-w '/data/my jobs.csv'"
    );
    assert_eq!(
        say(Kind::File, Stranger::Owner(4_000_000_000)),
        "/data/my jobs.csv belongs to 4000000000; copy it to a file of your own"
    );
    assert_eq!(
        say(Kind::File, Stranger::UnknownList),
        "others may write, by an access list that cannot be read, to /data/my jobs.csv; \
         check what it says, then chmod g-w '/data/my jobs.csv'"
    );
    assert_eq!(
        say(Kind::File, Stranger::Group(4_000_000_001)),
        "group 4000000001, whose members are not known, can write to /data/my jobs.csv; \
         check what it says, then chmod g-w '/data/my jobs.csv'"
    );
}

/// A folder of this user, below sticky ones at most.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    folder
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn untrusted(path: &Path) -> Option<(PathBuf, Stranger)> {
    match open(path, &Writers::own()) {
        Ok(_) => None,
        Err(OpenError::Untrusted(found)) => Some((found.path, found.who)),
        Err(OpenError::Io(error)) => panic!("{}: {error}", path.display()),
    }
}

#[test]
fn every_folder_and_link_that_leads_there_counts() {
    let home = folder();
    let home = home.path().canonicalize().unwrap();
    let (file, sub) = (home.join("file"), home.join("sub"));
    std::fs::create_dir(&sub).unwrap();
    assert_eq!(untrusted(&file), None);
    set_mode(&file, 0o666);
    assert_eq!(untrusted(&file), Some((file.clone(), Stranger::Everybody)));
    set_mode(&file, 0o600);
    // Links, relative and absolute, over `..` and one after the other.
    symlink("../file", sub.join("link")).unwrap();
    symlink(sub.join("link"), home.join("again")).unwrap();
    assert_eq!(untrusted(&home.join("again")), None);
    set_mode(&sub, 0o777);
    assert_eq!(untrusted(&home.join("again")), Some((sub.clone(), Stranger::Everybody)));
    set_mode(&sub, 0o1777);
    assert_eq!(untrusted(&home.join("again")), None);
    assert_eq!(untrusted(&home.join("sub/./../file")), None);
    symlink("./../file", sub.join("dotted")).unwrap();
    symlink("././file", home.join("here")).unwrap();
    assert_eq!([sub.join("dotted"), home.join("here")].map(|path| untrusted(&path)), [None, None]);
    symlink("round", home.join("round")).unwrap();
    let error = |path: &str| open(&home.join(path), &Writers::own()).unwrap_err().to_string();
    assert!(error("round").contains("Too many levels"), "{}", error("round"));
    assert_eq!(error("sub"), "it is a folder");
    assert!(error("missing").contains("No such file"), "{}", error("missing"));
    assert!(error("file/below").contains("Not a directory"), "{}", error("file/below"));
    assert!(check(&home.join("missing"), &Writers::own()).is_ok());
    set_mode(&sub, 0o777);
    assert!(check(&sub.join("missing"), &Writers::own()).is_err());
}

#[test]
fn what_is_no_plain_file_is_not_opened() {
    let home = folder();
    let pipe = home.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert_eq!(open(&pipe, &Writers::own()).unwrap_err().to_string(), "it is not a file");
}

#[test]
fn files_folders_and_links_of_strangers_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const ALICE: u32 = 61001;
    let home = folder();
    let home = home.path().canonicalize().unwrap();
    let (file, sub) = (home.join("file"), home.join("sub"));
    chown(&file, Some(ALICE), None).unwrap();
    assert_eq!(untrusted(&file), Some((file.clone(), Stranger::Owner(ALICE))));
    chown(&file, Some(0), None).unwrap();
    std::fs::create_dir(&sub).unwrap();
    symlink(&file, sub.join("link")).unwrap();
    chown(&sub, Some(ALICE), None).unwrap();
    assert_eq!(untrusted(&sub.join("link")), Some((sub.clone(), Stranger::Owner(ALICE))));
    chown(&sub, Some(0), None).unwrap();
    set_mode(&sub, 0o1777);
    std::os::unix::fs::lchown(sub.join("link"), Some(ALICE), None).unwrap();
    assert_eq!(untrusted(&sub.join("link")), Some((sub.join("link"), Stranger::Owner(ALICE))));
    // A group without a name, and the same once it is the group that may.
    chown(&file, None, Some(61009)).unwrap();
    set_mode(&file, 0o660);
    assert_eq!(untrusted(&file), Some((file.clone(), Stranger::Group(61009))));
    let lab = group(61009, "lab", &[]);
    let shared = Writers { shared_with: Some(lab), ..Writers::own() };
    assert!(open(&file, &shared).is_ok());
    let opened = File::open(&file).unwrap();
    assert!(check_open(&opened, &file, &Writers::own()).is_err());
    assert!(check_open(&opened, &file, &shared).is_ok());
}
