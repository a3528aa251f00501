//! Keeps `[retention]`: looks once an hour, and when the configuration changes, for jobs that are kept no longer.

use std::sync::Arc;
use std::time::Duration;

use crate::http::App;

const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// Not in the way of a service that has just begun.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// Runs as long as the service.
pub async fn keep(app: Arc<App>) {
    let mut ages = app.reload.keep_jobs();
    tokio::time::sleep(FIRST_LOOK).await;
    loop {
        app.retain().await;
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            changed = ages.changed() => if changed.is_err() { return },
        }
    }
}
