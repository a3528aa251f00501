//! What happens to service and jobs when their user logs out, and when the machine starts: logind and systemd decide that.

use std::path::Path;

use nexus_api::paths::Home;
use nexus_node::system_file;

use super::found;
use crate::render::doctor::{Finding, Level};
use crate::unit;

/// In the order in which later ones go over earlier ones.
const CONFIGS: &[&str] = &["/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf"];
const DROP_INS: &[&str] =
    &["/usr/lib/systemd/logind.conf.d", "/etc/systemd/logind.conf.d", "/run/systemd/logind.conf.d"];

/// Where systemd starts what users have.
const BOOTED_BY_SYSTEMD: &str = "/run/systemd/system";

pub fn check(home: &Home) -> Option<Finding> {
    Path::new(BOOTED_BY_SYSTEMD).is_dir().then(|| Login::look(home).finding())
}

#[derive(Clone, Copy)]
struct Login {
    /// logind ends all processes of a user who logs out.
    ends_processes: bool,
    /// What the user has runs without them being logged in.
    lingers: bool,
    /// systemd starts the service.
    installed: bool,
}

impl Login {
    fn look(home: &Home) -> Login {
        let read = |path: &Path| system_file::read_text(path).unwrap_or_default();
        let mut texts: Vec<String> = CONFIGS.iter().map(|path| read(Path::new(path))).collect();
        for folder in DROP_INS {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
            files.sort();
            texts.extend(
                files.iter().filter(|path| path.extension().is_some_and(|it| it == "conf")).map(|path| read(path)),
            );
        }
        Login { ends_processes: ends_processes(&texts), lingers: unit::lingers(), installed: unit::is_installed(home) }
    }

    fn finding(self) -> Finding {
        let name = "login";
        let linger = Some("loginctl enable-linger");
        match (self.ends_processes && !self.lingers, self.installed, self.lingers) {
            (true, ..) => {
                let says = "logging out ends service and jobs: logind has KillUserProcesses=yes";
                found(name, Level::Warn, says, linger)
            }
            (false, true, true) => found(name, Level::Ok, "systemd starts the service with the machine", None),
            (false, true, false) => {
                found(name, Level::Ok, "systemd starts the service when you log in; with the machine after:", linger)
            }
            (false, false, _) => {
                let says =
                    "jobs and service outlive a logout; after a restart of the machine you start it, or systemd does:";
                found(name, Level::Ok, says, Some("nexus service install"))
            }
        }
    }
}

/// The last word on it counts.
fn ends_processes(texts: &[String]) -> bool {
    let said =
        texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("KillUserProcesses"));
    let mut values = said.filter_map(|rest| rest.trim_start().strip_prefix('=')).map(str::trim);
    values.next_back().is_some_and(|value| ["yes", "true", "on", "1"].contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_processes_counts() {
        let texts = |all: &[&str]| all.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        assert!(!ends_processes(&texts(&["", "[Login]\n#KillUserProcesses=yes\n"])));
        assert!(ends_processes(&texts(&["[Login]\nKillUserProcesses = yes\n"])));
        assert!(!ends_processes(&texts(&["KillUserProcesses=yes", "KillUserProcesses=no"])));
    }

    #[test]
    fn each_standing_has_its_word_and_what_to_type() {
        let say = |ends_processes, lingers, installed| Login { ends_processes, lingers, installed }.finding();
        assert_eq!(say(true, false, true).level, Level::Warn);
        assert_eq!(say(true, false, false).mend.as_deref(), Some("loginctl enable-linger"));
        assert_eq!(say(true, true, true).mend, None);
        assert_eq!(say(false, false, true).mend.as_deref(), Some("loginctl enable-linger"));
        assert_eq!(say(false, true, false).mend.as_deref(), Some("nexus service install"));
    }
}
