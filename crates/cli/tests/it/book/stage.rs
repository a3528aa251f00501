//! Where the blocks of a page are typed: a home, a folder and a service of the page's own, on a host with GPUs that are
//! made up. A page asks for more in its comment `stage:`, word by word:
//!
//! | word | what is there |
//! |---|---|
//! | `gpus=4` | so many GPUs, 2 otherwise: RTX 3090s; `model=A100` for others |
//! | `hosts=gpu1.lab,gpu2.lab` | real sshd by these names, with 2 GPUs each, and `nexus` in the path of whoever logs in |
//! | `slurm=login.hpc` | a cluster whose login node is one of the hosts; `slurm` alone: Slurm's programs are on this host |
//! | `conda=torch` | conda with this environment |
//! | `systemd` | a systemctl that stands in for systemd's |
//! | `fresh` | no service yet, as after an installation; otherwise one runs |
//! | `failures` | jobs that fail: otherwise none may |
//! | `endless` | jobs that go on at its end: otherwise all have to come to theirs |
//!
//! Ports are the test's own: `4004` and `8080` in a block stand for one that is free.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nexus_testkit::{Cluster, Conda, FakeGpu, FakeGpus, Nexus, Output, Slurm, SshHosts, Typist};

use super::page::{Item, Kind, Page, root};
use super::shown::Shown;
use crate::NEXUS;

/// Of the terminal that blocks with output are typed at.
const SIZE: (u16, u16) = (120, 40);

/// Longer than any block takes on a loaded machine.
const LIMIT_SECONDS: &str = "100";

/// Files that lie in the folder: a training, and what goes with it.
const TRAINING: &str = include_str!("files/train.py");

pub struct Stage {
    // Dropped first: its service ends what it has elsewhere.
    nexus: Nexus,
    _hosts: Option<SshHosts>,
    _slurm: Option<Slurm>,
    _gpus: Vec<FakeGpus>,
    env: Vec<(String, String)>,
    shown: Shown,
    /// What is typed instead of what stands there.
    instead: Vec<(&'static str, String)>,
    path: String,
}

impl Stage {
    /// None where something is not installed that the page needs, which is said.
    pub fn set(page: &Page) -> Option<Stage> {
        let word = |name: &str| page.stage.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let names: Vec<&str> = word("hosts").map(|names| names.split(',').collect()).unwrap_or_default();
        let model = word("model").map(|model| format!("NVIDIA {model}"));
        let count = word("gpus").map_or(2, |count| count.parse().expect("a number of GPUs"));
        let mut gpus = vec![some_gpus(count, 'a', model.as_deref())];
        let nexus = Nexus::fresh(NEXUS).fake_gpus(&gpus[0]);
        let home = nexus.root().join(".nexus").display().to_string();
        let nexus = nexus.env("NEXUS_HOME", &home);
        let shown = Shown::at(&nexus.root().display().to_string());
        let (mut env, mut bins) = (Vec::new(), vec![lay_out(&nexus)]);
        let wants_slurm = page.stage.iter().any(|word| word == "slurm") || word("slurm").is_some();
        let slurm = if wants_slurm { Some(Slurm::start(Cluster { nodes: 1, ..Cluster::default() })?) } else { None };
        let hosts = (!names.is_empty()).then(|| SshHosts::start_as(&names));
        for (place, name) in names.iter().enumerate() {
            let hosts = hosts.as_ref().expect("they were started");
            gpus.push(some_gpus(2, char::from(b'b' + place as u8), None));
            let mut words: Vec<String> =
                gpus[place + 1].env().iter().map(|(name, value)| format!("{name}={value}")).collect();
            words.push(format!("PATH={}:{}", bins[0].display(), std::env::var("PATH").expect("a path")));
            words.extend(
                slurm
                    .iter()
                    .filter(|_| word("slurm") == Some(name))
                    .map(|s| format!("SLURM_CONF={}", s.conf().display())),
            );
            hosts.set_env(place + 1, &words.join(" "));
            // Jobs have the environment of a login.
            let profile = format!("PATH={}:$PATH\n", bins[0].display());
            fs::write(hosts.user_home(place + 1).join(".profile"), profile).expect("a home of its user");
        }
        if let Some(hosts) = &hosts {
            write_ssh(&bins[0], hosts);
        }
        if let (Some(slurm), None) = (&slurm, word("slurm")) {
            env.push(("SLURM_CONF".to_string(), slurm.conf().display().to_string()));
        }
        if let Some(name) = word("conda") {
            let conda = Conda::install(&nexus.root().join("conda"))?;
            conda.environment(name, "", "");
            env.push(("CONDA_EXE".into(), conda.program().display().to_string()));
        }
        if page.stage.iter().any(|word| word == "systemd") {
            program(&bins[0], "systemctl", crate::verbs::SYSTEMCTL);
            program(&bins[0], "loginctl", "#!/bin/sh\n");
            env.push(("NEXUS".into(), NEXUS.into()));
        }
        bins.extend(std::env::split_paths(&std::env::var_os("PATH").expect("a path")));
        let path = std::env::join_paths(bins).expect("a path").into_string().expect("a path of text");
        let mut homes = vec![nexus.home()];
        homes.extend((1..=names.len()).filter_map(|number| Some(hosts.as_ref()?.user_home(number).join(".nexus"))));
        let instead = ports(&homes, &mut env);
        let stage = Stage { nexus, _hosts: hosts, _slurm: slurm, _gpus: gpus, env, shown, instead, path };
        if !page.stage.iter().any(|word| word == "fresh") {
            let started = stage.command("nexus").arg("start").output().expect("the binary runs");
            assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        }
        Some(stage)
    }

    pub fn play(&mut self, page: &Page, item: &Item) {
        let place = format!("{}:{}", page.path, item.line);
        if item.is("console") {
            return self.transcript(&place, item);
        }
        let text = self.typed(&item.text);
        let file = self.nexus.root().join("block.sh");
        fs::write(&file, &text).expect("the test's own folder");
        let what = if item.kind == Kind::Before { "the comment" } else { "the block" };
        let ended = match &item.keys[..] {
            [] => self.script(&file),
            keys => self.at_terminal(&file, keys),
        };
        assert_eq!(ended.code, item.exit, "{what} at {place} ends otherwise\n{text}\n{ended}");
    }

    /// What a page queued came to its end, and did not fail, unless it says so.
    pub fn end(self, page: &Page) {
        let says = |word: &str| page.stage.iter().any(|own| own == word);
        if !says("endless") {
            let waited = self.nexus.run_limited(&["wait", "--all"]);
            assert!(matches!(waited.code, 0 | 1), "{}: jobs go on\n{waited}\n{}", page.path, self.nexus.ok(&["ls"]));
        }
        let failed = self.nexus.ok(&["history", "--state", "failed", "--json"]);
        assert!(says("failures") || failed.trim() == "[]", "{}: jobs failed\n{failed}", page.path);
    }

    fn script(&self, file: &PathBuf) -> Output {
        // Files, not pipes: what a block leaves behind may keep them open.
        let outputs = ["stdout", "stderr"].map(|name| self.nexus.root().join(name));
        let [stdout, stderr] = outputs.each_ref().map(|path| File::create(path).expect("the test's own folder"));
        let mut command = self.command("timeout");
        command.args(["-k", "5", LIMIT_SECONDS, "bash", "-eu"]).arg(file).stdin(Stdio::null());
        let status = command.stdout(stdout).stderr(stderr).status().expect("bash runs");
        let [stdout, stderr] = outputs.map(|path| fs::read(path).expect("it was written"));
        Output::new("bash -eu".into(), std::process::Output { status, stdout, stderr })
    }

    fn at_terminal(&self, file: &PathBuf, keys: &[String]) -> Output {
        let mut command = self.command("bash");
        command.arg("-eu").arg(file);
        let mut typist = Typist::sit_down(command, SIZE);
        for pair in keys.chunks(2) {
            typist.sees(&pair[0]);
            typist.types(&pair.get(1).map(|keys| keys.replace("^A", "\x01").replace("^M", "\r")).unwrap_or_default());
        }
        typist.ends()
    }

    /// A block of commands behind `$`, each followed by what it shows.
    fn transcript(&mut self, place: &str, item: &Item) {
        let mut parts = item.text.split("$ ");
        assert_eq!(parts.next(), Some(""), "{place}: a console block begins with a command");
        let parts: Vec<&str> = parts.collect();
        for (at, part) in parts.iter().enumerate() {
            let (command, expected) = part.split_once('\n').expect("a line has an end");
            let typed = self.shown.typed(&self.typed(command));
            let mut shell = self.command("bash");
            shell.args(["-c", &typed]);
            let ended = Typist::sit_down(shell, SIZE).ends();
            let code = if at + 1 == parts.len() { item.exit } else { 0 };
            assert_eq!(ended.code, code, "{place}: {typed}\n{ended}");
            let expected = self.typed(expected);
            self.shown.check(&format!("{place}: {typed}"), &expected, &on_screen(&ended.stdout));
        }
    }

    fn typed(&self, text: &str) -> String {
        self.instead.iter().fold(text.to_string(), |text, (there, here)| text.replace(there, here))
    }

    /// A program with the environment of this page's home.
    fn command(&self, program: &str) -> Command {
        let clean = self.nexus.command::<&str>(&[]);
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.nexus.work());
        command.envs(clean.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // It is where it is for everybody.
        command.env_remove("NEXUS_HOME");
        command.env("PATH", &self.path).env("USER", "ann").env("TERM", "xterm-256color").env("NO_COLOR", "1");
        command.env("SHELL", "/bin/sh").envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for Stage {
    /// A page may have services of more than one home: those of other people in a lab.
    fn drop(&mut self) {
        let homes = fs::read_dir(self.nexus.root()).into_iter().flatten().flatten().map(|entry| entry.path());
        for home in homes.filter(|home| *home != self.nexus.home() && home.join("nexus.sock").exists()) {
            let _ = self.nexus.command(&["stop", "-y"]).env("NEXUS_HOME", home).output();
        }
    }
}

/// What is left of it on a screen, where lines that tell how far something is were written over.
fn on_screen(text: &str) -> String {
    let last = |line: &str| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default().replace("\x1b[K", "");
    text.lines().flat_map(|line| [last(line), "\n".into()]).collect()
}

/// The folder that comes first in the path, and the files that pages take for granted.
fn lay_out(nexus: &Nexus) -> PathBuf {
    let bin = nexus.root().join("bin");
    fs::create_dir(&bin).expect("the test's own folder");
    std::os::unix::fs::symlink(nexus.binary(), bin.join("nexus")).expect("a link");
    program(&bin, "python", "#!/bin/sh\nexec python3 \"$@\"\n");
    for name in ["train.py", "eval.py", "report.py", "infer.py"] {
        nexus.file(name, TRAINING);
    }
    let copied = Command::new("cp").arg("-r").arg(root().join("examples")).arg(nexus.work()).status();
    assert!(copied.is_ok_and(|status| status.success()), "the examples");
    bin
}

/// ssh reads no configuration from a home that is not the user's own.
fn write_ssh(bin: &std::path::Path, hosts: &SshHosts) {
    let config = hosts.client_config();
    let text = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} -o User=\"$(id -un)\" \"$@\"\n", config.display());
    program(bin, "ssh", &text);
}

fn program(bin: &std::path::Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = bin.join(name);
    fs::write(&path, text)
        .and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(0o755)))
        .expect("a program");
}

fn some_gpus(count: u8, letter: char, model: Option<&str>) -> FakeGpus {
    let gpu = |number: u8| {
        let gpu = FakeGpu::new(char::from(letter as u8 + number * 8));
        model.map_or(gpu.clone(), |model| gpu.with("name", model))
    };
    FakeGpus::new(&(0..count).map(gpu).collect::<Vec<_>>())
}

/// Free ones in the place of those that pages name; `$TUNNEL` is where a tunnel begins on this host, which has both ends.
fn ports(homes: &[PathBuf], env: &mut Vec<(String, String)>) -> Vec<(&'static str, String)> {
    let held: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let ports: Vec<String> = held.iter().map(|one| one.local_addr().expect("it listens").port().to_string()).collect();
    for home in homes {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
        let text = format!("[web]\nport = {}\n", ports[0]);
        made.and_then(|()| fs::write(home.join("config.toml"), text)).expect("the home is writable");
    }
    env.push(("TUNNEL".into(), ports[1].clone()));
    vec![("-L 4004:", format!("-L {}:", ports[1])), ("4004", ports[0].clone()), ("8080", ports[2].clone())]
}
