//! How damage of the database is found beside the engine: by a reader, which leads to a check of all of it, and by a watch on
//! the file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nexus_api::problem::Problem;
use nexus_node::threads;

use super::Shared;
use crate::engine::Message;
use crate::service_log::Line;
use crate::store::{NotChecked, faults};
use crate::{backups, watch_file};

const CHECK_PATIENCE: Duration = Duration::from_secs(300);

/// Checks the whole database on a thread of its own, unless that goes on already. The engine gives the database up if the
/// check finds a fault: one reader that fails is not reason enough to take no jobs. `found`: what that reader was told.
pub fn look_closer(app: &Shared, found: Option<Problem>) {
    if !app.trouble.begins_check() {
        return;
    }
    let (path, trouble, engine) = (app.home.database(), app.trouble.clone(), app.engine.clone());
    let check = move || {
        let message = match faults(&path, CHECK_PATIENCE) {
            Ok(faults) if faults.is_empty() => found.map(|found| {
                let error = found.why().unwrap_or_default();
                Message::Log(vec![Line::warn(format!("{error}; a check of the whole database found nothing wrong"))])
            }),
            Ok(faults) => Some(Message::Damaged(found.unwrap_or_else(|| damaged(&path, faults.join("; "))))),
            Err(NotChecked::Failed(error)) if found.is_none() => {
                Some(Message::Log(vec![Line::warn(format!("The database cannot be checked: {error}"))]))
            }
            // What the reader met is damage by itself.
            Err(NotChecked::TookTooLong | NotChecked::Failed(_)) => found.map(Message::Damaged),
        };
        if let Some(message) = message {
            // The engine is gone: the service is going down.
            let _ = engine.send(message);
        }
        trouble.ends_check();
    };
    if threads::start("nexus-check", check).is_err() {
        // No thread is to be had: the next reader tries again.
        app.trouble.ends_check();
    }
}

fn damaged(path: &Path, error: String) -> Problem {
    let backup = path.parent().and_then(backups::newest).map(|copy| copy.display().to_string());
    Problem::DatabaseDamaged { path: path.display().to_string(), error, backup }
}

/// Notices when the database file is removed, replaced, emptied or written to by others under the running service. Commits would go on without an
/// error, into a file that no name leads to.
pub fn watch_database(app: &Shared) {
    let path = app.home.database();
    let Ok(Some(opened)) = identity(&path) else { return };
    let (of_watch, watched) = (app.clone(), path.clone());
    let changed = move || {
        let error = match identity(&watched) {
            // The service never closes it: somebody else wrote to it.
            Ok(Some(now)) if now == opened => return look_closer(&of_watch, None),
            Ok(Some(_)) => "another file was put in its place while the service ran",
            Ok(None) => "it was removed or emptied while the service ran",
            // A network file system that is away says nothing of the file.
            Err(_) => return look_closer(&of_watch, None),
        };
        // The engine is gone: the service is going down.
        let _ = of_watch.post(Message::Damaged(damaged(&watched, error.into())));
    };
    if let Err(error) = watch_file::watch(&path, changed) {
        let line = format!("The database file is not watched: {error}");
        // The engine is not running yet, and holds the other end.
        let _ = app.engine.send(Message::Log(vec![Line::warn(line)]));
    }
}

/// Device and inode of a file that holds something; none where there is no such file.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok((found.len() > 0).then(|| (found.dev(), found.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
