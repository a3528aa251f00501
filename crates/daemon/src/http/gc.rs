//! `POST /v1/gc`: deletes what nobody needs any more, or tells what that would be. The same is done by itself for jobs that
//! `[retention]` keeps no longer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use nexus_api::gc::{Collect, Collected, Share};
use nexus_api::problem::Problem;
use nexus_core::ids::JobId;
use nexus_core::time::Time;

use super::extract::Sent;
use super::problem::Failed;
use super::{App, Shared};
use crate::engine::Forgetter;
use crate::service_log::Line;
use crate::{backups, blocking, clock};

/// Jobs that are forgotten in one go: others want their turn as well.
const AT_ONCE: u64 = 200;

/// What was made a moment ago may be of a job that is about to be queued.
const SETTLED: Duration = Duration::from_secs(3600);

/// A database that was put aside may still be wanted back for so long.
const OLD_DATABASE: Duration = Duration::from_secs(30 * 86_400);

pub async fn collect(State(app): State<Shared>, Sent(wish): Sent<Collect>) -> Result<Json<Collected>, Failed> {
    let age = wish.older_than_seconds.map(Duration::from_secs).or_else(|| *app.reload.keep_jobs().borrow());
    let mut collected = Collected { older_than_seconds: age.map(|age| age.as_secs()), ..Collected::default() };
    if let Some(age) = age {
        collected.jobs = app.old_jobs(age, wish.dry_run).await?;
    }
    let orphans = app.orphans().await?;
    let (home, keep) = (app.home.dir.clone(), app.reload.keep_backups());
    let work = move || {
        collected.folders = clear(&orphans.folders, wish.dry_run);
        collected.copies = clear(&orphans.copies, wish.dry_run);
        collected.backups = clear_files(&backups::beyond(&home, keep), wish.dry_run);
        collected.databases = clear_files(&backups::old_databases(&home, OLD_DATABASE), wish.dry_run);
        collected
    };
    Ok(Json(blocking::answer(work).await?))
}

/// Folders that no job names.
struct Orphans {
    folders: Vec<PathBuf>,
    copies: Vec<PathBuf>,
}

impl App {
    /// Forgets jobs that ended longer ago than this, unless it is only asked what that would be.
    async fn old_jobs(self: &Shared, age: Duration, dry_run: bool) -> Result<Share, Problem> {
        let before = Time(clock::now().0.saturating_sub(age.as_millis() as i64));
        let mut share = Share::default();
        let mut behind = None;
        loop {
            let ids =
                self.read(move |reader| reader.ended_before(before, behind, AT_ONCE).map_err(|e| e.problem())).await?;
            let Some((last, _)) = ids.last() else { return Ok(share) };
            behind = Some(*last);
            let words: Vec<String> = ids.into_iter().map(|(_, id)| id).collect();
            share.count += words.len() as u64;
            share.bytes += self.size_of(words.clone()).await?;
            if !dry_run {
                let ids = words.iter().filter_map(|id| id.parse().ok()).collect();
                self.forget(ids, words, Forgetter::Age).await?;
            }
        }
    }

    /// What the folders of jobs take on this machine.
    async fn size_of(self: &Shared, jobs: Vec<String>) -> Result<u64, Problem> {
        let dirs = self.belongings_of(jobs).await?.dirs;
        blocking::answer(move || dirs.iter().map(|dir| bytes_in(dir)).sum()).await
    }

    async fn orphans(self: &Shared) -> Result<Orphans, Problem> {
        let (home, log_dir) = (self.home.clone(), self.log_dir.clone());
        self.read(move |reader| {
            let fail = |error: crate::store::StoreError| error.problem();
            let used: BTreeSet<String> = reader.copies_used().map_err(fail)?.into_iter().collect();
            let copies = [home.snapshots(), home.code()].iter().flat_map(|folder| named_in(folder)).collect::<Vec<_>>();
            let copies = copies.into_iter().filter(|(name, _)| !used.contains(name)).map(|(_, path)| path).collect();
            let mut folders = Vec::new();
            let logs = named_in(&log_dir).into_iter();
            let logs = logs.filter_map(|(name, path)| Some((name.strip_prefix("job_")?.to_owned(), path)));
            let own = [home.results(), home.checkpoints()];
            for (name, path) in logs.chain(own.iter().flat_map(|folder| named_in(folder))) {
                // What is no id is nothing of ours.
                if name.parse::<JobId>().is_ok() && reader.job(&name).map_err(fail)?.is_none() {
                    folders.push(path);
                }
            }
            let kept: BTreeSet<String> = reader.checkpoints_used().map_err(fail)?.into_iter().collect();
            let is_kept = |path: &PathBuf| path.file_name().is_some_and(|name| kept.contains(&*name.to_string_lossy()));
            folders.retain(|path| !(path.starts_with(home.checkpoints()) && is_kept(path)));
            Ok(Orphans { folders, copies })
        })
        .await
    }

    /// Forgets what `[retention]` keeps no longer; what came of it is in service.log.
    pub async fn retain(self: &Shared) {
        let Some(age) = *self.reload.keep_jobs().borrow() else { return };
        if let Err(problem) = self.old_jobs(age, false).await {
            let line = Line::error(format!("jobs that retention.jobs keeps no longer were not forgotten: {problem}"));
            // The engine is gone: the next service does it.
            let _ = self.post(crate::engine::Message::Log(vec![line]));
        }
    }
}

/// Folders in a folder, by their names, but for those that are new.
fn named_in(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let is_old = |entry: &std::fs::DirEntry| {
        let found = entry.metadata().ok().filter(std::fs::Metadata::is_dir);
        let changed = found.and_then(|found| found.modified().ok());
        changed.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > SETTLED))
    };
    let named = entries.flatten().filter(is_old);
    named.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// Deletes folders, or counts them; one that cannot be deleted is not counted.
fn clear(folders: &[PathBuf], dry_run: bool) -> Share {
    let mut share = Share::default();
    for folder in folders {
        let bytes = bytes_in(folder);
        if dry_run || std::fs::remove_dir_all(folder).is_ok() {
            share.count += 1;
            share.bytes += bytes;
        }
    }
    share
}

/// The same for files.
fn clear_files(files: &[PathBuf], dry_run: bool) -> Share {
    let mut share = Share::default();
    for file in files {
        let bytes = std::fs::symlink_metadata(file).map_or(0, |found| found.len());
        if dry_run || std::fs::remove_file(file).is_ok() {
            share.count += 1;
            share.bytes += bytes;
        }
    }
    share
}

/// What is on the disk of a folder and all below it. What cannot be looked at counts nothing.
fn bytes_in(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => found.blocks() * 512 + bytes_in(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
