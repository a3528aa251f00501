//! What a command left behind.

use std::fmt;

#[derive(Debug)]
pub struct Output {
    pub typed: String,
    /// 128 + signal for one that a signal ended.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn new(typed: String, done: std::process::Output) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let code = done.status.code().unwrap_or_else(|| 128 + done.status.signal().unwrap_or(0));
        Output {
            typed,
            code,
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Output {
        assert_eq!(self.code, code, "{self}");
        self
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$ {}\nexit {}\nstdout:\n{}stderr:\n{}", self.typed, self.code, self.stdout, self.stderr)
    }
}
