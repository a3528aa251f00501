//! Copies as such: what is left alone, what is refused, what is cleaned up.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::*;

fn order(dir: &Path, named: &[&str]) -> Order {
    let sources = Sources {
        cwd: dir.join("work"),
        named: named.iter().map(|name| name.to_string()).collect(),
        left_out: 0,
        own: dir.join("own"),
    };
    Order { job: "abc".parse().unwrap(), sources, from: None, to: dir.join("to/abc"), clears: false, by_user: true }
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    dir
}

#[test]
fn what_is_there_already_is_left_alone_and_what_changed_is_copied_anew() {
    let dir = folder();
    let (work, to) = (dir.path().join("work"), dir.path().join("to/abc"));
    std::fs::write(work.join("a"), "1").unwrap();
    std::fs::write(work.join("b"), "1").unwrap();
    let order = order(dir.path(), &["a", "b"]);
    copy(&order, &Progress::default()).unwrap();
    let number = |name: &str| std::fs::metadata(to.join(name)).unwrap().ino();
    let before = (number("a"), number("b"));
    std::fs::write(work.join("b"), "22").unwrap();
    let progress = Progress::default();
    copy(&order, &progress).unwrap();
    assert_eq!(number("a"), before.0);
    assert_ne!(number("b"), before.1);
    assert_eq!((progress.done(), progress.total()), (3, 3));
    assert_eq!(std::fs::read_to_string(to.join("b")).unwrap(), "22");
}

#[test]
fn links_stay_inside_however_they_are_written() {
    let dir = folder();
    let own = dir.path().join("own");
    std::fs::create_dir_all(own.join("x/y")).unwrap();
    std::fs::write(own.join("f"), "f").unwrap();
    symlink(own.join("f"), own.join("x/y/absolute")).unwrap();
    symlink("../../f", own.join("x/y/relative")).unwrap();
    symlink("y", own.join("x/folder")).unwrap();
    copy(&order(dir.path(), &[]), &Progress::default()).unwrap();
    let to = dir.path().join("to/abc");
    std::fs::remove_dir_all(&own).unwrap();
    for link in ["x/y/absolute", "x/y/relative", "x/folder/absolute"] {
        assert_eq!(std::fs::read_to_string(to.join(link)).unwrap(), "f", "{link}");
    }
}

#[test]
fn a_link_in_the_target_is_replaced_and_not_followed() {
    let dir = folder();
    std::fs::write(dir.path().join("work/a"), "new").unwrap();
    std::fs::write(dir.path().join("victim"), "old").unwrap();
    let to = dir.path().join("to/abc");
    std::fs::create_dir_all(&to).unwrap();
    symlink(dir.path().join("victim"), to.join("a")).unwrap();
    symlink(dir.path().join("victim"), to.join(".nexus-abc.part")).unwrap();
    copy(&order(dir.path(), &["a"]), &Progress::default()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("victim")).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(to.join("a")).unwrap(), "new");
}

#[test]
fn sockets_and_lines_that_were_left_out_are_refused() {
    let dir = folder();
    let _socket = nexus_node::sockets::listen_at(&dir.path().join("work/s")).unwrap();
    let failed = copy(&order(dir.path(), &["s"]), &Progress::default()).unwrap_err();
    assert!(failed.to_string().ends_with("/s is a socket, and no file that can be copied"), "{failed}");
    let mut order = order(dir.path(), &[]);
    order.sources.left_out = 7;
    let failed = copy(&order, &Progress::default()).unwrap_err();
    assert!(failed.to_string().starts_with("7 of its RESULTS lines") && !failed.may_pass(), "{failed}");
}

#[test]
fn a_copy_that_is_given_up_leaves_nothing_half() {
    let dir = folder();
    std::fs::write(dir.path().join("work/a"), vec![1; 1 << 20]).unwrap();
    let progress = Progress::default();
    progress.give_up();
    assert!(matches!(copy(&order(dir.path(), &["a"]), &progress), Err(Trouble::GivenUp)));
    assert_eq!(std::fs::read_dir(dir.path().join("to/abc")).unwrap().count(), 0);
}

#[test]
fn one_copy_at_a_time_and_its_end_is_told_once() {
    let dir = folder();
    std::fs::write(dir.path().join("work/a"), "1").unwrap();
    let (told, ends) = std::sync::mpsc::channel();
    let copier = Copier::start(Box::new(move |ended: Ended| told.send(ended.outcome).unwrap())).unwrap();
    let order = order(dir.path(), &["a"]);
    let (number, new) = copier.begin(order.clone());
    assert!(new);
    assert_eq!(ends.recv().unwrap(), Ok(()));
    assert!(!copier.look(order.job).unwrap().ended, "it is not on disk");
    copier.settle(order.job);
    let seen = copier.look(order.job).unwrap();
    assert_eq!((seen.number, seen.ended, seen.error), (number, true, None));
    assert_eq!(copier.begin(order), (number + 1, true));
    assert_eq!(ends.recv().unwrap(), Ok(()));
}
