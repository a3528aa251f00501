//! A GPU has one holder at a time, whoever's service it is, and the holder is known by name.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_api::run_dir::{ExitStatus, RunSpec};
use nexus_node::gpu::LockHolder;
use nexus_node::gpu::locks::{Hold, Locks, Unusable};
use nexus_node::processes;
use nexus_testkit::{FakeGpu, FakeGpus};

use super::{NOBODY, Sleeper, Watch, is_root, vitals};
use crate::stage::{Stage, exited, wait_until};

fn names(letters: &str) -> Vec<String> {
    letters.chars().map(FakeGpu::uuid_of).collect()
}

fn own_pid(holder: Option<LockHolder>) -> bool {
    holder.is_some_and(|holder| holder.pid == Some(std::process::id()) && holder.user.is_some())
}

#[test]
fn of_two_holders_one_gets_it_and_is_known() {
    let temporary = tempfile::tempdir().unwrap();
    let locks = Locks::at(temporary.path().join("locks"));
    assert_eq!(locks.holder(&FakeGpu::uuid_of('a')), None, "there is no folder yet");
    let held = locks.hold(&names("ba"), Hold::Alone).unwrap();
    assert_eq!((held.count(), held.without.is_none()), (2, true));
    let mode = temporary.path().join("locks").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
    assert!(own_pid(locks.holder(&FakeGpu::uuid_of('a'))));
    let taken = locks.hold(&names("cb"), Hold::Alone).unwrap_err();
    assert_eq!((taken.uuid.as_str(), taken.holder.pid), (FakeGpu::uuid_of('b').as_str(), Some(std::process::id())));
    assert_eq!(locks.holder(&FakeGpu::uuid_of('c')), None);
    assert_eq!(locks.hold(&names("c"), Hold::Alone).unwrap().count(), 1, "all or none: c was not kept");
    drop(held);
    assert_eq!(locks.holder(&FakeGpu::uuid_of('b')), None);
    assert_eq!(locks.hold(&names("abc"), Hold::Alone).unwrap().count(), 3);
    assert_eq!(locks.hold(&names("aa"), Hold::Alone).unwrap().count(), 1, "named twice");
    let left = std::fs::read_dir(temporary.path().join("locks")).unwrap().count();
    assert_eq!(left, 3, "no temporary files");
}

#[test]
fn several_share_a_gpu_that_nobody_then_has_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let locks = Locks::at(temporary.path().join("locks"));
    let first = locks.hold(&names("a"), Hold::Shared).unwrap();
    let second = locks.hold(&names("ab"), Hold::Shared).unwrap();
    assert_eq!((first.count(), second.count()), (1, 2));
    assert!(own_pid(locks.holder(&FakeGpu::uuid_of('a'))), "who shares is known too");
    let taken = locks.hold(&names("ab"), Hold::Alone).unwrap_err();
    assert_eq!((taken.uuid.as_str(), taken.holder.pid), (FakeGpu::uuid_of('a').as_str(), Some(std::process::id())));
    drop(first);
    assert!(own_pid(locks.holder(&FakeGpu::uuid_of('a'))), "the other still has it");
    locks.hold(&names("a"), Hold::Alone).unwrap_err();
    drop(second);
    assert_eq!(locks.holder(&FakeGpu::uuid_of('a')), None);
    let alone = locks.hold(&names("a"), Hold::Alone).unwrap();
    locks.hold(&names("a"), Hold::Shared).unwrap_err();
    drop(alone);
    assert_eq!(locks.hold(&names("a"), Hold::Shared).unwrap().count(), 1);
}

#[test]
fn those_who_look_are_in_nobodys_way() {
    let temporary = tempfile::tempdir().unwrap();
    let locks = Locks::at(temporary.path().join("locks"));
    drop(locks.hold(&names("a"), Hold::Alone).unwrap());
    let stop = AtomicBool::new(false);
    let own = Some(std::process::id());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let holder = locks.holder(&FakeGpu::uuid_of('a'));
                    assert!(holder.is_none_or(|holder| holder.pid.is_none_or(|pid| Some(pid) == own)));
                }
            });
        }
        for _ in 0..200 {
            for how in [Hold::Alone, Hold::Shared] {
                let held = locks.hold(&names("a"), how);
                assert_eq!(held.map(|held| held.count()).map_err(|taken| taken.to_string()), Ok(1), "{how:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A process of another user that holds a GPU.
fn held_by_nobody(locks: &Locks, letter: char) -> Sleeper {
    let locks = locks.clone();
    let mut command = Command::new("sleep");
    command.arg("600").uid(NOBODY);
    let hold = move || {
        let held = locks
            .hold(&names(&letter.to_string()), Hold::Alone)
            .map_err(|taken| std::io::Error::other(taken.to_string()))?;
        assert!(held.without.is_none() && held.count() == 1);
        let is_lock = |descriptor: &i32| {
            let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
            link.is_ok_and(|link| link.ends_with(FakeGpu::uuid_of(letter)))
        };
        for descriptor in (3..64).filter(is_lock) {
            // SAFETY: only a flag of the descriptor changes, so that exec keeps it.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
        }
        std::mem::forget(held);
        Ok(())
    };
    // SAFETY: allocates after a fork, which this C library allows.
    unsafe { command.pre_exec(hold) };
    Sleeper::start(&mut command)
}

#[test]
fn another_users_holder_is_named_in_readings_and_refusals() {
    if !is_root() {
        return;
    }
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b')]);
    std::fs::set_permissions(fake.locks().parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let locks = Locks::at(fake.locks());
    // One file is root's, the other nobody's: each can lock both.
    drop(locks.hold(&names("a"), Hold::Alone).unwrap());
    let a = held_by_nobody(&locks, 'a');
    let b = held_by_nobody(&locks, 'b');
    let holder = |pid| Some(LockHolder { pid: Some(pid), user: Some("nobody".into()) });
    assert_eq!(locks.holder(&FakeGpu::uuid_of('a')), holder(a.pid()));
    let taken = locks.hold(&names("b"), Hold::Alone).unwrap_err();
    assert_eq!(taken.to_string(), format!("GPU GPU-bbbbbbbb… is held by nobody's nexus (pid {})", b.pid()));
    let watch = Watch::over(&fake);
    assert_eq!(vitals(&watch.next().gpus[0]).lock, holder(a.pid()));
    drop(a);
    watch.until("the lock goes with its holder", |reading| vitals(&reading.gpus[0]).lock.is_none());
}

#[test]
fn traps_in_the_folder_are_not_stepped_into_and_stop_no_job() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("locks");
    let locks = Locks::at(&folder);
    locks.check().unwrap();
    let precious = temporary.path().join("precious");
    std::fs::write(&precious, "kept").unwrap();
    symlink(&precious, folder.join(FakeGpu::uuid_of('a'))).unwrap();
    symlink(temporary.path().join("made"), folder.join(FakeGpu::uuid_of('b'))).unwrap();
    std::fs::create_dir(folder.join(FakeGpu::uuid_of('c'))).unwrap();
    let at = |letter: char| folder.join(FakeGpu::uuid_of(letter));
    let fifo = std::ffi::CString::new(at('e').to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
    let _socket = nexus_node::sockets::listen_at(at('f').as_ref()).unwrap();
    let table =
        [('a', "a symbolic link"), ('b', "a symbolic link"), ('c', "a folder"), ('e', "a FIFO"), ('f', "a socket")];
    for (letter, what) in table {
        let held = locks.hold(&names(&format!("{letter}d")), Hold::Alone).unwrap();
        assert_eq!(held.count(), 1, "{letter}: the other GPU is locked all the same");
        let told = held.without.expect("it is told").to_string();
        let path = at(letter).display().to_string();
        assert!(told.contains(&format!("{path} is {what} of user ")), "{letter}: {told}");
        let look = locks.look(&FakeGpu::uuid_of(letter));
        assert_eq!((look.holder, look.error.map(|error| error.to_string())), (None, Some(told)), "{letter}");
    }
    assert!(locks.look(&FakeGpu::uuid_of('x')).error.is_none(), "the first run makes it");
    assert!(!temporary.path().join("made").exists());
    assert_eq!(locks.hold(&names("d"), Hold::Alone).unwrap().count(), 1, "the others are of use");
}

/// Root may read any file: another user meets it.
#[test]
fn a_lock_that_may_not_be_read_is_told() {
    if !is_root() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let locks = Locks::at(temporary.path().join("locks"));
    locks.check().unwrap();
    let path = locks.folder().join(FakeGpu::uuid_of('a'));
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let told = temporary.path().join("told");
    std::fs::write(&told, "").unwrap();
    std::fs::set_permissions(&told, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (locks, file) = (locks.clone(), told.clone());
    let mut command = Command::new("true");
    command.uid(NOBODY);
    let look = move || {
        let error = locks.look(&FakeGpu::uuid_of('a')).error.map(|error| error.to_string());
        std::fs::write(&file, error.unwrap_or_default())
    };
    // SAFETY: allocates after a fork, which this C library allows.
    unsafe { command.pre_exec(look) };
    assert!(command.status().unwrap().success());
    let told = std::fs::read_to_string(told).unwrap();
    let expected = format!("the GPU is not locked: cannot open {} (a file of user root): ", path.display());
    assert!(told.starts_with(&expected) && told.contains("Permission denied"), "{told}");
}

#[test]
fn a_folder_that_cannot_be_trusted_is_not_used() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| Locks::at(temporary.path().join(name));
    let real = at("real");
    real.check().unwrap();
    symlink(temporary.path().join("real"), temporary.path().join("link")).unwrap();
    std::fs::create_dir(temporary.path().join("plain")).unwrap();
    std::fs::write(temporary.path().join("file"), "").unwrap();
    for name in ["link", "plain", "file", "file/below"] {
        let held = at(name).hold(&names("a"), Hold::Alone).unwrap();
        let told = held.without.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(held.count() == 0 && told.contains(name), "{name}: {told}");
    }
    assert!(matches!(at("plain").check(), Err(Unusable::NotSticky { .. })));
    assert_eq!(at("plain").hold(&[], Hold::Alone).unwrap().without.map(drop), None, "nothing to lock, nothing to say");
}

#[test]
fn a_shim_locks_its_gpus_until_all_its_processes_are_gone() {
    let stage = Stage::new();
    let locks = Locks::at(stage.home.path().join("gpu-locks"));
    let on = |spec, letters: &str| RunSpec { gpu_locks: names(letters), ..spec };
    // The command ends early and leaves a child that does not end when asked.
    let text = "(trap '' HUP TERM; ls -l /proc/self/fd > fds; echo > up; while ! [ -e go ]; do sleep 0.01; done) &
        while ! [ -e up ]; do sleep 0.01; done";
    stage.start(on(stage.shell("aaa.1", text), "ab"));
    let command = stage.start_of("aaa.1");
    stage.wait_for_file("up");
    assert!(!stage.wait_for_file("fds").contains("gpu-locks"), "the job does not inherit the lock");
    let holder = locks.holder(&FakeGpu::uuid_of('a')).expect("held");
    let shim = holder.pid.and_then(processes::stat).expect("the holder lives");
    assert_ne!(shim.process.pid, command);
    let refused = stage.run(on(stage.shell("bbb.1", "echo > ran"), "bc"));
    let (uuid, pid) = (FakeGpu::uuid_of('b'), Some(shim.process.pid));
    assert_eq!(refused.status, ExitStatus::GpuLocked { uuid, user: holder.user, pid });
    assert!(!stage.home.path().join("ran").exists());
    assert_eq!(stage.run(on(stage.shell("ccc.1", "exit 3"), "c")).status, exited(3), "others are free");
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("aaa.1").status, exited(0));
    assert_eq!(locks.holder(&FakeGpu::uuid_of('a')), None, "free before its end is told");
    assert_eq!(stage.run(on(stage.shell("ddd.1", "exit 4"), "ab")).status, exited(4));
}

#[test]
fn shims_of_shares_hold_their_gpu_together() {
    let stage = Stage::new();
    let locks = Locks::at(stage.home.path().join("gpu-locks"));
    let share =
        |run: &str, text: &str| RunSpec { gpu_locks: names("a"), gpu_locks_shared: true, ..stage.shell(run, text) };
    let waits = "while ! [ -e go ]; do sleep 0.01; done; exit 6";
    stage.start(share("aaa.1", waits));
    stage.start_of("aaa.1");
    assert_eq!(stage.run(share("bbb.1", "exit 3")).status, exited(3), "beside the other");
    let alone = RunSpec { gpu_locks: names("a"), ..stage.shell("ccc.1", "exit 4") };
    assert!(matches!(stage.run(alone).status, ExitStatus::GpuLocked { .. }), "the GPU is shared");
    assert!(locks.holder(&FakeGpu::uuid_of('a')).is_some_and(|holder| holder.pid.is_some()));
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    assert_eq!(stage.end_of("aaa.1").status, exited(6));
    let alone = RunSpec { gpu_locks: names("a"), ..stage.shell("ddd.1", "exit 5") };
    assert_eq!(stage.run(alone).status, exited(5));
}

#[test]
fn a_folder_for_locks_that_cannot_be_used_stops_no_job() {
    let stage = Stage::new();
    std::fs::write(stage.home.path().join("gpu-locks"), "a file").unwrap();
    let spec = RunSpec { gpu_locks: names("a"), ..stage.shell("aaa.1", "exit 5") };
    assert_eq!(stage.run(spec).status, exited(5));
}

#[test]
fn a_dead_shims_lock_is_free() {
    let stage = Stage::new();
    let locks = Locks::at(stage.home.path().join("gpu-locks"));
    stage.start(RunSpec { gpu_locks: names("a"), ..stage.shell("aaa.1", "sleep 600") });
    stage.start_of("aaa.1");
    let holder = locks.holder(&FakeGpu::uuid_of('a')).and_then(|holder| holder.pid).expect("held");
    assert!(processes::stat(holder).unwrap().process.signal(libc::SIGKILL));
    wait_until("the lock is free", || locks.holder(&FakeGpu::uuid_of('a')).is_none());
}
