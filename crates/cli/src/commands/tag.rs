//! `nexus tag`: words that jobs are found by.

use nexus_api::report::TagJobs;

use crate::app::App;
use crate::chosen;
use crate::error::{CliError, Refused, Usage};
use crate::process::ExitCode;
use crate::render::{self, outcome};

/// Show tags, give one to jobs, or take it off
///
/// Jobs that have ended may be tagged too. All of the jobs get the tag, or none.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nexus tag
  nexus tag night abc last:3
  nexus tag -d night tag:night")]
pub struct TagArgs {
    /// The tag; without one all are listed
    #[arg(value_name = "NAME")]
    pub tag: Option<String>,
    /// Jobs (nexus help selectors)
    #[arg(value_name = "SEL")]
    pub selectors: Vec<String>,
    /// Takes the tag off
    #[arg(short, long)]
    pub delete: bool,
    /// Prints the tags, or the jobs, as JSON
    #[arg(long)]
    pub json: bool,
}

pub async fn run(args: TagArgs, app: &App) -> Result<ExitCode, CliError> {
    let usage = |usage: Usage| usage.of("tag");
    let Some(tag) = args.tag else {
        if args.delete {
            return Err(usage(Usage::new("-d needs a tag and jobs", "nexus tag -d night abc")));
        }
        return list(args.json, app).await;
    };
    if args.selectors.is_empty() {
        let hint = format!("nexus tag {tag} abc, or nexus ls tag:{tag} to see who has it");
        return Err(usage(Usage::new("which jobs?", hint)));
    }
    let client = app.started().await?;
    let mut jobs = chosen::choose(&client, &args.selectors, chosen::ANY).await?;
    if args.delete {
        jobs.retain(|job| job.tags.contains(&tag));
        if jobs.is_empty() {
            let error = format!("none of these jobs has the tag {tag}");
            return Err(Refused { error, why: None, hint: Some("nexus tag".into()) }.into());
        }
    }
    let ids = jobs.into_iter().map(|job| job.id).collect();
    let jobs = client.tag(&tag, &TagJobs { ids, take_off: args.delete }).await?;
    if args.json {
        app.ui.json(&jobs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = if args.delete { format!("took {tag} off") } else { format!("tagged {tag}") };
    let lines: String = jobs.iter().map(|job| outcome::done(&what, job, app.ui.paint()) + "\n").collect();
    app.ui.data(&lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(json: bool, app: &App) -> Result<ExitCode, CliError> {
    let tags = app.reader().tags().await?;
    if json {
        app.ui.json(&tags)?;
    } else if tags.is_empty() {
        app.ui.say("no job has a tag: nexus tag night abc gives one");
    } else {
        app.ui.data(&render::tags::tags(&tags, app.ui.paint()))?;
    }
    Ok(ExitCode::SUCCESS)
}
