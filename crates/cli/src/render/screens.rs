//! Sessions of GNU screen, and what to type for each.

use nexus_api::screens::Screen;

use super::paint::Paint;
use super::table::Table;

pub fn screens(screens: &[Screen], paint: Paint) -> String {
    let pid = |screen: &Screen| screen.pid.map(|pid| pid.to_string()).unwrap_or_default();
    Table::new()
        .column("NAME", |paint, text| paint.plain(text), screens.iter().map(|screen| screen.name.clone()))
        .column("PID", |paint, text| paint.plain(text), screens.iter().map(pid))
        .column(
            "JOB",
            |paint, text| paint.id(text),
            screens.iter().map(|screen| screen.job.clone().unwrap_or_default()),
        )
        .column("STATE", |paint, text| paint.state(text), screens.iter().map(|screen| screen.state.word().into()))
        .column("TYPE", |paint, text| paint.command(text), screens.iter().map(|screen| screen.command.clone()))
        .render(true, paint)
}

#[cfg(test)]
mod tests {
    use nexus_api::screens::ScreenState;

    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn each_says_what_to_type() {
        let screen = Screen {
            name: "nexus_job_abc".into(),
            pid: Some(4313),
            job: Some("abc".into()),
            state: ScreenState::Detached,
            command: "screen -r nexus_job_abc".into(),
        };
        assert_eq!(
            screens(&[screen], PLAIN),
            "NAME           PID   JOB  STATE     TYPE\nnexus_job_abc  4313  abc  detached  screen -r nexus_job_abc\n"
        );
    }
}
