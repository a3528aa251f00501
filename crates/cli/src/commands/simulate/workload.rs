//! The jobs of a file: of nexus's own form, or of Philly's, told apart by the names in the first line.

use std::time::Duration;

use nexus_api::amount::GpuAmount;
use nexus_core::replay::Arrival;
use nexus_core::request::{MAX_GPUS, Model, Request, Share, Vram};
use nexus_core::time::Time;

use super::field::{self, Submit};
use super::rows::{File, Rows};
use crate::error::Usage;

/// A first line, for those who have none.
const EXAMPLE: &str = "submit,runtime,gpus,vram";

const KNOWN: [&str; 9] = ["submit", "runtime", "gpus", "vram", "cpus", "ram", "priority", "limit", "model"];

/// What makes up Philly's form.
const PHILLY: [&str; 4] = ["num_gpu", "submit_time", "iterations", "iteration_time"];

/// What Philly's runs took beyond their iterations, in thousandths of these.
const PHILLY_MILLI: u128 = 1015;

/// Jobs that come, and where they stand in their file.
#[derive(Debug, Default)]
pub struct Workload {
    pub arrivals: Vec<Arrival>,
    /// Of each; none of those that come from no file.
    pub lines: Vec<u32>,
    /// What the reader should know of it.
    pub notes: Vec<String>,
}

pub fn read(file: &File) -> Result<Workload, Usage> {
    let rows = Rows::of(file, EXAMPLE)?;
    let workload = match rows.has(&PHILLY) {
        true => philly(rows)?,
        false => own(rows)?,
    };
    match workload.arrivals.is_empty() {
        true => Err(Usage::new(format!("{} has no jobs", file.name), "a line for each job below the names")),
        false => Ok(workload),
    }
}

/// Where the columns of our own form stand.
struct Columns {
    submit: Option<usize>,
    runtime: usize,
    gpus: Option<usize>,
    vram: Option<usize>,
    cpus: Option<usize>,
    ram: Option<usize>,
    priority: Option<usize>,
    limit: Option<usize>,
    model: Option<usize>,
}

fn own(mut rows: Rows) -> Result<Workload, Usage> {
    let columns = Columns {
        submit: rows.column("submit"),
        runtime: rows.needed("runtime", EXAMPLE)?,
        gpus: rows.column("gpus"),
        vram: rows.column("vram"),
        cpus: rows.column("cpus"),
        ram: rows.column("ram"),
        priority: rows.column("priority"),
        limit: rows.column("limit"),
        model: rows.column("model"),
    };
    let mut workload = Workload { notes: rows.unused(&KNOWN).into_iter().collect(), ..Workload::default() };
    let (mut first, mut cut_off) = (None, 0);
    while rows.next()? {
        let submit = columns.submit.map(|column| field::submit(&rows, column)).transpose()?;
        if let (Some(column), Some(submit)) = (columns.submit, submit) {
            check_alike(&rows, column, submit, *first.get_or_insert(submit))?;
        }
        let runtime = field::span(&rows, columns.runtime)?;
        let limit = limit(&rows, &columns, runtime)?;
        cut_off += u64::from(limit.is_some_and(|limit| limit < runtime));
        workload.lines.push(u32::try_from(rows.line()).unwrap_or(u32::MAX));
        workload.arrivals.push(Arrival {
            at: submit.map_or(Time::default(), Submit::time),
            takes: limit.map_or(runtime, |limit| limit.min(runtime)),
            limit,
            priority: priority(&rows, columns.priority)?,
            request: request(&rows, &columns)?,
        });
    }
    if cut_off > 0 {
        let jobs = crate::render::text::counted(cut_off, "job");
        workload.notes.push(format!("{jobs} would run longer than the limit, and end there"));
    }
    Ok(workload)
}

/// A clock and seconds in one file would put half a century between jobs.
fn check_alike(rows: &Rows, column: usize, submit: Submit, first: Submit) -> Result<(), Usage> {
    match (first, submit) {
        (Submit::Seconds(_), Submit::Clock(_)) => Err(rows.wrong(column, "seconds, as in the lines before")),
        (Submit::Clock(_), Submit::Seconds(_)) => Err(rows.wrong(column, "a time, as in the lines before")),
        _ => Ok(()),
    }
}

/// Without a column everybody knows how long a job takes; in an empty field it does not say.
fn limit(rows: &Rows, columns: &Columns, runtime: Duration) -> Result<Option<Duration>, Usage> {
    let Some(column) = columns.limit else { return Ok(Some(runtime)) };
    if rows.said(columns.limit).is_none() {
        return Ok(None);
    }
    match field::span(rows, column)? {
        Duration::ZERO => Err(rows.wrong(column, "a limit, as in 4h, or nothing where there is none")),
        limit => Ok(Some(limit)),
    }
}

fn priority(rows: &Rows, column: Option<usize>) -> Result<i32, Usage> {
    let (Some(column), Some(text)) = (column, rows.said(column)) else { return Ok(0) };
    text.parse().map_err(|_| rows.wrong(column, "a whole number, as in -5, 0 or 10; lower runs first"))
}

fn request(rows: &Rows, columns: &Columns) -> Result<Request, Usage> {
    let amount = match (columns.gpus, rows.said(columns.gpus)) {
        (Some(column), Some(text)) => GpuAmount::parse(text).map_err(|want| rows.wrong(column, want.to_string()))?,
        _ => GpuAmount::ONE,
    };
    let size = |column: Option<usize>| match (column, rows.said(column)) {
        (Some(column), Some(_)) => field::memory(rows, column),
        _ => Ok(None),
    };
    let (vram, ram_mib) = (size(columns.vram)?, size(columns.ram)?.unwrap_or(0));
    if let (Some(column), Some(_), true) = (columns.vram, vram, amount.is_none()) {
        return Err(rows.wrong(column, "nothing, or 0: a job with 0 gpus has none of their memory"));
    }
    let cpus = match (columns.cpus, rows.said(columns.cpus)) {
        (Some(column), Some(_)) => rows.whole(column, u16::MAX.into())? as u32,
        _ => u32::from(amount.is_none()),
    };
    let model = match (columns.model, rows.said(columns.model)) {
        (Some(column), Some(text)) => Some(Model::new(text).ok_or_else(|| {
            rows.wrong(column, format!("a name of at most {} letters, or several with | between", Model::LONGEST))
        })?),
        _ => None,
    };
    let milli = amount.milli();
    let share = (milli.is_some() || vram.is_some())
        .then(|| Share { milli: milli.unwrap_or(0), vram: vram.map_or(Vram::Unsaid, Vram::Mib) });
    Ok(Request { gpus: amount.count(), share, cpus, ram_mib, model, ..Request::default() })
}

/// Its priorities are not those of a queue, and its other columns say what a job is made of, not what it needs.
fn philly(mut rows: Rows) -> Result<Workload, Usage> {
    let column = |name: &str| rows.needed(name, "job_id,num_gpu,submit_time,iterations,iteration_time");
    let (gpus, submit) = (column("num_gpu")?, column("submit_time")?);
    let (iterations, iteration_time) = (column("iterations")?, column("iteration_time")?);
    let mut workload = Workload::default();
    while rows.next()? {
        let takes = iteration_millis(&rows, iterations, iteration_time)?;
        let gpus = rows.whole(gpus, MAX_GPUS.into())? as u16;
        workload.lines.push(u32::try_from(rows.line()).unwrap_or(u32::MAX));
        workload.arrivals.push(Arrival {
            at: Time(rows.whole(submit, 100_000_000_000_000)? as i64),
            takes,
            limit: Some(takes),
            priority: 0,
            request: Request { gpus, ..Request::default() },
        });
    }
    Ok(workload)
}

/// So many iterations of so many milliseconds, which may have a part.
fn iteration_millis(rows: &Rows, iterations: usize, iteration_time: usize) -> Result<Duration, Usage> {
    let count = rows.whole(iterations, 1_000_000_000_000)?;
    // Thousandths of what a span of seconds has: microseconds, where the field has milliseconds.
    let micros = field::span(rows, iteration_time)?.as_millis();
    let millis = u128::from(count) * micros * PHILLY_MILLI / 1_000_000;
    u64::try_from(millis)
        .ok()
        .filter(|millis| *millis <= field::LONGEST_RUN_MILLIS)
        .map(Duration::from_millis)
        .ok_or_else(|| rows.wrong(iterations, "so many that the job takes at most 100 years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Workload, Usage> {
        read(&File { name: "f".into(), text: text.into() })
    }

    #[test]
    fn a_job_says_what_it_needs() {
        let text = "model,limit,priority,ram,cpus,vram,gpus,runtime,submit\n\
                    A100|H100,2h,-3,16G,4,10G,2,1h30m,5.5\n\
                    ,,,,,,0,10,6\n\
                    ,,,,,,.25,10,7\n";
        let arrivals = of(text).unwrap().arrivals;
        let share = Share { milli: 0, vram: Vram::Mib(10_240) };
        let wide = Request { gpus: 2, share: Some(share), cpus: 4, ram_mib: 16_384, ..Request::default() };
        let expected = Arrival {
            at: Time(5500),
            takes: Duration::from_secs(5400),
            limit: Some(Duration::from_secs(7200)),
            priority: -3,
            request: Request { model: Model::new("A100|H100"), ..wide },
        };
        assert_eq!(arrivals[0], expected);
        assert_eq!((arrivals[1].limit, arrivals[1].priority), (None, 0));
        assert_eq!(arrivals[1].request, Request { cpus: 1, ..Request::default() });
        let part = Share { milli: 250, vram: Vram::Unsaid };
        assert_eq!(arrivals[2].request, Request { gpus: 1, share: Some(part), ..Request::default() });
    }

    #[test]
    fn what_is_not_there_has_its_usual_value() {
        let workload = of("runtime,colour\n60,red\n").unwrap();
        let one = &workload.arrivals[0];
        assert_eq!((one.at, one.limit, one.priority), (Time(0), Some(Duration::from_secs(60)), 0));
        assert_eq!((one.request, workload.lines), (Request { gpus: 1, ..Request::default() }, vec![2]));
        assert_eq!(workload.notes, ["f: the column colour is not used"]);
    }

    #[test]
    fn a_limit_ends_what_runs_longer() {
        let workload = of("runtime,limit\n60,30\n60,90\n").unwrap();
        let takes: Vec<u64> = workload.arrivals.iter().map(|arrival| arrival.takes.as_secs()).collect();
        assert_eq!((takes, workload.notes.len()), (vec![30, 60], 1));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        for (text, error) in [
            ("runtime\n", "f has no jobs"),
            ("submit,gpus\n1,1\n", "f has no column runtime; it has submit, gpus"),
            ("runtime\n1\n-5\n", "f, line 3: runtime cannot be -5"),
            ("runtime\nNaN\n", "f, line 2: runtime cannot be NaN"),
            ("runtime,submit\n1,\n", "f, line 2: submit is empty"),
            ("runtime,submit\n1,5\n1,2024-10-24T15:30:00Z\n", "f, line 3: submit cannot be 2024-10-24T15:30:00Z"),
            ("runtime,gpus\n1,1.5\n", "f, line 2: gpus cannot be 1.5"),
            ("runtime,gpus\n1,129\n", "f, line 2: gpus cannot be 129"),
            ("runtime,gpus,vram\n1,0,8G\n", "f, line 2: vram cannot be 8G"),
            ("runtime,cpus\n1,0.5\n", "f, line 2: cpus cannot be 0.5"),
            ("runtime,priority\n1,high\n", "f, line 2: priority cannot be high"),
            ("runtime,limit\n1,0\n", "f, line 2: limit cannot be 0"),
        ] {
            assert_eq!(of(text).unwrap_err().error, error, "{text:?}");
        }
        assert!(of(&format!("runtime,model\n1,{}\n", "m".repeat(64))).is_err());
    }

    #[test]
    fn phillys_form_is_known_by_its_names() {
        let head = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time,priority";
        let arrivals = of(&format!("{head}\n0,4,1456000,1000,bert,886,1\n1,1,0,1000,dqn,0.5,0\n")).unwrap().arrivals;
        let takes = Duration::from_millis(1000 * 886 * 1015 / 1000);
        let request = Request { gpus: 4, ..Request::default() };
        let expected = Arrival { at: Time(1_456_000), takes, limit: Some(takes), priority: 0, request };
        assert_eq!((&arrivals[0], arrivals[1].takes), (&expected, Duration::from_micros(507_000)));
        let huge = of(&format!("{head}\n0,4,0,1000000000000,bert,999999999,0\n")).unwrap_err();
        assert_eq!(huge.error, "f, line 2: iterations cannot be 1000000000000");
    }
}
