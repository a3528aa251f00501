//! Jobs that wait, without polling, until the test lets them go with the exit code it chooses.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use nexus_testkit::Nexus;

/// A fifo in the folder of work, held open by the test, so that nobody ever waits to open it.
pub struct Gate {
    name: String,
    file: File,
    starts: PathBuf,
}

impl Gate {
    pub fn new(nexus: &Nexus, name: &str) -> Gate {
        let path = nexus.work().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
        assert!(made.success());
        let file = File::options().read(true).write(true).open(&path).expect("the fifo was just made");
        Gate { name: name.into(), file, starts: nexus.work().join(format!("{name}.starts")) }
    }

    /// A job that writes down that it started, waits here, and leaves with the code it is given.
    pub fn command(&self) -> String {
        let name = &self.name;
        format!("echo $NEXUS_ATTEMPT >> {name}.starts; echo before; read code < {name}; echo after; exit $code")
    }

    pub fn open(&self, code: i32) {
        writeln!(&self.file, "{code}").expect("the fifo takes a line");
    }

    /// How often its job was started.
    pub fn starts(&self) -> usize {
        std::fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }
}
