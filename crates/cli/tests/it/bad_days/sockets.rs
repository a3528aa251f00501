//! Sockets outside of the home: other users who are there first, and who try to be there instead of the service. Sockets that
//! vanish under a running service.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nexus_testkit::{Nexus, alive, kill, signal, until};

use super::{is_root, lives};
use crate::NEXUS;
use crate::crashes::readopt::Awake;

/// Takes the folder below the one that it was told, if there is one, listens in the place of the service, and hands a run to whoever
/// connects. Says a line: what it could do.
const STRANGER: &str = r#"
import json, os, socket, sys
above, mark, work = sys.argv[1:4]
names = os.listdir(above)
if not names:
    print("there is nothing to take", flush=True)
    sys.exit()
folder = os.path.join(above, names[0])
os.rename(folder, folder + ".taken")
os.mkdir(folder, 0o755)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(folder + "/reports.sock")
os.chmod(folder + "/reports.sock", 0o666)
listener.listen()
print("listening in its place", flush=True)
spec = {"format": 1, "run": "evl.1", "dir": work + "/evil", "argv": ["touch", mark], "shell": False, "cwd": "/", "tty": False,
        "env": [["PATH", os.environ["PATH"]]], "columns": 80, "rows": 24, "time_limit_ms": None, "warning": None,
        "grace_ms": 1000, "out": None, "reports": "", "cgroup_base": None}
shim, _ = listener.accept()
while shim.recv(1 << 17):
    shim.send(json.dumps({"Begin": {"spec": spec, "last_settled": True}}).encode())
"#;

struct Stranger(Child);

impl Stranger {
    /// As another user: this program, until it has said a line.
    fn begin(uid: u32, program: &str, args: &[&Path]) -> (Stranger, String) {
        let user = uid.to_string();
        let mut child = Command::new("setpriv")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups", "python3", "-c", program])
            .args(args)
            // The one of the system: that of the tests may lie in a folder that is closed to others.
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv and python3 are there");
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        (Stranger(child), said.trim_end().to_string())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A home of this user, whose sockets cannot lie in it; no runtime folder.
fn outside(uid: u32) -> Nexus {
    Nexus::fresh(NEXUS).of_user(uid).env("NEXUS_NETWORK_HOME", "1")
}

/// The home's folder of this host.
fn host_dir(nexus: &Nexus) -> PathBuf {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    nexus.home().join("hosts").join(host.trim())
}

/// The folder of random name that the service of this home has.
fn random_folder(nexus: &Nexus) -> PathBuf {
    let text = std::fs::read_to_string(host_dir(nexus).join("sockets")).unwrap();
    PathBuf::from(text.trim_end())
}

/// Removes folders when the test is over.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_stranger_who_made_the_folder_first_runs_nothing_as_its_owner() {
    if !is_root() {
        return;
    }
    let (owner, stranger) = (61_073, 61_074);
    let above = PathBuf::from(format!("/tmp/nexus-{owner}"));
    let _above = Gone(above.clone());
    let made = "import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777); print('made')";
    assert_eq!(Stranger::begin(stranger, made, &[&above]).1, "made");
    let nexus = outside(owner);
    nexus.start(2);
    let first = nexus.add_with(&["--gpus", "2"], "until [ -e go ]; do sleep 0.01; done; exit 3");
    nexus.in_state(&first, "running");
    // One of them gets the shim of the first, which is connected; the other's connects when the stranger listens.
    let next = [nexus.add("exit 4"), nexus.add("exit 4")];
    let mark = nexus.work().join("owned");
    let (mut listening, said) = Stranger::begin(stranger, STRANGER, &[&above, &mark, &nexus.work()]);
    nexus.file("go", "");
    // A shim that was handed a run hangs up when it has done it.
    listening.0.wait().unwrap();
    let ran_as = std::fs::metadata(&mark).map(|about| about.uid()).ok();
    assert_eq!(ran_as, None, "the stranger's command ran as this user");
    assert_eq!(said, "there is nothing to take");
    assert_eq!(nexus.ended(&first)["exit_code"], 3);
    for id in next {
        assert_eq!(nexus.ended(&id)["exit_code"], 4);
    }
    let folder = random_folder(&nexus);
    let about = std::fs::symlink_metadata(&folder).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o7777), (owner, 0o700));
    assert!(folder.join("nexus.sock").exists() && folder.join("reports.sock").exists());
    let name_file = std::fs::metadata(host_dir(&nexus).join("sockets")).unwrap();
    assert_eq!((name_file.uid(), name_file.permissions().mode() & 0o777), (owner, 0o600));
    nexus.ok(&["stop", "-y"]);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_stranger_who_took_the_random_name_locks_nobody_out() {
    if !is_root() {
        return;
    }
    let nexus = outside(61_075);
    nexus.start(1);
    nexus.ok(&["stop", "-y"]);
    let taken = random_folder(&nexus);
    // As after a restart of the machine, which empties /tmp.
    std::fs::remove_dir_all(&taken).unwrap();
    let _taken = Gone(taken.clone());
    let took = "import os, socket, sys\nos.mkdir(sys.argv[1])\n\
                for name, kind in ('nexus.sock', socket.SOCK_STREAM), ('reports.sock', socket.SOCK_SEQPACKET):\n    \
                    s = socket.socket(socket.AF_UNIX, kind); s.bind(sys.argv[1] + '/' + name); s.listen(0)\n    \
                    os.chmod(sys.argv[1] + '/' + name, 0o666); globals()[name] = s\n    \
                    for one in range(3):\n        \
                        c = socket.socket(socket.AF_UNIX, kind); c.setblocking(False); c.connect_ex(sys.argv[1] + '/' + name)\n        \
                        globals()[name + str(one)] = c\n\
                print('listening', flush=True)\nsys.stdin.read() or __import__('time').sleep(600)";
    // The queues of its sockets are full, so that a connection fails before the kernel names the peer.
    let (_stranger, said) = Stranger::begin(61_076, took, &[&taken]);
    assert_eq!(said, "listening");
    nexus.fails(3, &["queue"]);
    lives(&nexus);
    let own = random_folder(&nexus);
    assert_ne!(own, taken);
    nexus.ok(&["stop", "-y"]);
    let _ = std::fs::remove_dir_all(own);
}

#[test]
fn a_link_of_a_stranger_leads_to_no_other_service() {
    if !is_root() {
        return;
    }
    let (nexus, other) = (outside(61_079), Nexus::fresh(NEXUS).of_user(61_079));
    nexus.start(1);
    nexus.ok(&["stop", "-y"]);
    other.start(1);
    let taken = random_folder(&nexus);
    std::fs::remove_dir_all(&taken).unwrap();
    let _taken = Gone(taken.clone());
    let linked = "import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777)\n\
                  os.symlink(sys.argv[2], sys.argv[1] + '/nexus.sock'); print('linked')";
    let socket = other.home().join("nexus.sock");
    assert_eq!(Stranger::begin(61_080, linked, &[&taken, &socket]).1, "linked");
    nexus.fails(3, &["queue"]);
    nexus.run(&["stop", "-y"]);
    assert!(alive(other.service_pid()), "the service of another home was stopped");
    other.ok(&["queue"]);
}

#[test]
fn a_runtime_folder_of_somebody_else_is_left_to_him_and_doctor_says_so() {
    if !is_root() {
        return;
    }
    let nexus = outside(61_077);
    let run = nexus.root().join("run");
    std::fs::create_dir(&run).unwrap();
    std::os::unix::fs::chown(&run, Some(61_078), None).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
    let nexus = nexus.env("XDG_RUNTIME_DIR", run.to_str().unwrap());
    nexus.start(1);
    lives(&nexus);
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0);
    let seen = nexus.run(&["doctor"]).stdout;
    let line = seen.lines().find(|line| line.contains("sockets")).unwrap_or_else(|| panic!("{seen}"));
    assert!(line.contains("XDG_RUNTIME_DIR is not used") && line.contains("belongs to user 61078"), "{seen}");
    let own = random_folder(&nexus);
    nexus.ok(&["stop", "-y"]);
    let _ = std::fs::remove_dir_all(own);
}

/// A job that runs, one that waits for the first, and clients that follow and wait: all see the end of what happens.
fn vanishes(nexus: &Nexus, vanish: impl FnOnce()) {
    let runs = nexus.add("echo begun; until [ -e go ]; do sleep 0.01; done; echo over; exit 3");
    let waits = nexus.add("exit 4");
    until("it printed", || nexus.ok(&["logs", &runs]).contains("begun").then_some(()));
    let service = nexus.service_pid();
    let spawned = |args: &[&str]| nexus.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut follows, awaits) = (spawned(&["logs", "-f", &runs]), spawned(&["wait", &runs, &waits]));
    // It is connected once it shows something.
    let mut shown = BufReader::new(follows.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("begun") && shown.read_line(&mut text).unwrap() > 0 {}
    vanish();
    until("it answers again", || (nexus.run(&["status"]).code == 0).then_some(()));
    assert_eq!(nexus.service_pid(), service, "another service was started");
    let later = nexus.add("exit 5");
    nexus.file("go", "");
    for (id, code) in [(&runs, 3), (&waits, 4), (&later, 5)] {
        assert_eq!(nexus.ended(id)["exit_code"], code);
    }
    assert_eq!(awaits.wait_with_output().unwrap().status.code(), Some(1));
    shown.read_to_string(&mut text).unwrap();
    follows.wait().unwrap();
    assert!(text.contains("begun") && text.contains("over"), "{text}");
    let log =
        [nexus.home(), host_dir(nexus)].map(|dir| std::fs::read_to_string(dir.join("service.log")).unwrap_or_default());
    assert!(log.concat().contains("Sockets vanished; new ones are in "), "{log:?}");
}

#[test]
fn sockets_that_are_removed_come_back() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    vanishes(&nexus, || {
        std::fs::remove_file(nexus.home().join("nexus.sock")).unwrap();
        std::fs::remove_file(nexus.home().join("reports.sock")).unwrap();
    });
    nexus.ok(&["stop", "-y"]);
    assert!(!nexus.home().join("nexus.sock").exists() && !nexus.home().join("reports.sock").exists());
}

/// A home whose sockets are in a runtime folder, below this one.
fn with_runtime_dir(name: &str) -> (Nexus, PathBuf) {
    let nexus = Nexus::fresh(NEXUS).env("NEXUS_NETWORK_HOME", "1");
    let run = nexus.work().join(name);
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
    let nexus = nexus.env("XDG_RUNTIME_DIR", run.to_str().unwrap());
    (nexus, run)
}

fn stopped_and_cleared(nexus: &Nexus) {
    let own = random_folder(nexus);
    assert!(own.join("nexus.sock").exists() && own.join("reports.sock").exists());
    nexus.ok(&["stop", "-y"]);
    assert!(!own.join("nexus.sock").exists() && !own.join("reports.sock").exists());
    let _ = std::fs::remove_dir_all(own);
}

#[test]
fn a_runtime_folder_that_logind_removes_is_replaced() {
    let (nexus, run) = with_runtime_dir("run/user/0");
    nexus.start(1);
    // Not empty: the service has made its folder again already, and what was removed before is what it has to notice.
    vanishes(&nexus, || match std::fs::remove_dir_all(&run) {
        Err(error) if error.kind() != std::io::ErrorKind::DirectoryNotEmpty => panic!("{error}"),
        _ => {}
    });
    stopped_and_cleared(&nexus);
}

#[test]
fn a_runtime_folder_whose_mount_is_taken_away_is_replaced() {
    if !is_root() {
        return;
    }
    let (nexus, run) = with_runtime_dir("run/user/0");
    let mounts = |args: &[&str]| {
        let done = Command::new(args[0]).args(&args[1..]).arg(&run).status().unwrap();
        assert!(done.success(), "{args:?}");
    };
    mounts(&["mount", "-t", "tmpfs", "-o", "mode=700", "none"]);
    nexus.start(1);
    // As logind does it where files are held open: the mount is gone at once, what was in it is not told to be removed.
    vanishes(&nexus, || {
        mounts(&["umount", "--lazy"]);
        std::fs::remove_dir(&run).unwrap();
    });
    stopped_and_cleared(&nexus);
}

#[test]
fn a_service_that_cannot_be_reached_is_known_by_its_lock_and_can_be_ended() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("until [ -e go ]; do sleep 0.01; done; exit 3");
    let pid = nexus.in_state(&id, "running")["pid"].as_u64().unwrap() as u32;
    let service = nexus.service_pid();
    // It cannot make its socket again where a folder lies. It may be quicker with that than we are with the folder.
    let socket = nexus.home().join("nexus.sock");
    until("a folder is in its place", || {
        let _ = std::fs::remove_file(&socket);
        std::fs::create_dir(&socket).ok()
    });
    let said = nexus.fails(3, &["status"]);
    assert!(said.starts_with("error: the service cannot be reached\n"), "{said}");
    assert!(said.contains(&format!("it runs (pid {service}), and nobody answers on ")), "{said}");
    assert!(said.contains("hint: nexus stop ends it"), "{said}");
    let seen = nexus.run(&["doctor"]).expect_code(1).stdout;
    assert!(seen.contains(&format!("bad   service      runs (pid {service}), and nobody answers on ")), "{seen}");
    if std::env::var_os("NEXUS_TEST_LONG").is_some() {
        let said = nexus.fails(1, &["start"]);
        assert!(said.contains(&format!("a service (pid {service}) holds ")) && said.contains("nexus stop"), "{said}");
    }
    let said = nexus.run(&["stop"]).expect_code(0).stderr;
    assert!(said.contains(&format!("the service (pid {service}) does not answer on ")), "{said}");
    assert!(said.ends_with("service stopped; running jobs go on\n"), "{said}");
    assert!(!alive(service) && alive(pid));
    let said = nexus.fails(3, &["status"]);
    assert!(said.starts_with("error: no service runs in this home\n"), "{said}");
    std::fs::remove_dir(&socket).unwrap();
    nexus.ok(&["start"]);
    nexus.file("go", "");
    assert_eq!(nexus.ended(&id)["exit_code"], 3);
}

#[test]
fn a_service_that_is_stopped_by_a_signal_is_told_and_replaced() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("until [ -e go ]; do sleep 0.01; done; exit 3");
    nexus.in_state(&id, "running");
    let service = nexus.service_pid();
    let _awake = Awake(service);
    kill(service, signal::SIGSTOP);
    let said = nexus.fails(1, &["status"]);
    assert!(said.starts_with(&format!("error: the service is stopped (pid {service})\n")), "{said}");
    assert!(said.contains(&format!("hint: kill -CONT {service} continues it; nexus restart replaces it\n")), "{said}");
    let said = nexus.run(&["restart"]).expect_code(0).stderr;
    assert!(said.contains("does not answer on ") && said.contains("service started (pid "), "{said}");
    assert!(!alive(service));
    nexus.file("go", "");
    assert_eq!(nexus.ended(&id)["exit_code"], 3);
}
