//! What a node says of its machine in its first words.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use nexus_api::paths::Home;

use super::words::Hello;
use crate::cgroup::{self, Containment};
use crate::system_file;
use crate::{home, users};

/// Where programs are when `PATH` does not say it.
const USUAL_PLACES: &str = "/usr/local/bin:/usr/bin:/bin";

pub fn hello(home: &Home, containment: &Containment, boot_id: &str) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        hostname: home::hostname(),
        user: users::name_of(rustix::process::getuid().as_raw()),
        home: home.dir.clone(),
        logs: home.default_log_dir(),
        checkpoints: home.checkpoints(),
        results: home.results(),
        code: home.code(),
        screens: home.socket_dir().join("screens"),
        user_home: users::own_home(),
        cpus: std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        ram_mib: ram_mib(&system_file::read_text("/proc/meminfo").unwrap_or_default()),
        boot_id: boot_id.to_owned(),
        cgroups: matches!(containment, Containment::Cgroup(_)),
        memory_limits: matches!(containment, Containment::Cgroup(base) if cgroup::limits_memory(base)),
        bash: find_program("bash"),
        at_ms: now_ms(),
    }
}

fn ram_mib(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0) / 1024
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::env::split_paths(USUAL_PLACES));
    folders.map(|folder| folder.join(name)).find(|program| program.is_absolute() && program.is_file())
}

pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_mib() {
        assert_eq!(ram_mib("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), 16000);
        assert_eq!(ram_mib(""), 0);
    }
}
