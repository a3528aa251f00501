//! `nexus __service-view`: the window of the service's own screen session. Typed by nobody.

use nexus_api::shown::Stream;

use crate::app::App;
use crate::error::CliError;
use crate::process::ExitCode;

/// Lines of service.log that are shown at first.
const LAST_LINES: u64 = 200;

/// Shows service.log until the service ends. Keys mean nothing here: what ends this window stops the service.
pub async fn run(app: &App) -> Result<ExitCode, CliError> {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP] {
        // SAFETY: sets the signal to a constant action, no function of ours is called.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let session = std::env::var("STY").ok();
    let mut body = app.reader().service_log(LAST_LINES, session.as_deref()).await?;
    let mut shown = Stream::default();
    while let Ok(Some(bytes)) = body.next().await {
        app.ui.stream(&mut shown, &bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}
