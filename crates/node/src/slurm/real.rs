//! A real cluster: Slurm's programs, and the folder that its login node and its compute nodes both see.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nexus_api::run_dir::{EXIT, ExitRecord, FENCED, RunSpec, SLURM_JOB, SPEC};
use nexus_core::ids::RunId;

use super::batch::{Batch, FORMAT, job_name};
use super::compute::{MAX_JOB_BYTES, MAX_SPEC_BYTES};
use super::parse::{self, Refusal, Word};
use super::site::{Cancel, Site, Submission};
use super::tools::{Tools, said, silent};
use super::words::{Cluster, Options, Said, SlurmNews};
use crate::home::is_network;
use crate::inspect::{InspectError, Seen, claim, inspect_from_afar};
use crate::run_file;
use crate::tidy::{How, Tidier, Tidying};
use crate::words::{Report, RunPlace};

/// What of a batch's complaints is told.
const LONGEST_COMPLAINT: usize = 300;

/// So much of the end of what a batch printed is looked at for a complaint.
const COMPLAINT_BYTES: u64 = 64 << 10;

/// Arrays are as long as Slurm lets them be where it does not say.
const USUAL_ARRAY: u32 = 1001;

/// Tells the service something.
pub type Tell = Box<dyn Fn(Said) + Send>;

pub struct RealSite {
    tools: Tools,
    options: Options,
    service: String,
    /// Batches, their scripts and what these complained of.
    folder: PathBuf,
    /// In which shims say that there is something to see.
    news: PathBuf,
    /// This very program, where compute nodes see it.
    program: PathBuf,
    user: String,
    is_network: bool,
    /// What does not change.
    known: Option<Cluster>,
    began: Instant,
    tidier: Tidier,
    tell: Tell,
}

impl RealSite {
    pub fn open(home: &Path, options: Options, tidier: Tidier, tell: Tell) -> io::Result<RealSite> {
        let folder = home.join("slurm");
        let news = folder.join("news");
        DirBuilder::new().recursive(true).mode(0o700).create(&news)?;
        let service = home.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(RealSite {
            tools: Tools::find(),
            options,
            service,
            is_network: is_network(&folder),
            folder,
            news,
            program: std::env::current_exe()?,
            user: crate::users::name_of(rustix::process::getuid().as_raw()),
            known: None,
            began: Instant::now(),
            tidier,
            tell,
        })
    }

    pub fn service(&self) -> String {
        self.service.clone()
    }

    /// How often shims are listened to: what a network file system tells is not told at once.
    pub fn listens_every(&self) -> Duration {
        Duration::from_millis(if self.is_network { 1000 } else { 250 })
    }

    /// Whether jobs like ours are taken at all: names may be wrong. That no node could have one now is none of that.
    fn probe(&mut self) -> Result<(), String> {
        let mut arguments = super::Shape::default().arguments(&self.options);
        arguments.extend(["--test-only", "--wrap=true"].map(String::from));
        let ended = self.tools.submit(&arguments, Path::new("/"));
        let ended = ended.map_err(|error| silent("sbatch", &error))?;
        let said = said("sbatch", &ended);
        let is_wrong = parse::refusal(&ended.stderr) == Refusal::Never && said.to_lowercase().contains("invalid");
        match !ended.status.success() && is_wrong {
            true => Err(format!("it takes no jobs like this: {said}")),
            false => Ok(()),
        }
    }

    /// What was read once.
    fn config(&mut self) -> Result<Cluster, String> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let config = parse::config(&self.tools.ask("scontrol", &words(&["show", "config"]))?);
        let limits = match config.has_accounting {
            true => self.limits(),
            false => vec![],
        };
        let known = Cluster {
            name: config.cluster,
            version: config.version,
            partitions: vec![],
            accounting: config.has_accounting,
            max_array: config.max_array_size.unwrap_or(USUAL_ARRAY).max(1),
            limits,
        };
        self.known = Some(known.clone());
        Ok(known)
    }

    /// Those of the user's association. A site need not let its users see them.
    fn limits(&mut self) -> Vec<String> {
        const NAMES: [&str; 5] = ["MaxJobs", "MaxSubmitJobs", "GrpTRES", "MaxTRESPerJob", "MaxWall"];
        let mut arguments = words(&["-n", "-P", "show", "assoc"]);
        arguments.extend([format!("user={}", self.user), format!("format=Account,{}", NAMES.join(","))]);
        let Ok(text) = self.tools.ask("sacctmgr", &arguments) else { return vec![] };
        let wanted = self.options.account.clone();
        let line = text.lines().find(|line| {
            let account = line.split('|').next().unwrap_or_default();
            wanted.as_deref().is_none_or(|wanted| wanted == account)
        });
        let values = line.into_iter().flat_map(|line| line.split('|').skip(1));
        let given = NAMES.iter().zip(values).filter(|(_, value)| !value.trim().is_empty());
        given.map(|(name, value)| format!("{name}={}", value.trim())).collect()
    }

    fn script(&self, batch: &Batch) -> String {
        let (program, file) = (quoted(&self.program), quoted(&self.folder.join(batch.file_name())));
        let complaints = quoted(&self.folder.join(format!("{}.err", batch.name)));
        format!("#!/bin/sh\nexec {program} __slurm {file} 2>>{complaints}\n")
    }

    fn sbatch(&self, batch: &Batch) -> io::Result<Vec<String>> {
        let script = self.folder.join(format!("{}.sh", batch.name));
        write_whole(&script, self.script(batch).as_bytes(), 0o700)?;
        let mut told = words(&["--parsable", "--export=ALL", "--output=/dev/null", "--error=/dev/null"]);
        told.push(format!("--chdir={}", self.folder.display()));
        told.push(format!("--job-name=nexus-{}", batch.name));
        told.push(format!("--comment={}", batch.comment(&self.service)));
        told.extend(batch.is_array().then(|| format!("--array=0-{}", batch.runs.len() - 1)));
        told.extend(batch.shape.arguments(&self.options));
        told.push(script.display().to_string());
        Ok(told)
    }
}

impl Site for RealSite {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn at_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
    }

    fn submit(&mut self, batch: &Batch) -> Submission {
        let arguments = match self.sbatch(batch) {
            Ok(arguments) => arguments,
            Err(error) => return Submission::Full(format!("its script cannot be written: {error}")),
        };
        let ended = match self.tools.submit(&arguments, &self.folder) {
            Ok(ended) => ended,
            Err(error) => return Submission::Unclear(silent("sbatch", &error)),
        };
        match (ended.status.success(), parse::submitted(&ended.stdout)) {
            (true, Some(job)) => Submission::Taken(job),
            (true, None) => Submission::Unclear("sbatch did not say which number it gave".into()),
            (false, _) => {
                let error = said("sbatch", &ended);
                match parse::refusal(&ended.stderr) {
                    Refusal::Full => Submission::Full(error),
                    Refusal::Never => Submission::Never(error),
                    Refusal::Unclear => Submission::Unclear(error),
                }
            }
        }
    }

    fn words(&mut self) -> Result<Vec<Word>, String> {
        let arguments = ["-h", "-r", "-t", "all", "-u", &self.user, "-O", parse::SQUEUE_FORMAT];
        match self.tools.ask("squeue", &words(&arguments)) {
            Ok(text) => parse::squeue(&text).map_err(|damaged| format!("squeue: {damaged}")),
            // Some sites have no squeue for everybody; scontrol is always there.
            Err(error) if error.starts_with("squeue is not there") => {
                let text = self.tools.ask("scontrol", &words(&["-o", "show", "jobs"]))?;
                parse::scontrol(&text).map_err(|damaged| format!("scontrol: {damaged}"))
            }
            Err(error) => Err(error),
        }
    }

    fn past(&mut self, jobs: &BTreeSet<u64>) -> Result<Vec<Word>, String> {
        if !self.config()?.accounting {
            return Ok(vec![]);
        }
        let ids: Vec<String> = jobs.iter().map(u64::to_string).collect();
        let mut arguments = words(&["-n", "-X", "-p", "-o", parse::SACCT_FORMAT]);
        arguments.push(format!("--jobs={}", ids.join(",")));
        parse::sacct(&self.tools.ask("sacct", &arguments)?).map_err(|damaged| format!("sacct: {damaged}"))
    }

    fn cluster(&mut self) -> Result<Cluster, String> {
        let text = self.tools.ask("sinfo", &words(&["-h", "-e", "-o", parse::SINFO_FORMAT]))?;
        let mut partitions = parse::sinfo(&text).map_err(|damaged| format!("sinfo: {damaged}"))?;
        if let Some(wanted) = &self.options.partition {
            let names: Vec<&str> = wanted.split(',').collect();
            let all: Vec<String> = partitions.iter().map(|partition| partition.name.clone()).collect();
            partitions.retain(|partition| names.contains(&partition.name.as_str()));
            if partitions.is_empty() {
                return Err(format!("there is no partition {wanted}; there is {}", all.join(", ")));
            }
        }
        let is_first = self.known.is_none();
        let known = self.config()?;
        if is_first && let Err(error) = self.probe() {
            self.known = None;
            return Err(error);
        }
        Ok(Cluster { partitions, ..known })
    }

    fn cancel(&mut self, jobs: &[(u64, Option<u32>)], how: Cancel) -> Result<(), String> {
        let mut arguments = match how {
            Cancel::Gently => words(&["--batch", "--signal=TERM"]),
            Cancel::Outright => vec![],
        };
        arguments.extend(jobs.iter().map(|job| job_name(*job)));
        let ended = self.tools.run("scancel", &arguments, Path::new("/"));
        let ended = ended.map_err(|error| silent("scancel", &error))?;
        let text = said("scancel", &ended);
        // What it says of single jobs, such as that one has ended meanwhile, is nothing to try again for.
        let is_away = ["contact", "timed out", "Socket", "connection", "Connection"];
        match !ended.status.success() && is_away.iter().any(|word| text.contains(word)) {
            true => Err(text),
            false => Ok(()),
        }
    }

    fn look(&self, dir: &Path) -> io::Result<Seen> {
        inspect_from_afar(dir).map_err(as_io)
    }

    /// A network file system remembers for a while what was not there: a change of our own makes it look again.
    fn look_hard(&self, dir: &Path) -> io::Result<Seen> {
        if self.is_network {
            look_again(dir);
        }
        self.look(dir)
    }

    fn begun_by(&self, dir: &Path) -> Option<(u64, Option<u32>, u32)> {
        let text = String::from_utf8(run_file::read(&dir.join(SLURM_JOB), MAX_JOB_BYTES).ok()?).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse().ok());
        Some((words.first()?.parse().ok()?, number(1), number(3).unwrap_or(0)))
    }

    fn claim(&self, dir: &Path) -> io::Result<bool> {
        let claimed = claim(dir).map_err(as_io)?;
        if claimed {
            // What it would have been told is nobody's business any more.
            let _ = fs::remove_file(dir.join(SPEC));
        }
        Ok(claimed)
    }

    fn write_record(&mut self, dir: &Path, record: &ExitRecord) -> io::Result<()> {
        write_whole(&dir.join(EXIT), &serde_json::to_vec(record)?, 0o600)
    }

    fn fence(&mut self, dir: &Path) {
        // What cannot be written there is not seen there either.
        let _ = run_file::create(&dir.join(FENCED));
    }

    fn lay_out(&self, spec: &RunSpec) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&spec.dir)?;
        let spec = RunSpec { reports: self.news.clone(), cgroup_base: None, screen: None, ..spec.clone() };
        write_whole(&spec.dir.join(SPEC), &serde_json::to_vec(&spec)?, 0o600)
    }

    fn is_laid_out(&self, dir: &Path) -> bool {
        dir.join(SPEC).exists()
    }

    fn complaint(&self, batch: &str) -> String {
        let path = self.folder.join(format!("{batch}.err"));
        let text = run_file::read_end(&path, COMPLAINT_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim().chars().take(LONGEST_COMPLAINT).collect()
    }

    fn keep(&mut self, batch: &Batch) -> io::Result<()> {
        write_whole(&self.folder.join(batch.file_name()), &serde_json::to_vec(batch)?, 0o600)?;
        run_file::folder(&self.folder)?.sync_all()
    }

    fn forget(&mut self, batch: &str) {
        for end in ["json", "sh", "err"] {
            // What stays is found by the next node.
            let _ = fs::remove_file(self.folder.join(format!("{batch}.{end}")));
        }
    }

    fn kept(&self) -> io::Result<(Vec<Batch>, bool)> {
        let (mut kept, mut all) = (Vec::new(), true);
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            match run_file::read(&path, MAX_SPEC_BYTES)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Batch>(&bytes).ok())
            {
                Some(batch) if batch.format <= FORMAT => kept.push(batch),
                _ => all = false,
            }
        }
        Ok((kept, all))
    }

    fn news(&mut self) -> Vec<RunId> {
        if self.is_network {
            look_again(&self.news);
        }
        let entries = fs::read_dir(&self.news).into_iter().flatten().flatten();
        let named =
            entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<RunId>().ok()?, entry.path())));
        named
            .map(|(run, path)| {
                // Before it is looked at: what happens meanwhile is news again.
                let _ = fs::remove_file(path);
                run
            })
            .collect()
    }

    fn tidy(&mut self, place: RunPlace) {
        self.tidier.tell(Tidying::Tidy(place, How { claims: true, logs: true }));
    }

    fn report(&mut self, report: Report) {
        (self.tell)(Said::Report(report));
    }

    fn tell(&mut self, news: SlurmNews) {
        (self.tell)(Said::News(news));
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn as_io(error: InspectError) -> io::Error {
    match error {
        InspectError::Io { source, .. } => source,
        newer => io::Error::other(newer.to_string()),
    }
}

/// For `sh`: one word.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

fn look_again(dir: &Path) {
    let probe = dir.join(".look");
    if run_file::create(&probe).is_ok() {
        let _ = fs::remove_file(&probe);
    }
}

/// All of it or nothing, and on disk.
fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    run_file::write_whole_with(path, &path.with_extension("part"), bytes, mode)
}
