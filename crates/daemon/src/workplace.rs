//! Where a job works, on whichever machine it is: in the folder that its spec names, or at the same place in a copy of
//! the code that it was added with.

use std::path::{Path, PathBuf};

use nexus_api::jobs::JobSpec;
use nexus_api::paths::Home;
use nexus_node::line::Hello;

/// What a machine has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    /// What `~` stands for.
    pub user_home: PathBuf,
    /// Where contents are, a folder each.
    pub code: PathBuf,
}

impl Workplace {
    /// On the service's own host.
    pub fn here(home: &Home) -> Workplace {
        Workplace { user_home: nexus_node::own_home(), code: home.code() }
    }

    /// On another machine.
    pub fn there(hello: &Hello) -> Workplace {
        Workplace { user_home: hello.user_home.clone(), code: hello.code.clone() }
    }

    pub fn folder(&self, spec: &JobSpec) -> PathBuf {
        let named = in_home(&spec.cwd, &self.user_home);
        match &spec.code {
            None => named,
            // Outside of what was sent nothing is known to be there.
            Some(code) => match named.strip_prefix(&code.of) {
                Ok(inside) if inside.as_os_str().is_empty() => self.code.join(&code.content),
                Ok(inside) => self.code.join(&code.content).join(inside),
                Err(_) => self.code.join(&code.content),
            },
        }
    }
}

/// Whether a folder is named by itself, whoever's home it counts from.
pub fn is_whole(cwd: &str) -> bool {
    Path::new(cwd).is_absolute() || counts_from_home(cwd).is_some()
}

/// `~` and what stands behind `~/`.
fn counts_from_home(cwd: &str) -> Option<&str> {
    match cwd.strip_prefix('~')? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// The folder as it is in this home.
pub fn in_home(cwd: &str, user_home: &Path) -> PathBuf {
    match counts_from_home(cwd) {
        Some("") => user_home.to_owned(),
        Some(rest) => user_home.join(rest.trim_start_matches('/')),
        None => cwd.into(),
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::command::Command;
    use nexus_api::jobs::Code;

    use super::*;

    #[test]
    fn folders_are_found_on_each_machine() {
        let there = Workplace { user_home: "/home/ann".into(), code: "/n/code".into() };
        let folder = |cwd: &str, of: Option<&str>| {
            let code = of.map(|of| Code { content: "c0ffee".into(), of: of.into() });
            there.folder(&JobSpec { code, ..JobSpec::new(Command::Shell("true".into()), cwd.into()) })
        };
        let table = [
            ("/proj/a", None, "/proj/a"),
            ("~", None, "/home/ann"),
            ("~/a/b", None, "/home/ann/a/b"),
            ("~//etc", None, "/home/ann/etc"),
            ("~ann/a", None, "~ann/a"),
            ("/proj/a", Some("/proj/a"), "/n/code/c0ffee"),
            ("/proj/a/b", Some("/proj/a"), "/n/code/c0ffee/b"),
            ("/proj/ab", Some("/proj/a"), "/n/code/c0ffee"),
            ("~", Some("/proj/a"), "/n/code/c0ffee"),
        ];
        for (cwd, of, expected) in table {
            assert_eq!(folder(cwd, of), PathBuf::from(expected), "{cwd} {of:?}");
        }
        assert!(is_whole("~") && is_whole("~/a") && is_whole("/a") && !is_whole("a") && !is_whole("~ann"));
    }
}
