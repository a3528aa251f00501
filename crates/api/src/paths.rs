//! Where things lie. Client and service work the same paths out by themselves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A socket path must fit into 108 bytes; some are kept for names beside it.
const LONGEST_SOCKET_PATH: usize = 100;

/// Held by the service; has its pid and its socket, a line each.
pub const LOCK_FILE: &str = "service.lock";

/// In bytes: a folder of nexus and a socket must fit behind it.
const LONGEST_RUNTIME_DIR: usize = 60;

/// The folder one service works in, and what is outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// `~/.nexus`, or `~/.nexus/hosts/<hostname>` on a network file system.
    pub dir: PathBuf,
    /// Whether the home lies on a network file system: no WAL, sockets elsewhere.
    pub network: bool,
    pub socket_place: SocketPlace,
    sockets: PathBuf,
}

/// Where the sockets of a home can lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketPlace {
    Home,
    /// The home lies on a network file system, or its path is too long for a socket. `runtime_dir`: the user's runtime folder,
    /// not looked at yet.
    Outside {
        runtime_dir: Option<PathBuf>,
    },
}

/// What the environment says, so that tests can say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `NEXUS_HOME`
    pub nexus_home: Option<OsString>,
    /// `HOME`
    pub home: Option<OsString>,
    /// `XDG_RUNTIME_DIR`
    pub runtime_dir: Option<OsString>,
    pub hostname: String,
}

impl Home {
    /// `is_network` tells whether a folder (or its nearest existing parent) is on a network file system. None without a
    /// `NEXUS_HOME` and an absolute `HOME`: a relative one would name another folder for each folder that commands are typed in.
    pub fn find(around: &Surroundings, is_network: impl Fn(&Path) -> bool) -> Option<Home> {
        let set = |value: &Option<OsString>| value.clone().filter(|text| !text.is_empty()).map(PathBuf::from);
        let base = match set(&around.nexus_home) {
            Some(path) => std::path::absolute(path).ok()?,
            None => set(&around.home).filter(|home| home.is_absolute())?.join(".nexus"),
        };
        let network = is_network(&base);
        let dir = if network { base.join("hosts").join(&around.hostname) } else { base };
        let longest = dir.join("reports.sock");
        let socket_place = match network || longest.as_os_str().len() > LONGEST_SOCKET_PATH {
            true => SocketPlace::Outside { runtime_dir: runtime_dir(around) },
            false => SocketPlace::Home,
        };
        // Outside the folder is found by whoever can look at the file system; until then no socket is there.
        let sockets = dir.clone();
        Some(Home { dir, network, socket_place, sockets })
    }

    /// The same home with its sockets in this folder.
    pub fn with_sockets(self, sockets: PathBuf) -> Home {
        Home { sockets, ..self }
    }

    pub fn database(&self) -> PathBuf {
        self.dir.join("nexus.db")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// The queue as text, where the configuration names no other place.
    pub fn default_jobs_file(&self) -> PathBuf {
        self.dir.join("jobs.txt")
    }

    pub fn service_log(&self) -> PathBuf {
        self.dir.join("service.log")
    }

    /// What programs show that come over TCP.
    pub fn web_token(&self) -> PathBuf {
        self.dir.join("web.token")
    }

    /// Keys of the browsers that were let in.
    pub fn web_browsers(&self) -> PathBuf {
        self.dir.join("web.browsers")
    }

    /// Held by the one service of this home for its life.
    pub fn lock(&self) -> PathBuf {
        self.dir.join(LOCK_FILE)
    }

    /// Folder of the sockets; 0700, made by the service.
    pub fn socket_dir(&self) -> &Path {
        &self.sockets
    }

    /// Where clients talk to the service.
    pub fn socket(&self) -> PathBuf {
        self.sockets.join("nexus.sock")
    }

    /// Where shims report to the service.
    pub fn reports(&self) -> PathBuf {
        self.sockets.join("reports.sock")
    }

    /// Where jobs keep their checkpoints, a folder each.
    pub fn checkpoints(&self) -> PathBuf {
        self.dir.join("checkpoints")
    }

    /// Where jobs put results that are not copied yet, a folder each.
    pub fn results(&self) -> PathBuf {
        self.dir.join("results")
    }

    /// Folders as they were when jobs were added, one for each content. Nobody works in them.
    pub fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    /// Where jobs run that were added with a folder's content: a copy for each content.
    pub fn code(&self) -> PathBuf {
        self.dir.join("code")
    }

    pub fn default_log_dir(&self) -> PathBuf {
        self.dir.join("logs")
    }
}

fn runtime_dir(around: &Surroundings) -> Option<PathBuf> {
    let dir = around.runtime_dir.as_ref().filter(|dir| !dir.is_empty() && dir.len() < LONGEST_RUNTIME_DIR)?;
    Some(PathBuf::from(dir))
}

/// FNV-1a: short, the same in every release, and nobody's secret hangs on it.
pub fn fingerprint(path: &Path) -> u64 {
    path.as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(nexus_home: Option<&str>) -> Surroundings {
        Surroundings {
            nexus_home: nexus_home.map(OsString::from),
            home: Some("/home/ann".into()),
            runtime_dir: Some("/run/user/7".into()),
            hostname: "box".into(),
        }
    }

    #[test]
    fn the_home_is_in_the_users_home_or_where_the_variable_says() {
        let home = Home::find(&around(None), |_| false).unwrap();
        assert_eq!(home.socket(), Path::new("/home/ann/.nexus/nexus.sock"));
        let home = Home::find(&around(Some("/data/n")), |_| false).unwrap();
        assert_eq!(home.database(), Path::new("/data/n/nexus.db"));
    }

    #[test]
    fn a_network_home_is_split_by_host_and_its_sockets_are_local() {
        let home = Home::find(&around(None), |_| true).unwrap();
        assert_eq!(home.dir, Path::new("/home/ann/.nexus/hosts/box"));
        assert_eq!(home.socket_place, SocketPlace::Outside { runtime_dir: Some("/run/user/7".into()) });
        assert_eq!(home.with_sockets("/run/user/7/n".into()).socket(), Path::new("/run/user/7/n/nexus.sock"));
    }

    #[test]
    fn a_long_path_moves_the_sockets() {
        let long = format!("/{}", "x".repeat(95));
        let home = Home::find(&around(Some(&long)), |_| false).unwrap();
        assert_eq!(home.socket_place, SocketPlace::Outside { runtime_dir: Some("/run/user/7".into()) });
        let (no_home, too_long) = (None, Some("/run/".repeat(30).into()));
        for runtime_dir in [no_home, too_long] {
            let home = Home::find(&Surroundings { runtime_dir, ..around(Some(&long)) }, |_| false).unwrap();
            assert_eq!(home.socket_place, SocketPlace::Outside { runtime_dir: None });
        }
    }
}
