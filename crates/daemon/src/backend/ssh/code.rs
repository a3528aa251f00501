//! Sends the content of a folder to a machine, by rsync over the connection that is there. Files that the machine has in
//! another content are not sent again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nexus_api::jobs::Code;
use nexus_node::line::part_of;

use super::address::Address;
use super::contact::{self, Order};

/// Nothing moved for so many seconds: the line hangs.
const STALL: &str = "60";

/// What is to be where.
pub struct Shipment {
    /// Here, where the contents are kept.
    pub snapshots: PathBuf,
    /// The folder for code there.
    pub to: PathBuf,
    pub content: String,
    /// Contents that are there and may be much the same.
    pub beside: Vec<String>,
}

/// Sends it; or why that cannot be, in words.
pub fn send(order: &Order, shipment: &Shipment) -> Result<(), String> {
    // It comes from the machine.
    if !Code::is_content(&shipment.content) {
        return Err("it asks for code that there cannot be".into());
    }
    let from = shipment.snapshots.join(&shipment.content);
    if !from.is_dir() {
        return Err(format!("its code is not kept here any more: {} is gone", from.display()));
    }
    let output = Command::new("rsync").args(arguments(order, shipment, &from)).env("LC_ALL", "C").output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(why(&output)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("its code cannot be sent: rsync is not installed here, on the service's host".into())
        }
        Err(error) => Err(format!("its code cannot be sent: rsync cannot be started: {error}")),
    }
}

/// Times and permissions go along; what is the same is told by content, not by time.
fn arguments(order: &Order, shipment: &Shipment, from: &Path) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["-rlpt", "--checksum", "--delete", "--partial", "--protect-args"].map(String::from).into();
    arguments.push(format!("--timeout={STALL}"));
    let beside = shipment.beside.iter().filter(|name| Code::is_content(name) && **name != shipment.content);
    arguments.extend(beside.map(|name| format!("--copy-dest=../{name}")));
    arguments.extend(order.address.as_ref().map(|address| format!("--rsh={}", remote_shell(order, address))));
    arguments.push("--".into());
    arguments.push(format!("{}/", from.display()));
    let to = format!("{}/", shipment.to.join(part_of(&shipment.content)).display());
    arguments.push(match order.address.as_ref().map(Address::host) {
        None => to,
        Some(host) if host.contains(':') => format!("[{host}]:{to}"),
        Some(host) => format!("{host}:{to}"),
    });
    arguments
}

/// The command that rsync puts the host behind. It parts words at blanks, unless they stand in quotes.
fn remote_shell(order: &Order, address: &Address) -> String {
    let words = [vec!["ssh".to_string()], contact::shared(order), address.options()].concat();
    words.iter().map(|word| format!("'{}'", word.replace('\'', "''"))).collect::<Vec<_>>().join(" ")
}

fn why(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let code = output.status.code();
    if said.contains("rsync: command not found") || said.contains("rsync: not found") || code == Some(127) {
        return "its code cannot be sent: rsync is not installed there".into();
    }
    if said.contains("No space left on device") || said.contains("Disk quota exceeded") {
        return "its code cannot be sent: the disk there is full".into();
    }
    // The last lines sum up; the first says what happened.
    let first = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("rsync failed");
    format!("its code cannot be sent: {first}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn rsync_is_told_the_same_way_to_the_machine() {
        let order = Order {
            address: Address::parse("ann@fe80::1"),
            ssh_args: vec!["-F".into(), "/my config".into(), "it's".into()],
            control: Some("/run/c".into()),
            home: None,
            service: "abc".into(),
            node_args: vec![],
        };
        let same = "0".repeat(Code::LETTERS);
        let shipment = Shipment {
            snapshots: "/s".into(),
            to: "/there/my code".into(),
            content: "a".repeat(Code::LETTERS),
            beside: vec![same.clone(), "../../etc".into()],
        };
        let told = arguments(&order, &shipment, Path::new("/s/aaa"));
        let rsh = told.iter().find_map(|word| word.strip_prefix("--rsh=")).unwrap();
        assert!(rsh.starts_with("'ssh' '-F' '/my config' 'it''s' '-T' '-o'"), "{rsh}");
        assert!(rsh.contains("'ControlPath=/run/c'") && rsh.ends_with("'-l' 'ann'"), "{rsh}");
        assert!(told.contains(&format!("--copy-dest=../{same}")) && !told.iter().any(|word| word.contains("etc")));
        assert_eq!(told.last().unwrap(), &format!("[fe80::1]:/there/my code/.part-{}/", shipment.content));
    }

    #[test]
    fn what_failed_is_told_in_one_line() {
        let told = |code: i32, text: &str| {
            let status = ExitStatus::from_raw(code << 8);
            why(&Output { status, stdout: vec![], stderr: text.into() })
        };
        assert!(told(12, "bash: line 1: rsync: command not found\nrsync error: x").ends_with("not installed there"));
        assert!(told(11, "rsync: write failed: No space left on device (28)").ends_with("the disk there is full"));
        assert_eq!(told(23, "\nrsync: odd\nrsync error: y"), "its code cannot be sent: rsync: odd");
        assert_eq!(told(1, ""), "its code cannot be sent: rsync failed");
    }
}
