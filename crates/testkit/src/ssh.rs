//! Hosts of a test: real sshd on addresses of this machine's own, with keys, a folder and a configuration of their own.
//! They share its processes and files; each has another `--home`, and a user's home without the rc files of whoever runs
//! the test: one of these that is killed half-way may hold up all that come later. A host may have mounts of its own,
//! which nobody else sees and which are gone with its last process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::{Nexus, Output, kill, proc, until};

const PORT: u16 = 2222;

pub struct SshHosts {
    dir: TempDir,
    /// Their names and addresses.
    hosts: Vec<(String, String)>,
}

impl SshHosts {
    /// They are called `host1`, `host2`, …
    pub fn start(count: usize) -> SshHosts {
        let names: Vec<String> = (1..=count).map(|number| format!("host{number}")).collect();
        SshHosts::start_as(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// They are called so; by number from 1 on all the same.
    pub fn start_as(names: &[&str]) -> SshHosts {
        let dir = tempfile::Builder::new().prefix("nx-ssh-").tempdir().expect("a temporary folder");
        keygen(&dir.path().join("id"));
        let mut hosts = SshHosts { dir, hosts: Vec::new() };
        for name in names {
            hosts.add(name);
        }
        hosts
    }

    fn add(&mut self, name: &str) {
        let (number, address) = (self.hosts.len() + 1, fresh_address());
        let folder = self.folder(number);
        fs::create_dir_all(folder.join("home")).expect("a folder of the host");
        // Without rc files: what those of this user do is no part of a test, and a kill in the midst of it would stay.
        let nexus = self.user_home(number).join(".nexus");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::create_dir_all(&nexus).and_then(|()| fs::set_permissions(nexus, private)).expect("a home of its user");
        // Hosts of all tests share the copies of nexus that were sent: the build is large.
        for bin in ["home/bin", "user/.nexus/bin"] {
            std::os::unix::fs::symlink(shared_binaries(), folder.join(bin)).expect("a link");
        }
        keygen(&folder.join("key"));
        let config = format!(
            "ListenAddress {address}:{PORT}\nHostKey {0}/key\nPidFile {0}/pid\nAuthorizedKeysFile {1}/id.pub\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             MaxStartups 100\nUseDNS no\nPrintMotd no\n\
             SetEnv NEXUS_TEST_HOST=host{number} HOME={0}/user\n",
            folder.display(),
            self.dir.path().display(),
        );
        fs::write(folder.join("sshd_config"), config).expect("a configuration");
        self.hosts.push((name.into(), address));
        self.write_client_config();
        self.power_on(number);
    }

    /// What ssh of the service is told by.
    fn write_client_config(&self) {
        let dir = self.dir.path().display();
        let (mut config, mut known) = (String::new(), String::new());
        for (place, (name, address)) in self.hosts.iter().enumerate() {
            let number = place + 1;
            config.push_str(&format!("Host {name}\n  HostName {address}\n  Port {PORT}\n"));
            let key = fs::read_to_string(self.folder(number).join("key.pub")).expect("the host's key");
            let key: Vec<&str> = key.split(' ').take(2).collect();
            known.push_str(&format!("[{address}]:{PORT} {}\n", key.join(" ")));
        }
        config.push_str(&format!(
            "Host *\n  IdentityFile {dir}/id\n  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile \
             {dir}/known_hosts\n  GlobalKnownHostsFile /dev/null\n",
        ));
        fs::write(self.dir.path().join("known_hosts"), known).expect("known hosts");
        fs::write(self.client_config(), config).expect("a configuration");
    }

    /// What `ssh -F` takes.
    pub fn client_config(&self) -> PathBuf {
        self.dir.path().join("ssh_config")
    }

    /// Of one host.
    pub fn folder(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("h{number}"))
    }

    /// The home directory of the user there.
    pub fn user_home(&self, number: usize) -> PathBuf {
        self.folder(number).join("user")
    }

    /// The folder that nexus is told to use there.
    pub fn home(&self, number: usize) -> PathBuf {
        self.folder(number).join("home")
    }

    pub fn known_hosts(&self) -> PathBuf {
        self.dir.path().join("known_hosts")
    }

    /// Has the service of a home find these hosts.
    pub fn known_to(&self, nexus: &Nexus) {
        self.known_with(nexus, &[]);
    }

    /// The same, with further arguments of ssh.
    pub fn known_with(&self, nexus: &Nexus, more: &[&str]) {
        let config = self.client_config().display().to_string();
        let args: Vec<&str> = ["-F", &config].into_iter().chain(more.iter().copied()).collect();
        nexus.ok(&["config", "set", "ssh.args", &format!("{args:?}")]);
    }

    /// How often somebody was let in since its sshd was last configured.
    pub fn calls(&self, number: usize) -> usize {
        let log = fs::read_to_string(self.folder(number).join("log")).unwrap_or_default();
        log.matches("Accepted publickey").count()
    }

    /// Types `nexus machine add` for a host.
    pub fn try_add(&self, nexus: &Nexus, number: usize, more: &[&str]) -> Output {
        let (name, home) = (format!("host{number}"), self.home(number).display().to_string());
        nexus.run_limited(&[&["machine", "add", &name, "--home", &home], more].concat())
    }

    pub fn add_to(&self, nexus: &Nexus, number: usize, gpus: u16) {
        self.try_add(nexus, number, &["--simulate-gpus", &gpus.to_string()]).expect_code(0);
    }

    /// Starts its sshd.
    pub fn power_on(&self, number: usize) {
        // As root it wants this folder for the time before anybody is let in.
        let _ = fs::create_dir_all("/run/sshd");
        let folder = self.folder(number);
        let _ = fs::remove_file(folder.join("pid"));
        let begun = self
            .program(number)
            .arg("-f")
            .arg(folder.join("sshd_config"))
            .arg("-E")
            .arg(folder.join("log"))
            .stdin(Stdio::null())
            .status()
            .expect("sshd is installed");
        assert!(begun.success(), "{}", fs::read_to_string(folder.join("log")).unwrap_or_default());
        until("sshd listens", || fs::read_to_string(folder.join("pid")).ok().filter(|pid| !pid.trim().is_empty()));
    }

    /// sshd, among the host's own mounts where it has some.
    fn program(&self, number: usize) -> Command {
        let (mounts, sshd) = (self.folder(number).join("mounts"), "/usr/sbin/sshd");
        if !mounts.exists() {
            return Command::new(sshd);
        }
        let mut program = Command::new("unshare");
        program.args(["--mount", "--propagation", "private", "sh", "-ec", ". \"$0\"; exec \"$@\""]);
        program.arg(mounts).arg(sshd);
        program
    }

    /// Starts its sshd again, where this script has mounted what it likes: `$HOME_THERE` is its home. False where only
    /// another user could do that.
    #[must_use]
    pub fn mount(&self, number: usize, script: &str) -> bool {
        let allowed = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!("skipped: only root has mounts of its own");
            return false;
        }
        self.end_sshd(number);
        let script = format!("HOME_THERE='{}'\n{script}\n", self.home(number).display());
        fs::write(self.folder(number).join("mounts"), script).expect("a script");
        self.power_on(number);
        true
    }

    /// Runs a script among the mounts of a host.
    pub fn among_mounts(&self, number: usize, script: &str) {
        let listener = self.listener(number).expect("its sshd runs").to_string();
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &listener, "sh", "-ec", script]).env("HOME_THERE", self.home(number));
        assert!(command.status().expect("nsenter is installed").success(), "{script}");
    }

    /// The home of a host, as it is among its mounts.
    pub fn home_there(&self, number: usize) -> PathBuf {
        let listener = self.listener(number).expect("its sshd runs");
        let home = self.home(number);
        Path::new("/proc").join(listener.to_string()).join("root").join(home.strip_prefix("/").expect("absolute"))
    }

    /// Gives a host's sshd further lines of configuration, and starts it again.
    pub fn configure(&self, number: usize, lines: &str) {
        let path = self.folder(number).join("sshd_config");
        let config = fs::read_to_string(&path).expect("its configuration");
        fs::write(path, config + lines).expect("its configuration");
        self.end_sshd(number);
        self.power_on(number);
    }

    /// Gives whoever logs in there further variables, as `NAME=value` with blanks between them.
    pub fn set_env(&self, number: usize, words: &str) {
        let path = self.folder(number).join("sshd_config");
        let config = fs::read_to_string(&path).expect("its configuration");
        fs::write(path, config.replace("SetEnv ", &format!("SetEnv {words} "))).expect("its configuration");
        self.configure(number, "");
    }

    /// Ends its sshd with all connections. What runs there goes on.
    pub fn end_sshd(&self, number: usize) {
        let all = self.sshd(number);
        for pid in &all {
            kill(*pid, libc::SIGKILL);
        }
        // The next one wants its address.
        until("its sshd is gone", || all.iter().all(|pid| !proc::alive(*pid)).then_some(()));
    }

    /// Nothing goes over its connections any more, and nobody is told; new ones hang.
    pub fn freeze(&self, number: usize) {
        for pid in self.sshd(number) {
            kill(pid, libc::SIGSTOP);
        }
    }

    pub fn thaw(&self, number: usize) {
        for pid in self.sshd(number) {
            kill(pid, libc::SIGCONT);
        }
    }

    /// Ends its node as a crash would.
    pub fn kill_node(&self, number: usize) {
        for pid in self.nodes(number) {
            kill(pid, libc::SIGKILL);
        }
    }

    /// All that runs there is gone at once.
    pub fn power_off(&self, number: usize) {
        let listener = self.sshd(number);
        listener.iter().for_each(|pid| kill(*pid, libc::SIGSTOP));
        let mark = format!("NEXUS_TEST_HOST=host{number}");
        let mounts = self.listener(number).and_then(own_mounts);
        // All stop before any is ended: nobody sees another go. Twice: what was forked meanwhile too.
        for what in [libc::SIGSTOP, libc::SIGSTOP, libc::SIGKILL] {
            let here = |pid: &u32| {
                has_environment(*pid, &mark) && self.is_of_this(*pid)
                    || proc::has_open(*pid, &self.folder(number))
                    || mounts.is_some() && own_mounts(*pid) == mounts
            };
            for pid in processes().filter(here) {
                kill(pid, what);
            }
        }
        listener.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
    }

    /// Whether a process belongs to these hosts, and not to those of another test.
    fn is_of_this(&self, pid: u32) -> bool {
        let dir = self.dir.path().display().to_string();
        has_environment(pid, &dir) || crate::cmdline(pid).contains(&dir)
    }

    pub fn nodes(&self, number: usize) -> Vec<u32> {
        let home = format!("{}/", self.folder(number).display());
        let is_node = |pid: &u32| {
            let words = crate::cmdline(*pid);
            words.contains(" node ") && words.contains(&home)
        };
        processes().filter(is_node).collect()
    }

    fn listener(&self, number: usize) -> Option<u32> {
        fs::read_to_string(self.folder(number).join("pid")).ok()?.trim().parse().ok()
    }

    /// The listener and its children.
    fn sshd(&self, number: usize) -> Vec<u32> {
        let Some(listener) = self.listener(number) else { return vec![] };
        let mut all = vec![listener];
        let mut looked = 0;
        while looked < all.len() {
            let parent = all[looked];
            all.extend(
                processes().filter(|pid| proc::parent(*pid) == Some(parent) && name_of(*pid).starts_with("sshd")),
            );
            looked += 1;
        }
        all
    }
}

impl Drop for SshHosts {
    fn drop(&mut self) {
        for number in 1..=self.hosts.len() {
            self.thaw(number);
            self.power_off(number);
        }
    }
}

/// Other tests have others: an address of this process's own.
fn fresh_address() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let (pid, count) = (std::process::id(), GIVEN.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 1 + (pid >> 8) % 250, pid % 256, 2 + count)
}

/// Those of earlier builds go.
fn shared_binaries() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-nodes");
    fs::create_dir_all(&folder).expect("a folder for sent binaries");
    let day = std::time::Duration::from_secs(86_400);
    let is_old = |path: &Path| {
        let written = fs::metadata(path).and_then(|about| about.modified()).ok();
        written.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > day))
    };
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten().filter(|entry| is_old(&entry.path())) {
        let _ = fs::remove_file(entry.path());
    }
    folder.canonicalize().expect("it was made")
}

fn keygen(path: &Path) {
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(path).status();
    assert!(made.expect("ssh-keygen is installed").success());
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_environment(pid: u32, part: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| String::from_utf8_lossy(&env).contains(part))
}

/// The mounts of a process, if they are not those of this test.
fn own_mounts(pid: u32) -> Option<PathBuf> {
    let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    of(&pid.to_string()).filter(|mounts| Some(mounts) != of("self").as_ref())
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}
