//! `nexus __man DIR`: writes a manual page for nexus and one for each verb, for those who make packages.

use std::path::Path;

use clap::Command;

use crate::error::CliError;
use crate::process::ExitCode;

/// Pages are named as manuals have it: `nexus.1`, `nexus-add.1`, `nexus-sweep-show.1`.
pub fn run(nexus: &Command, folder: &Path) -> Result<ExitCode, CliError> {
    std::fs::create_dir_all(folder).map_err(CliError::io(format!("{} cannot be made", folder.display())))?;
    write(nexus, "nexus", folder)?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
fn write(command: &Command, name: &str, folder: &Path) -> Result<(), CliError> {
    let path = folder.join(format!("{name}.1"));
    let cannot = || format!("{} cannot be written", path.display());
    let mut page = Vec::new();
    let whole = command.clone().disable_help_subcommand(true);
    let man =
        clap_mangen::Man::new(whole).title(name.to_uppercase()).source(concat!("nexus ", env!("CARGO_PKG_VERSION")));
    man.render(&mut page).map_err(CliError::io(cannot()))?;
    std::fs::write(&path, page).map_err(CliError::io(cannot()))?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write(verb, &format!("{name}-{}", verb.get_name()), folder)?;
    }
    Ok(())
}
