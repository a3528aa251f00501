//! Sockets outside of the home: other users who are there first, and who try to be there instead of the service.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nexus_testkit::Nexus;

use super::{is_root, lives};
use crate::NEXUS;

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
                    s = socket.socket(socket.AF_UNIX, kind); s.bind(sys.argv[1] + '/' + name); s.listen()\n    \
                    os.chmod(sys.argv[1] + '/' + name, 0o666); globals()[name] = s\n\
                print('listening', flush=True)\nsys.stdin.read() or __import__('time').sleep(600)";
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
