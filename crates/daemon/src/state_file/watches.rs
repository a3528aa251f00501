//! Hears of changes of the file by the name it was given, and where links lead from there.

use std::path::{Path, PathBuf};

use crate::file_watch::{Eye, Watch};

/// Where a file cannot be watched it is looked at when the state changes.
pub struct Watches {
    named: Option<(Watch, Eye)>,
    /// Elsewhere, if that name is a link.
    linked: Option<(PathBuf, Watch, Eye)>,
    path: PathBuf,
}

impl Watches {
    pub fn of(path: &Path) -> Watches {
        Watches { named: watch(path), linked: None, path: path.to_path_buf() }
    }

    /// What happens from now on is heard of.
    pub fn look(&mut self, real: &Path) {
        if self.linked.as_ref().is_none_or(|(known, ..)| known != real) {
            let elsewhere = (real != self.path).then(|| watch(real)).flatten();
            self.linked = elsewhere.map(|(watch, eye)| (real.to_path_buf(), watch, eye));
        }
        let linked = self.linked.as_ref().map(|(_, _, eye)| eye);
        for eye in self.named.as_ref().map(|(_, eye)| eye).into_iter().chain(linked) {
            eye.look();
        }
    }

    /// Returns when something happened to the file.
    pub async fn changed(&self) {
        let named = heard(self.named.as_ref().map(|(watch, _)| watch));
        let linked = heard(self.linked.as_ref().map(|(_, watch, _)| watch));
        tokio::select! {
            () = named => {}
            () = linked => {}
        }
    }
}

fn watch(path: &Path) -> Option<(Watch, Eye)> {
    let watch = Watch::of(path).ok()?;
    let eye = watch.eye();
    Some((watch, eye))
}

async fn heard(watch: Option<&Watch>) {
    match watch {
        Some(watch) if watch.changed().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_a_link_leads_to_is_heard_of_though_somebody_keeps_the_old_one_open() {
        let dir = std::env::temp_dir().join(format!("nexus-watches-{}", std::process::id()));
        let (link, far) = (dir.join("link"), dir.join("far/file"));
        fs::create_dir_all(dir.join("far")).unwrap();
        fs::write(&far, "1").unwrap();
        std::os::unix::fs::symlink(&far, &link).unwrap();
        let mut watches = Watches::of(&link);
        watches.look(&far);
        let _old = fs::File::open(&far).unwrap();
        fs::write(dir.join("far/new"), "2").unwrap();
        fs::rename(dir.join("far/new"), &far).unwrap();
        tokio::time::timeout(Duration::from_secs(20), watches.changed()).await.expect("it is heard of");
        fs::remove_dir_all(&dir).unwrap();
    }
}
