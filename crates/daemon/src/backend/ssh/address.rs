//! Where a machine is: `[user@]host[:port]`, as one types it for ssh. What could be taken for an option, or for more than
//! one word by a shell that ssh starts, is no address.

use std::fmt;

/// An address that is safe to hand to ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// As it was given: what `{MACHINE}` stands for.
    text: String,
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

/// What would be right.
pub const WANT: &str = "[user@]host[:port], as in ann@gpu1.lab:2222, or a name of ~/.ssh/config";

impl Address {
    /// None for what is no address.
    pub fn parse(text: &str) -> Option<Address> {
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_string()), place),
            None => (None, text),
        };
        let (host, port) = split_port(place)?;
        let port = match port {
            None => None,
            Some(digits) => Some(digits.parse::<u16>().ok().filter(|port| *port > 0)?),
        };
        let safe = is_name(host, ".:%_-") && user.as_deref().is_none_or(|user| is_name(user, "._-"));
        safe.then(|| Address { text: text.to_string(), user, host: host.to_string(), port })
    }

    /// The name that its machine has where nobody gives it another; none where the host is no name for one.
    pub fn name(&self) -> Option<&str> {
        Some(self.host.as_str()).filter(|host| is_machine_name(host))
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port and user, as options of ssh.
    pub fn options(&self) -> Vec<String> {
        let port = self.port.into_iter().flat_map(|port| ["-p".to_string(), port.to_string()]);
        let user = self.user.iter().flat_map(|user| ["-l".to_string(), user.clone()]);
        port.chain(user).collect()
    }

    /// What ssh is told after its own options.
    pub fn arguments(&self) -> Vec<String> {
        [self.options(), vec!["--".to_string(), self.host.clone()]].concat()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a machine may be called so: a word that is no number, and that `NAME:0` can be read back from.
pub fn is_machine_name(name: &str) -> bool {
    let digits_only = name.bytes().all(|byte| byte.is_ascii_digit());
    is_name(name, "._-") && !digits_only && name.len() <= 64
}

/// An address of version 6 stands in brackets where a port follows.
fn split_port(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match place.split_once(':') {
        // Several colons: an address of version 6 by itself.
        Some((_, rest)) if rest.contains(':') => Some((place, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((place, None)),
    }
}

fn is_name(text: &str, beside: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || beside.contains(letter);
    !text.is_empty()
        && text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == ':')
        && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_arguments_of_ssh() {
        let told = |text: &str| Address::parse(text).unwrap().arguments().join(" ");
        assert_eq!(told("box"), "-- box");
        assert_eq!(told("ann@gpu1.lab:2222"), "-p 2222 -l ann -- gpu1.lab");
        assert_eq!(told("[fe80::1%eth0]:22"), "-p 22 -- fe80::1%eth0");
        assert_eq!(told("::1"), "-- ::1");
    }

    #[test]
    fn what_ssh_or_a_shell_could_take_for_more_is_no_address() {
        let bad = [
            "",
            "-oProxyCommand=touch x",
            "-box",
            "a@-box",
            "-l@box",
            "box;id",
            "box id",
            "$(id)",
            "a b@box",
            "box:",
            "box:0",
            "box:66000",
            "box:x",
            "@box",
            "box\n",
            "[::1",
            "[::1]x",
            "a`b`@box",
            "bóx",
        ];
        for text in bad {
            assert_eq!(Address::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_machine_is_called_by_its_host() {
        let name = |text: &str| Address::parse(text).unwrap().name().map(String::from);
        assert_eq!(name("ann@gpu1.lab:2222").as_deref(), Some("gpu1.lab"));
        assert_eq!(name("127.0.0.2").as_deref(), Some("127.0.0.2"));
        assert_eq!(name("::1"), None);
        assert!(!is_machine_name("12") && !is_machine_name("a:b") && is_machine_name("a-1"));
    }
}
