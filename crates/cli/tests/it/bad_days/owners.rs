//! Another user can neither talk to the service nor take its home.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nexus_testkit::{Nexus, Output};

use super::{is_root, lives};
use crate::NEXUS;

/// The binary as another user.
fn as_nobody(nexus: &Nexus, args: &[&str]) -> Output {
    let done = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(NEXUS)
        .args(args)
        .env("NEXUS_HOME", nexus.home())
        .current_dir("/")
        .output()
        .expect("setpriv is there");
    Output::new(format!("nobody$ nexus {}", args.join(" ")), done)
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn nothing_in_the_home_can_be_read_by_others() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let folder = nexus.work().join("code");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("main.sh"), "echo hello").unwrap();
    nexus.set_variable("TOKEN", "s3cret");
    let sync = folder.display().to_string();
    let command =
        "umask 022; echo {TOKEN} >&2; echo 1 > $NEXUS_RESULTS_DIR/r; echo 2 > $NEXUS_CHECKPOINT_DIR/c; sleep 1";
    let id = nexus.add_with(&["--sync", &sync, "--project", "p"], command);
    nexus.in_state(&id, "running");
    let open = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o077 != 0;
    let look = || {
        let (mut folders, mut found) = (vec![nexus.home()], Vec::new());
        while let Some(folder) = folders.pop() {
            // Nobody gets below one that is closed; what jobs made there is theirs.
            if open(&folder) {
                found.push(folder.clone());
            }
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let about = std::fs::symlink_metadata(entry.path());
                match about {
                    Ok(about) if about.is_dir() => folders.push(entry.path()),
                    Ok(about) if about.is_file() && open(&entry.path()) => found.push(entry.path()),
                    _ => {}
                }
            }
        }
        found.retain(|path| !["r", "c"].iter().any(|name| path.ends_with(name)));
        found
    };
    assert_eq!(look(), Vec::<std::path::PathBuf>::new());
    nexus.ended(&id);
    assert_eq!(look(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn another_user_is_turned_away() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    open_to_all(nexus.work().parent().unwrap(), 0o755);
    let closed = as_nobody(&nexus, &["remove", "-y", &id]);
    assert_eq!(closed.code, 1, "{closed}");
    assert!(closed.stderr.contains("Permission denied"), "{closed}");

    // Even where somebody opened folder and socket the service looks who is there.
    open_to_all(&nexus.home(), 0o755);
    open_to_all(&nexus.home().join("nexus.sock"), 0o666);
    for args in [&["remove", "-y", &id][..], &["add", "--gpus", "0", "true"], &["queue"], &["stop", "-y"]] {
        let answered = as_nobody(&nexus, args);
        assert!(answered.code != 0, "{answered}");
        assert_eq!(answered.stdout, "", "{answered}");
    }
    assert_eq!(nexus.job(&id)["state"], "held");
    lives(&nexus);
}

#[test]
fn a_home_of_somebody_else_is_refused() {
    if !is_root() {
        return;
    }
    let nexus = Nexus::fresh(NEXUS);
    open_to_all(nexus.work().parent().unwrap(), 0o755);
    std::fs::create_dir(nexus.home()).unwrap();
    let refused = as_nobody(&nexus, &["start"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.starts_with("error: nexus cannot keep its files in "), "{refused}");
    assert!(refused.stderr.contains("it belongs to another user"), "{refused}");
}
