//! Why a command did not start, and whose fault that is.

use std::io;
use std::path::PathBuf;

use nexus_api::run_dir::ExitStatus;

use crate::gpu::locks::Taken;
use crate::screens::ScreenError;

/// Names of programs and folders are cut to this many characters: a report has to fit into one message.
const LONGEST_NAME: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot run {}: {}", short(program), reason(source))]
    Execute { program: String, source: io::Error },
    #[error("{}", unentered(&short(&cwd.to_string_lossy()), source, machine.as_deref()))]
    Enter {
        cwd: PathBuf,
        source: io::Error,
        /// None where it is the service's own.
        machine: Option<String>,
    },
    #[error("cannot write to {}: {}", short(&path.to_string_lossy()), reason(source))]
    Copy { path: PathBuf, source: io::Error },
    #[error("cannot run {}: {what} holds a zero byte", short(program))]
    ZeroByte { program: String, what: &'static str },
    #[error("cannot use the env_file {}: {error}", short(&path.to_string_lossy()))]
    EnvFile { path: PathBuf, error: String },
    #[error("cannot set {name} to {wanted}, this machine allows {}: {}", number(*most), reason(source))]
    Limit { name: &'static str, wanted: u64, most: Option<u64>, source: io::Error },
    #[error("there is no command to run")]
    NoCommand,
    #[error("{error}")]
    Screen { error: ScreenError },
    /// Not of the command's making.
    #[error("failed to {operation}: {}", reason(source))]
    Machine { operation: &'static str, source: io::Error },
    #[error("failed to {operation} {}: {}", short(&path.to_string_lossy()), reason(source))]
    MachineFile { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{0}")]
    GpuTaken(Taken),
}

impl Failure {
    pub fn machine(operation: &'static str) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::Machine { operation, source }
    }

    /// Whether the same command would start on a machine in better health.
    fn is_of_the_machine(&self) -> bool {
        match self {
            Failure::Machine { .. } | Failure::MachineFile { .. } => true,
            // Nobody's fault: it has a status of its own.
            Failure::GpuTaken(_) => false,
            Failure::ZeroByte { .. } | Failure::NoCommand | Failure::Screen { .. } => false,
            Failure::EnvFile { .. } | Failure::Limit { .. } => false,
            Failure::Execute { source, .. } | Failure::Enter { source, .. } | Failure::Copy { source, .. } => matches!(
                source.raw_os_error(),
                Some(
                    libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::EIO | libc::ENOSPC | libc::EDQUOT
                )
            ),
        }
    }
}

impl From<&Failure> for ExitStatus {
    fn from(failure: &Failure) -> ExitStatus {
        if let Failure::GpuTaken(Taken { uuid, holder }) = failure {
            return ExitStatus::GpuLocked { uuid: uuid.clone(), user: holder.user.clone(), pid: holder.pid };
        }
        let error = failure.to_string();
        if failure.is_of_the_machine() {
            ExitStatus::MachineError { error }
        } else {
            ExitStatus::StartError { error, code: None }
        }
    }
}

/// A folder that is missing on another machine is mostly there on the one where the job was submitted.
fn unentered(cwd: &str, error: &io::Error, machine: Option<&str>) -> String {
    match machine {
        Some(machine) if error.kind() == io::ErrorKind::NotFound => {
            format!("the folder {cwd} does not exist on {machine}: --sync sends it, or make it there")
        }
        _ => format!("cannot enter {cwd}: {}", reason(error)),
    }
}

/// The error's text without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn number(most: Option<u64>) -> String {
    most.map_or("any number".to_owned(), |most| most.to_string())
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execute(program: &str, errno: i32) -> ExitStatus {
        (&Failure::Execute { program: program.into(), source: io::Error::from_raw_os_error(errno) }).into()
    }

    #[test]
    fn the_commands_faults_and_the_machines_are_told_apart() {
        let error = "cannot run nosuch: No such file or directory".to_owned();
        assert_eq!(execute("nosuch", libc::ENOENT), ExitStatus::StartError { error, code: None });
        assert!(matches!(execute("x", libc::ENOMEM), ExitStatus::MachineError { .. }));
        let fork = Failure::machine("fork")(io::Error::from_raw_os_error(libc::EPERM));
        assert!(matches!(ExitStatus::from(&fork), ExitStatus::MachineError { .. }));
    }

    #[test]
    fn a_folder_that_another_machine_lacks_is_told_with_what_helps() {
        let enter = |machine: Option<&str>, errno: i32| {
            let (source, machine) = (io::Error::from_raw_os_error(errno), machine.map(String::from));
            Failure::Enter { cwd: "/data".into(), source, machine }.to_string()
        };
        assert_eq!(
            enter(Some("gpu1"), libc::ENOENT),
            "the folder /data does not exist on gpu1: --sync sends it, or make it there"
        );
        assert_eq!(enter(Some("gpu1"), libc::EACCES), "cannot enter /data: Permission denied");
        assert_eq!(enter(None, libc::ENOENT), "cannot enter /data: No such file or directory");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let ExitStatus::StartError { error, .. } = execute(&"ä".repeat(100_000), libc::E2BIG) else { panic!() };
        assert!(error.len() < 1000 && error.ends_with("…: Argument list too long"), "{error}");
    }
}
