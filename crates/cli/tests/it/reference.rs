//! The references in `docs/` say what the program says. `UPDATE_DOCS=1` writes them anew.

use std::path::PathBuf;

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn the_command_reference_is_what_help_says() {
    let nexus = Nexus::fresh(NEXUS);
    let all = nexus.ok(&["help", "all"]);
    let verbs: Vec<&str> =
        all.lines().filter_map(|line| line.strip_prefix("  nexus ")?.split_whitespace().next()).collect();
    assert!(verbs.len() > 20, "{all}");
    let mut text = String::from("# Commands\n\nMade from the program's own help.\n");
    for verb in ["all", "selectors"].iter().chain(&verbs) {
        let help = nexus.ok(&["help", verb]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus help {verb}\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    for below in ["get", "set", "unset", "edit", "path"] {
        let help = nexus.ok(&["config", below, "--help"]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus config {below} --help\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    for below in ["ls", "restore"] {
        let help = nexus.ok(&["backup", below, "--help"]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus backup {below} --help\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    let help = nexus.ok(&["notify", "test", "--help"]);
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## nexus notify test --help\n\n```text\n{}\n```\n", lines.join("\n")));
    for below in ["ls", "show", "csv"] {
        let help = nexus.ok(&["sweep", below, "--help"]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus sweep {below} --help\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    for below in ["browsers", "revoke"] {
        let help = nexus.ok(&["web", below, "--help"]);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## nexus web {below} --help\n\n```text\n{}\n```\n", lines.join("\n")));
    }
    compare("docs/cli.md", &text);
}

#[test]
fn the_configuration_reference_is_the_file_made_at_first_use() {
    let nexus = Nexus::with_gpus(NEXUS, 0);
    let made = std::fs::read_to_string(nexus.home().join("config.toml")).expect("made at first use");
    let text = format!(
        "# Configuration\n\n`~/.nexus/config.toml`, as it is made at first use. `nexus config` shows what is in \
         force, `nexus config set` and `edit` change it. A wrong key or value stops `nexus start` and is named with \
         its line; while the service runs a wrong text is refused, and the old one stays in force.\n\n\
         ```toml\n{made}```\n{NOTES}"
    );
    compare("docs/config.md", &text);
}

/// What the lines of the file have no room for.
const NOTES: &str = "
## Notes

- **prelude** is put before a shell command, a newline between them, in the same shell. A command of several words \
gets a shell for it, `bash -c 'PRELUDE; exec \"$@\"'`, and stays word for word what it was. The command that is shown \
is the one that was typed.
- With `--conda` or `--venv` (see [environments](environments.md)) the order is prelude, activation, runner, command: the \
runner may be a program of the environment, and of the prelude counts what it exports.
- **runner** is put before all that: `nice -n 10 bash -c …`. With it, exit 126 and 127 mean that the command could not \
be started.
- **env_file**: `--env` goes over `--env-file` goes over this file goes over the submitter's environment. It is read \
when a job starts; a job whose file is missing or wrong fails with start-error and its name.
- **Who can write to it.** Configuration is refused where another user can write to it, and so are the files that it \
names under `file` of `[models]`, `env_file` and `jobs_file`: by their own mode, by a group (other than the user private group of \
you or root: same name, no other members), by an access list, or by a folder or a link on the way to them. They belong to you or to root. Folders like `/tmp`, which are sticky, are fine \
on the way. The message names the path, who can write, and the command that ends it. The first start of a version that looks, in a home of an \
older one, reads `config.toml` and the file of models once more, with a warning; a file `strict-files` in the home says that this is over.
- **nofile**, **memlock**: a number that the machine does not allow is a start-error; `unlimited` is all that it allows.
- **Sizes** are in powers of two (`1GB` = 1024 MB), **durations** have a unit (`90s`, `1.5h`, `1d12h`) or are those \
of a clock (`2:30:00`, `1-12:00:00`), **GPU lists** are \
`0-2,5`.
- `nexus start --gpus 4` and its like go over their keys until the service starts anew or start is given other ones, and are written nowhere: `nexus restart`, \
`stop` and `start`, a crash and an automatic start all go back to the file. `nexus config` shows them as from `nexus start`.
- `[machine.NAME.gpus]` has the keys of `[gpus]` for one machine and goes over them; the service's own is `local`.
- `[[rule]]` has `match`, and `gpus` or `vram`; [model rules](model-rules.md) says what they do, and what **file** of \
`[models]` is.
- `[notify]`: [notices](notifications.md) has examples for Slack, Discord, ntfy, mail and a desktop. Addresses of webhooks are \
secrets, and shown by scheme and host alone.
";

fn compare(name: &str, expected: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).expect("the docs are writable");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} is out of date: UPDATE_DOCS=1 ./test writes it anew");
}
