//! The unit that systemd starts the service by: its text, where it lies, whose it is, and how systemd is asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nexus_api::paths::Home;
use nexus_node::own_file;
use tokio::time::{Instant, sleep};

use crate::client::Client;

/// The name of the unit.
pub const UNIT: &str = "nexus.service";

/// How long a service that systemd starts may take until it answers, and how often it is looked for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A file that does not begin so was made by somebody else, and is left alone.
const FIRST_LINE: &str = "# Made by `nexus service install`; `nexus service uninstall` removes it.";

/// What is started, for whom.
pub struct Unit {
    pub program: PathBuf,
    pub home: PathBuf,
    /// Where the service finds bash, conda, ssh and Slurm: that of systemd is often shorter.
    pub path: Option<String>,
}

impl Unit {
    /// In systemd's own words. `KillMode=process`: jobs and their watchers outlive the service, however it ends.
    pub fn text(&self) -> String {
        let path = self.path.as_ref().map(|path| format!("Environment={}\n", quoted(&format!("PATH={path}"))));
        format!(
            "{FIRST_LINE}\n\
             [Unit]\n\
             Description=nexus, a queue for GPUs\n\
             StartLimitIntervalSec=60\n\
             StartLimitBurst=5\n\
             \n\
             [Service]\n\
             Type=exec\n\
             ExecStart={} __service\n\
             {}\n\
             {}Restart=on-failure\n\
             RestartSec=2\n\
             # systemd keeps the socket of the web page while the service restarts: nobody else can take the port.\n\
             NotifyAccess=main\n\
             FileDescriptorStoreMax=1\n\
             # Jobs go on when the service ends, and when one of them is killed for its memory.\n\
             KillMode=process\n\
             OOMPolicy=continue\n\
             # Each job has a cgroup of its own below this one, where its memory can be limited.\n\
             Delegate=yes\n\
             TasksMax=infinity\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            quoted(&self.program.to_string_lossy()).replace('$', "$$"),
            self.home_line(),
            path.unwrap_or_default(),
        )
    }

    fn home_line(&self) -> String {
        format!("Environment={}", quoted(&format!("NEXUS_HOME={}", self.home.display())))
    }
}

/// In quotes, with what systemd would take for something else told apart.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// Where systemd looks for units of this user.
pub fn place() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("systemd/user").join(UNIT))
}

/// Whose file lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    None,
    Own,
    /// Made by nexus for another home.
    OtherHome,
    Foreign,
}

/// A unit of nexus is some lines long.
const MAX_UNIT_BYTES: u64 = 1 << 20;

pub fn found(place: &Path, home: &Path) -> std::io::Result<Found> {
    let text = match own_file::read_text(place, MAX_UNIT_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::None),
        read => read?,
    };
    let own = Unit { program: PathBuf::new(), home: home.to_owned(), path: None };
    Ok(match text.lines().next() == Some(FIRST_LINE) {
        true if text.lines().any(|line| line == own.home_line()) => Found::Own,
        true => Found::OtherHome,
        false => Found::Foreign,
    })
}

/// Whether systemd starts the service of this home.
pub fn is_installed(home: &Home) -> bool {
    place().is_some_and(|place| matches!(found(&place, &home.dir), Ok(Found::Own)))
}

/// Has systemd start the service. Returns whether it answers.
pub async fn start(client: &Client) -> bool {
    if systemctl(&["start", UNIT]).is_err() {
        return false;
    }
    let until = Instant::now() + ANSWERS_WITHIN;
    while !client.answers().await.unwrap_or(false) {
        if Instant::now() >= until {
            return false;
        }
        sleep(LOOK_EVERY).await;
    }
    true
}

/// Has systemd restart the service that it runs, so that it keeps the socket of the web page meanwhile. Returns whether another
/// service answers; false too where systemd does not run this one.
pub async fn restart(client: &Client, home: &Home, pid: u32) -> bool {
    if !is_installed(home) || systemctl(&["is-active", UNIT]).is_err() || systemctl(&["restart", UNIT]).is_err() {
        return false;
    }
    let until = Instant::now() + ANSWERS_WITHIN;
    while !client.service().await.is_ok_and(|service| service.pid != pid) {
        if Instant::now() >= until {
            return false;
        }
        sleep(LOOK_EVERY).await;
    }
    true
}

/// Asks the systemd of this user; the error says what it said.
pub fn systemctl(words: &[&str]) -> Result<(), String> {
    let run = Command::new("systemctl").arg("--user").args(words).stdin(Stdio::null()).output();
    match run {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let said = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
            Err(format!("systemctl --user {}: {said}", words.join(" ")))
        }
        Err(error) => Err(format!("systemctl cannot be run: {error}")),
    }
}

/// Whether this user's services run while nobody is logged in.
pub fn lingers() -> bool {
    let user = std::env::var("USER").unwrap_or_default();
    !user.is_empty() && Path::new("/var/lib/systemd/linger").join(user).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(home: &str) -> Unit {
        Unit { program: "/opt/a b/50%/$x/nexus".into(), home: home.into(), path: Some("/usr/bin:/opt/\"q\"".into()) }
    }

    #[test]
    fn what_means_something_to_systemd_is_told_apart() {
        let text = unit("/home/ann/.nexus").text();
        assert!(text.contains("\nExecStart=\"/opt/a b/50%%/$$x/nexus\" __service\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"NEXUS_HOME=/home/ann/.nexus\"\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"PATH=/usr/bin:/opt/\\\"q\\\"\"\n"), "{text}");
    }

    #[test]
    fn a_unit_is_known_by_its_first_line_and_its_home() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("nexus.service");
        let look = || found(&place, Path::new("/home/ann/.nexus")).unwrap();
        assert_eq!(look(), Found::None);
        std::fs::write(&place, unit("/home/ann/.nexus").text()).unwrap();
        assert_eq!(look(), Found::Own);
        std::fs::write(&place, unit("/home/ann/.nexus2").text()).unwrap();
        assert_eq!(look(), Found::OtherHome);
        std::fs::write(&place, "[Unit]\n").unwrap();
        assert_eq!(look(), Found::Foreign);
    }
}
