//! The terminal of a run on a compute node: a step of its job, started by srun, passes bytes between its shim and us.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nexus_api::run_dir::SLURM_JOB;

use super::compute::MAX_JOB_BYTES;
use crate::{rendezvous, run_file, threads};

/// A step begins within a second, unless the controller is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// Said by the step when it has reached the shim.
const REACHED: u8 = 1;

/// Whether a run directory is of a run on a cluster.
fn job_of(dir: &Path) -> Option<String> {
    let text = String::from_utf8(run_file::read(&dir.join(SLURM_JOB), MAX_JOB_BYTES).ok()?).ok()?;
    text.split_whitespace().nth(2).map(String::from)
}

/// Reaches the shim that listens under a name on the node of its run; none where the run is on no cluster.
pub fn reach(dir: &Path, name: &str) -> Option<io::Result<UnixStream>> {
    job_of(dir).map(|job| reach_by(&job, name))
}

fn reach_by(job: &str, name: &str) -> io::Result<UnixStream> {
    let program = std::env::current_exe()?;
    let mut srun = Command::new("srun")
        .arg(format!("--jobid={job}"))
        .args(["--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--gres=none", "--mem=0"])
        .arg(program)
        .args(["__terminal", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::other(format!("srun cannot be started: {error}")))?;
    let (Some(typed), Some(shown), Some(mut said)) = (srun.stdin.take(), srun.stdout.take(), srun.stderr.take()) else {
        return Err(io::Error::other("srun was started without its streams"));
    };
    let (mut ours, theirs) = UnixStream::pair()?;
    let pid = srun.id();
    pass_through(typed, shown, theirs, srun)?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let mut first = [0];
    if !ours.read(&mut first).is_ok_and(|count| count == 1 && first == [REACHED]) {
        drop(ours);
        // SAFETY: its child is not waited for before its output has ended, so the number is still its own.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        let mut text = String::new();
        let _ = said.read_to_string(&mut text);
        let text = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it did not answer").trim();
        let why = format!("Slurm does not let a step join the job, so there is no terminal here ({text})");
        return Err(io::Error::other(why));
    }
    ours.set_read_timeout(None)?;
    Ok(ours)
}

/// Between srun and our end of the terminal, until one of the two ends. srun shows whole lines only, so what comes from
/// the shim is a line for each piece, in hexadecimal digits.
fn pass_through(mut typed: ChildStdin, shown: ChildStdout, theirs: UnixStream, mut srun: Child) -> io::Result<()> {
    let (mut typing, mut showing) = (theirs.try_clone()?, theirs);
    threads::start("nexus-typed", move || drop(copy(&mut typing, &mut typed)))?;
    threads::start("nexus-srun", move || {
        for line in BufReader::new(shown).lines() {
            let Ok(line) = line else { break };
            // What a site's own scripts print there is none of it.
            let Some(piece) = from_digits(&line) else { continue };
            if showing.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = showing.shutdown(Shutdown::Both);
        let _ = srun.kill();
        let _ = srun.wait();
    })?;
    Ok(())
}

fn to_digits(piece: &[u8]) -> String {
    piece.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_string()]).collect()
}

/// None for what is no such line.
fn from_digits(line: &str) -> Option<Vec<u8>> {
    let line = line.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    line.len().is_multiple_of(2).then(|| line.chunks(2).map(byte).collect()).flatten()
}

/// `nexus __terminal NAME`, on the compute node: standard input and output are those of the shim.
pub fn main(name: &str) -> ! {
    let code = match pass_on(name) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "its shim does not answer: {error}");
            1
        }
    };
    std::process::exit(code)
}

fn pass_on(name: &str) -> io::Result<()> {
    let mut shim = rendezvous::connect(name)?;
    let mut stdout = io::stdout();
    stdout.write_all(to_digits(&[REACHED]).as_bytes())?;
    stdout.flush()?;
    let mut typed = shim.try_clone()?;
    threads::start("nexus-typed", move || {
        let mut stdin = io::stdin().lock();
        let _ = copy(&mut stdin, &mut typed);
        // Whoever looked is gone.
        let _ = typed.shutdown(Shutdown::Both);
    })?;
    let mut part = vec![0; 8 << 10];
    loop {
        match shim.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                stdout.write_all(to_digits(&part[..count]).as_bytes())?;
                stdout.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What comes is passed on at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut part = vec![0; 16 << 10];
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&part[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_through_as_lines() {
        for piece in [&b""[..], b"\0\n\xff", b"hello"] {
            assert_eq!(from_digits(to_digits(piece).trim_end()).as_deref(), Some(piece));
        }
        assert_eq!((from_digits("0"), from_digits("zz"), from_digits("srun: error")), (None, None, None));
    }
}
