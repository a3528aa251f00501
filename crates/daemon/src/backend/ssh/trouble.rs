//! Why a machine cannot be had, in words, and what to do about it: read from what ssh and the machine said.

/// What went wrong on the way to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub why: String,
    /// What to type or to do.
    pub hint: Option<String>,
    /// It will not pass by itself: asked again only rarely.
    pub lasts: bool,
}

impl Trouble {
    pub fn passing(why: impl Into<String>) -> Trouble {
        Trouble { why: why.into(), hint: None, lasts: false }
    }

    pub fn lasting(why: impl Into<String>, hint: impl Into<String>) -> Trouble {
        Trouble { why: why.into(), hint: Some(hint.into()), lasts: true }
    }

    /// From what came on standard error before the line ended.
    pub fn read(said: &str, address: &str) -> Trouble {
        let known = KNOWN.iter().find(|known| known.signs.iter().any(|sign| said.contains(sign)));
        match known {
            Some(known) => Trouble {
                why: known.why.into(),
                hint: Some(known.hint.replace("ADDRESS", address)),
                lasts: known.lasts,
            },
            None => match said.lines().map(str::trim).rfind(|line| !line.is_empty()) {
                Some(line) => Trouble { why: cut(line), hint: Some(by_hand(address)), lasts: false },
                None => Trouble { why: "the line was closed".into(), hint: Some(by_hand(address)), lasts: false },
            },
        }
    }
}

fn by_hand(address: &str) -> String {
    format!("try ssh {address} true by hand")
}

/// Something that is said, what it means, and what helps.
struct Known {
    signs: &'static [&'static str],
    why: &'static str,
    hint: &'static str,
    lasts: bool,
}

/// The first that is found counts.
const KNOWN: &[Known] = &[
    Known {
        signs: &["IDENTIFICATION HAS CHANGED"],
        why: "its host key is another than before",
        hint: "if you know why, ssh-keygen -R its name, then ssh ADDRESS once and accept the new one",
        lasts: true,
    },
    Known {
        signs: &["Host key verification failed", "host key is known for"],
        why: "its host key is not known here",
        hint: "ssh ADDRESS once by hand, compare the fingerprint and accept it",
        lasts: true,
    },
    Known {
        signs: &["GLIBC_", "No such file or directory: libc", "not found (required by"],
        why: "its C library is too old for this build of nexus",
        hint: "run the service from a build by ./release --portable, which needs glibc 2.17",
        lasts: true,
    },
    Known {
        signs: &["pidfd_open"],
        why: "its kernel is older than Linux 5.3, or a container there forbids to watch processes",
        hint: "ssh ADDRESS uname -r tells which it is; nexus needs pidfd_open, which is there from Linux 5.3 on",
        lasts: true,
    },
    Known {
        signs: &["No space left on device", "Disk quota exceeded"],
        why: "its disk is full",
        hint: "make room there, or choose another folder: nexus machine add ADDRESS --home DIR",
        lasts: true,
    },
    Known {
        signs: &["Read-only file system"],
        why: "the home folder there cannot be written to",
        hint: "choose another folder: nexus machine add ADDRESS --home DIR",
        lasts: true,
    },
    Known {
        signs: &["mkdir: ", "cannot create directory"],
        why: "the folder for nexus cannot be made there",
        hint: "choose another folder: nexus machine add ADDRESS --home DIR",
        lasts: true,
    },
    Known {
        signs: &["Permission denied (", "Too many authentication failures"],
        why: "it does not let this user in",
        hint: "ssh-copy-id ADDRESS, or name the right user or key in ~/.ssh/config; nexus types no password",
        lasts: true,
    },
    Known {
        signs: &["Could not resolve hostname", "Name or service not known"],
        why: "there is no machine of this name",
        hint: "check the name, and ~/.ssh/config",
        lasts: true,
    },
    Known {
        signs: &["Connection refused"],
        why: "nothing answers there: is sshd running, and on this port?",
        hint: "try ssh ADDRESS true by hand",
        lasts: false,
    },
    Known {
        signs: &[
            "Connection timed out",
            "No route to host",
            "Network is unreachable",
            "Operation timed out",
            "not responding",
        ],
        why: "it does not answer",
        hint: "is it on, and in reach from here? try ssh ADDRESS true by hand",
        lasts: false,
    },
];

/// Lines of strangers may be long.
fn cut(line: &str) -> String {
    const LONGEST: usize = 200;
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_told_with_what_helps() {
        let cases = [
            (
                "No ED25519 host key is known for b and you have requested strict checking.\nHost key verification failed.\n",
                "its host key is not known here",
                true,
            ),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n",
                "its host key is another than before",
                true,
            ),
            ("ann@b: Permission denied (publickey,password).\n", "it does not let this user in", true),
            (
                "ssh: connect to host b port 22: Connection refused\n",
                "nothing answers there: is sshd running, and on this port?",
                false,
            ),
            (
                "mkdir: cannot create directory '/x': Read-only file system\n",
                "the home folder there cannot be written to",
                true,
            ),
            (
                "mkdir: cannot create directory '/x': Permission denied\n",
                "the folder for nexus cannot be made there",
                true,
            ),
            ("head: error writing 'standard output': No space left on device\n", "its disk is full", true),
            (
                "/lib/libc.so.6: version `GLIBC_2.34' not found (required by nexus)\n",
                "its C library is too old for this build of nexus",
                true,
            ),
            (
                "nexus node: failed to watch a process by pidfd_open, which Linux has from 5.3 on: Function not implemented (os error 38)\n",
                "its kernel is older than Linux 5.3, or a container there forbids to watch processes",
                true,
            ),
            ("banner\nsomething else broke\n", "something else broke", false),
            ("", "the line was closed", false),
        ];
        for (said, why, lasts) in cases {
            let trouble = Trouble::read(said, "ann@b");
            assert_eq!((trouble.why.as_str(), trouble.lasts), (why, lasts), "{said}");
            assert!(trouble.hint.is_some_and(|hint| !hint.contains("ADDRESS")), "{said}");
        }
    }
}
