//! `service install` and `uninstall`: with a systemctl that stands in for systemd's, and a unit that the true one has checked.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use nexus_testkit::{FdStore, Nexus, Output, Web, until};

use crate::NEXUS;

/// Starts the program of the unit as systemd would, and writes down what it was asked. `enable` and its like do nothing.
pub const SYSTEMCTL: &str = r#"#!/bin/bash
echo "$@" >> "$(dirname "$0")/asked"
unit=$HOME/.config/systemd/user/nexus.service
case "$2" in
    restart) "$NEXUS" stop --keep-jobs ;;&
    start | restart)
        program=$(sed -n 's/^ExecStart="\(.*\)" __service$/\1/p' "$unit")
        home=$(sed -n 's/^Environment="NEXUS_HOME=\(.*\)"$/\1/p' "$unit")
        NEXUS_HOME=$home setsid "$program" __service >/dev/null 2>&1 </dev/null & ;;
    disable) [ "$3" = --now ] && "$NEXUS" stop --keep-jobs ;;
esac
exit 0
"#;

const CRONTAB: &str = r#"#!/bin/bash
file=$(dirname "$0")/crontab.txt
case "$1" in
    -l) [ -f "$file" ] && cat "$file" || { echo "no crontab for you" >&2; exit 1; } ;;
    -) cat > "$file" ;;
esac
"#;

struct Stage {
    nexus: Nexus,
    bin: PathBuf,
}

impl Stage {
    /// Programs that stand in for those of the machine come first on the path.
    fn with(programs: &[(&str, &str)]) -> Stage {
        let nexus = Nexus::fresh(NEXUS);
        let bin = nexus.root().join("bin");
        fs::create_dir_all(&bin).unwrap();
        for (name, text) in programs {
            let path = bin.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let nexus = nexus.env("PATH", &path).env("NEXUS", NEXUS);
        Stage { nexus, bin }
    }

    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.bin.join("asked")).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    fn unit(&self) -> PathBuf {
        self.nexus.root().join(".config/systemd/user/nexus.service")
    }
}

#[test]
fn systemd_starts_the_service_from_then_on_and_jobs_go_on() {
    let stage = Stage::with(&[("systemctl", SYSTEMCTL)]);
    let nexus = &stage.nexus;
    nexus.start(1);
    let id = nexus.add("until [ -e go ]; do sleep 0.02; done");
    nexus.in_state(&id, "running");
    let before = nexus.service_pid();
    let said = nexus.run(&["service", "install"]).expect_code(0).stderr;
    assert!(said.contains("nexus.service installed; service started (pid "), "{said}");
    assert!(said.contains("loginctl enable-linger"), "{said}");
    assert_ne!(nexus.service_pid(), before);
    assert_eq!(
        stage.asked(),
        [
            "--user show-environment",
            "--user daemon-reload",
            "--user enable nexus.service",
            "--user start nexus.service"
        ]
    );
    assert_eq!(nexus.job(&id)["state"], "running");

    // A restart is systemd's as well; a service that it cannot start is started without it.
    nexus.ok(&["restart"]);
    let asked = stage.asked();
    assert_eq!(asked[asked.len() - 2..], ["--user is-active nexus.service", "--user restart nexus.service"]);
    fs::write(stage.bin.join("systemctl"), "#!/bin/sh\necho no bus >&2; exit 1\n").unwrap();
    nexus.ok(&["restart"]);
    fs::write(stage.bin.join("systemctl"), SYSTEMCTL).unwrap();

    let said = nexus.run(&["service", "uninstall"]).expect_code(0).stderr;
    assert!(said.contains("removed; jobs go on"), "{said}");
    assert!(!stage.unit().exists());
    nexus.ok(&["start"]);
    assert_eq!(nexus.job(&id)["state"], "running");
    nexus.file("go", "");
    assert_eq!(nexus.ended(&id)["state"], "completed");
    let said = nexus.run(&["service", "uninstall"]).expect_code(0).stderr;
    assert_eq!(said, "nothing is installed for this home\n");
}

#[test]
fn systemd_keeps_the_port_of_the_page_while_the_service_restarts() {
    let nexus = Nexus::fresh(NEXUS);
    let mut store = FdStore::new(&nexus.root());
    let nexus = nexus.env("NOTIFY_SOCKET", store.path());
    nexus.start(1);
    let web = Web::of(&nexus);
    store.update();
    assert!(store.stored.is_some(), "the socket was not sent");
    nexus.kill_service();
    let taken = std::net::TcpListener::bind(&web.address).map(drop).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "another program took the port");
    // Who connects meanwhile waits, and is answered by the next service.
    let mut early = web.connect();
    let (host, token) = (&web.address, &web.token);
    write!(early, "GET /v1/tags HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
    store.start(nexus.binary(), &nexus.command(&["status"]));
    let mut answer = [0; 512];
    let count = early.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));

    // Neither the launcher nor a job holds the socket.
    let id = nexus.add("sleep 1000");
    nexus.in_state(&id, "running");
    nexus.ok(&["stop", "--keep-jobs"]);
    store.update();
    store.stored.take().expect("it is stored until the page is off");
    until("the port is free", || std::net::TcpListener::bind(&web.address).ok());
    nexus.ok(&["start"]);
    store.update();
    assert!(store.stored.is_some(), "a socket that is made anew was not sent");
    nexus.ok(&["web", "--off"]);
    store.update();
    assert!(store.stored.is_none(), "systemd holds the port of a page that is off");
}

#[test]
fn the_page_moves_to_another_address_of_a_port_that_systemd_keeps() {
    let nexus = Nexus::fresh(NEXUS);
    let mut store = FdStore::new(&nexus.root());
    let nexus = nexus.env("NOTIFY_SOCKET", store.path());
    nexus.start(1);
    let web = Web::of(&nexus);
    store.update();
    let (_, port) = web.address.rsplit_once(':').unwrap();
    // systemd is slow: it has a duplicate of the old socket all the time.
    nexus.ok(&["web", "--no-open", "--expose", "0.0.0.0"]);
    assert_eq!(web.get("/v1/tags").status, 200);
    store.update();
    let stored = std::net::TcpListener::from(store.stored.take().expect("the new socket is stored"));
    assert_eq!(stored.local_addr().unwrap().to_string(), format!("0.0.0.0:{port}"));
    nexus.ok(&["web", "--off"]);
    assert!(std::net::TcpStream::connect(&web.address).is_err(), "systemd's duplicate still listens");
    std::net::TcpListener::bind(&web.address).expect("the port is free");
}

#[test]
fn off_takes_a_socket_out_of_systemd_that_the_page_could_not_use() {
    let nexus = Nexus::fresh(NEXUS);
    let mut store = FdStore::new(&nexus.root());
    let nexus = nexus.env("NOTIFY_SOCKET", store.path());
    nexus.start(1);
    let web = Web::of(&nexus);
    store.update();
    nexus.kill_service();
    // What is remembered is another port, and another program has it.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    fs::write(nexus.home().join("web.json"), format!(r#"{{"address":"127.0.0.1","port":{port}}}"#)).unwrap();
    store.start(nexus.binary(), &nexus.command(&["status"]));
    until("the next service is there", || nexus.run(&["status"]).code.eq(&0).then_some(()));
    nexus.ok(&["web", "--off"]);
    store.update();
    assert!(store.stored.is_none(), "systemd holds the port of a page that is off");
    until("the port is free", || std::net::TcpListener::bind(&web.address).ok());
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let stage = Stage::with(&[]);
    let text = stage.nexus.ok(&["service", "install", "--print"]);
    assert!(!stage.unit().exists(), "it was only shown");
    let file = stage.nexus.root().join("nexus.service");
    fs::write(&file, format!("{text}\n")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["--user", "verify"]).arg(&file).env("XDG_RUNTIME_DIR", stage.nexus.root());
    let done = match verify.output() {
        Err(_) if std::env::var_os("NEXUS_TEST_SYSTEMD").is_none() => {
            eprintln!("skipped: systemd-analyze is not installed");
            return;
        }
        done => Output::new("systemd-analyze verify".into(), done.unwrap()),
    };
    assert_eq!(done.expect_code(0).stderr, "", "not a word");
}

#[test]
fn where_systemd_cannot_be_asked_nothing_is_left_and_the_other_way_is_named() {
    let stage =
        Stage::with(&[("systemctl", "#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n"), ("crontab", CRONTAB)]);
    let nexus = &stage.nexus;
    let said = nexus.fails(1, &["service", "install"]);
    assert!(said.contains("the service was not installed"), "{said}");
    assert!(said.contains("systemctl --user show-environment: Failed to connect to bus"), "{said}");
    assert!(said.contains("nexus service install --crontab"), "{said}");
    assert!(!stage.unit().exists());

    let crontab = stage.bin.join("crontab.txt");
    fs::write(&crontab, "0 5 * * * backup\n").unwrap();
    nexus.ok(&["service", "install", "--crontab"]);
    nexus.ok(&["service", "install", "--crontab"]);
    let line = format!("@reboot NEXUS_HOME={} {NEXUS} start >/dev/null 2>&1 # nexus service", nexus.home().display());
    assert_eq!(fs::read_to_string(&crontab).unwrap(), format!("0 5 * * * backup\n{line}\n"));
    nexus.service_pid();
    nexus.ok(&["service", "uninstall"]);
    assert_eq!(fs::read_to_string(&crontab).unwrap(), "0 5 * * * backup\n");
    // What the line says starts the service.
    nexus.ok(&["stop"]);
    let start = line.trim_start_matches("@reboot ");
    assert!(Command::new("sh").arg("-c").arg(start).env_clear().status().unwrap().success());
    until("it answers", || nexus.run(&["status"]).code.eq(&0).then_some(()));
}

#[test]
fn a_unit_of_somebody_else_is_left_alone() {
    let stage = Stage::with(&[("systemctl", SYSTEMCTL)]);
    let nexus = &stage.nexus;
    fs::create_dir_all(stage.unit().parent().unwrap()).unwrap();
    fs::write(stage.unit(), "[Service]\nExecStart=/bin/true\n").unwrap();
    let said = nexus.fails(1, &["service", "install"]);
    assert!(said.contains("was not made by nexus"), "{said}");
    nexus.ok(&["service", "uninstall"]);
    assert_eq!(fs::read_to_string(stage.unit()).unwrap(), "[Service]\nExecStart=/bin/true\n");
    assert_eq!(stage.asked(), Vec::<String>::new());
}
