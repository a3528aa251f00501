//! `config.toml` as it is made at first use: every key, each at its default.

use super::keys;

pub fn template() -> String {
    let mut text = String::from(
        "# nexus configuration. Every key is shown with its default; take the # away to change one, or type\n\
         # nexus config set jobs.grace 3s. Changes count at once, but for those that say otherwise.\n",
    );
    for section in keys::sections() {
        text.push_str(&format!("\n[{section}]\n"));
        for key in keys::all().filter(|key| key.section == section) {
            text.push_str(&key.template_line());
            text.push('\n');
        }
        text.push_str(match section {
            "gpus" => "# The same keys under [machine.NAME.gpus] count for one machine; this one is local.\n",
            "models" => "# Rules for commands, any number of them: [[rule]] and below it match, gpus, vram.\n",
            _ => "",
        });
    }
    text
}
