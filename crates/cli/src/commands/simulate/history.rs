//! The jobs that ended here, as a workload: when each was submitted, what it asked for, how long it ran.

use std::time::Duration;

use jiff::Timestamp;
use nexus_api::amount::Vram as VramWord;
use nexus_api::export::Exported;
use nexus_api::jobs::JobQuery;
use nexus_core::replay::Arrival;
use nexus_core::request::{Model, Request, Share, Vram};
use nexus_core::time::Time;

use super::workload::Workload;
use crate::client::Client;
use crate::error::CliError;
use crate::render::text::counted;

/// Those that ended since then, or all. `on_own_gpus`: the numbers of GPUs that jobs ask for mean something.
pub async fn read(client: &Client, since: Option<String>, on_own_gpus: bool) -> Result<Workload, CliError> {
    let query = JobQuery { state: Some("ended".into()), since, ..JobQuery::default() };
    let mut body = client.export("jsonl", &query).await?;
    let (mut workload, mut never_ran) = (Workload::default(), 0);
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = body.next().await? {
        rest.extend(&bytes);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let text = std::str::from_utf8(line).unwrap_or_default();
            let unreadable = |source| CliError::Answer { path: "/v1/export".into(), source };
            match arrival(&Exported::read(text).map_err(unreadable)?, on_own_gpus) {
                Some(arrival) => workload.arrivals.push(arrival),
                None => never_ran += 1,
            }
        }
        rest.drain(..whole);
    }
    if never_ran > 0 && !workload.arrivals.is_empty() {
        let is = if never_ran == 1 { "is" } else { "are" };
        workload.notes.push(format!("{} that never ran {is} left out", counted(never_ran, "job")));
    }
    Ok(workload)
}

/// None for a job that never ran.
fn arrival(exported: &Exported, on_own_gpus: bool) -> Option<Arrival> {
    let (job, runs) = (&exported.job, &exported.beside.runs);
    let time = |text: &str| text.parse::<Timestamp>().ok().map(|time| Time(time.as_millisecond().max(0)));
    // All attempts together: each of them had the GPUs.
    let spans = runs.iter().filter_map(|run| {
        let (start, end) = (time(run.started_at.as_deref()?)?, time(run.ended_at.as_deref()?)?);
        Some(end.since(start))
    });
    let takes = spans.reduce(|sum, span| sum.saturating_add(span))?;
    let asked = &job.request;
    let amount = asked.amount();
    let given_mib = runs.last().and_then(|run| run.vram_mib).and_then(|mib| u32::try_from(mib).ok());
    let vram = match asked.vram {
        Some(VramWord::Mib(mib)) => Vram::Mib(mib),
        // What it was given in the end; nothing was known of it where it had GPUs alone.
        Some(VramWord::Auto) => given_mib.map_or(Vram::Unsaid, Vram::Mib),
        None => Vram::Unsaid,
    };
    let shares = amount.milli().is_some() || matches!(vram, Vram::Mib(_));
    let grace = asked.grace_seconds.unwrap_or(0);
    Some(Arrival {
        at: time(&job.submitted_at)?,
        takes,
        limit: asked.time_seconds.map(|limit| Duration::from_secs(limit.saturating_add(grace))),
        priority: job.priority,
        request: Request {
            gpus: amount.count(),
            share: (shares && !amount.is_none()).then(|| Share { milli: amount.milli().unwrap_or(0), vram }),
            cpus: asked.cpus.map_or(u32::from(amount.is_none()), u32::from),
            ram_mib: asked.ram_mib.map_or(0, |mib| u32::try_from(mib).unwrap_or(u32::MAX)),
            on: asked.on.as_ref().filter(|_| on_own_gpus).map(|indices| indices.iter().copied().collect()),
            model: asked.gpu_model.as_deref().and_then(Model::new),
            ..Request::default()
        },
    })
}
