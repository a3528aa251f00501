//! From what was typed after `add` to what is meant by it. Reads nothing but its arguments.

use std::path::{Path, PathBuf};

use nexus_api::amount::GpuAmount;
use nexus_api::command::Command;
use nexus_api::env::{Env, is_reserved};
use nexus_api::jobs::{JobRequest, JobSpec, RetryOn, Session};

use crate::error::Usage;
use crate::typed::AddArgs;
use crate::values;

/// Characters of a name, a project, a tag.
const LONGEST_NAME: usize = 200;

/// Where something was typed.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub env: Env,
    pub cwd: PathBuf,
    pub window: Option<(u16, u16)>,
    /// Path as typed and content of each `--env-file`.
    pub env_files: Vec<(String, String)>,
    /// Whether `--` stood before the command.
    pub escaped: bool,
}

pub fn resolve(args: &AddArgs, around: Surroundings) -> Result<JobSpec, Usage> {
    if args.unique && args.copies > 1 {
        let error = format!("--unique queues one job, and -x {} asks for copies of it", args.copies);
        return Err(Usage::new(error, "leave out one of them"));
    }
    let command = command(&args.command, around.escaped)?;
    let request = request(args)?;
    let cwd = match &args.cwd {
        // In the home directory of the machine that it runs on, whichever that is.
        Some(dir) if dir.starts_with("~") => dir.clone(),
        Some(dir) => absolute(dir, &around.cwd),
        None => around.cwd.clone(),
    };
    let (conda, venv) = values::environments(args.conda.as_deref(), args.venv.as_deref())?;
    let (env, env_given) = env(args, around.env, &around.env_files)?;
    let out = args.out.as_ref().map(|file| text_of("--out", absolute(file, &around.cwd))).transpose()?;
    let results = args.results.as_ref().map(|dir| text_of("--results", absolute(dir, &around.cwd))).transpose()?;
    let cwd = text_of("--cwd", cwd)?;
    Ok(JobSpec {
        env,
        env_given,
        name: args.name.as_deref().map(|name| named("--name", name)).transpose()?,
        project: args.project.as_deref().map(|name| named("--project", name)).transpose()?,
        tags: tags(&args.tag)?,
        request,
        priority: args.priority,
        retries: args.retries,
        retry_on: retry_on(args)?,
        // Ids as typed: they may be other selectors.
        after: args.after.clone(),
        after_any: args.after_any.clone(),
        unique: args.unique,
        hold: args.hold,
        notify: args.notify,
        tty: args.no_tty.then_some(false),
        window: around.window,
        out,
        session: args.screen.then_some(Session::Screen),
        conda,
        venv,
        results,
        extract: values::extract(&args.extract)?,
        gpu_arg: args.gpu_arg.as_deref().map(values::gpu_arg).transpose()?,
        export_env: args.export_env,
        ..JobSpec::new(command, cwd)
    })
}

/// One argument is a shell command; several, or any after `--`, are an exact argv.
pub fn command(words: &[String], escaped: bool) -> Result<Command, Usage> {
    match (words, escaped) {
        ([], _) => Err(Usage::new("there is no command", "nexus add \"python train.py\"")),
        ([one], false) => Ok(Command::Shell(one.clone())),
        ([one], true) if one.contains(char::is_whitespace) => Err(Usage::new(
            format!("after -- stand a program and its arguments, and there is no program called {one:?}"),
            "leave out -- for a shell command in quotes",
        )),
        (words, _) => Ok(Command::Argv(words.to_vec())),
    }
}

fn request(args: &AddArgs) -> Result<JobRequest, Usage> {
    if args.class.is_some() && args.machine.is_some() {
        return Err(Usage::new("--class and --machine both say where it runs", "leave out one of them"));
    }
    // A driver job runs here, and has all of the machine that is held for it.
    let gpus = match &args.gpus {
        None if args.driver => Some(GpuAmount::NONE),
        typed => typed.as_deref().map(values::gpus).transpose()?,
    };
    let amount = gpus.unwrap_or(GpuAmount::ONE);
    let on = allowed(&args.on)?;
    let vram = args.vram.as_deref().map(values::vram).transpose()?;
    let of_gpus = [("--on", on.is_some()), ("--vram", vram.is_some()), ("--gpu-model", args.gpu_model.is_some())];
    if let Some((option, _)) = of_gpus.into_iter().find(|(_, given)| *given && amount.is_none()) {
        return Err(Usage::new(format!("{option} is about GPUs and --gpus 0 asks for none"), "leave out one of them"));
    }
    if let Some(on) = on.as_ref().filter(|on| usize::from(amount.count()) > on.len()) {
        return Err(Usage::new(
            format!("--gpus {amount} asks for more GPUs than the {} that --on allows", on.len()),
            format!("--gpus {}", on.len()),
        ));
    }
    let time_seconds = args.time.as_deref().map(|text| values::duration("--time", text)).transpose()?;
    if time_seconds == Some(0) {
        return Err(Usage::new("--time 0s leaves no time at all", "--time 4h, or no --time for no limit"));
    }
    let signal = args.signal.as_deref().map(values::signal_before).transpose()?;
    match (signal, time_seconds) {
        (Some(_), None) => {
            return Err(Usage::new("--signal comes before a time limit, and there is none", "--time 4h"));
        }
        (Some(signal), Some(time)) if signal.before_seconds >= time => {
            return Err(Usage::new("--signal would come before the job starts", "a shorter time after @"));
        }
        _ => {}
    }
    let grace_seconds = args.grace.as_deref().map(|text| values::duration("--grace", text)).transpose()?;
    Ok(JobRequest {
        gpus,
        vram,
        cpus: args.cpus,
        ram_mib: args.ram.as_deref().map(values::ram).transpose()?,
        on,
        gpu_model: args.gpu_model.as_deref().map(|name| named("--gpu-model", name)).transpose()?,
        time_seconds,
        signal,
        grace_seconds,
        force: args.force,
        class: args.class.as_deref().map(|name| named("--class", name)).transpose()?,
        machine: args.machine.as_deref().map(|name| named("--machine", name)).transpose()?,
        driver: args.driver,
    })
}

fn retry_on(args: &AddArgs) -> Result<Vec<RetryOn>, Usage> {
    let mut failures = Vec::new();
    for list in &args.retry_on {
        failures.extend(values::retry_on(list)?);
    }
    if !failures.is_empty() && args.retries == 0 {
        return Err(Usage::new("--retry-on without --retries tries nothing again", "--retries 3"));
    }
    failures.sort_unstable();
    failures.dedup();
    Ok(failures)
}

fn allowed(lists: &[String]) -> Result<Option<Vec<u16>>, Usage> {
    let mut all = Vec::new();
    for list in lists {
        all.extend(values::gpu_list("--on", list)?);
    }
    all.sort_unstable();
    all.dedup();
    Ok((!all.is_empty()).then_some(all))
}

/// The caller's variables, then those of files, then those typed; and the names of the latter two. Pagers would wait
/// for a key for ever.
fn env(args: &AddArgs, caller: Env, files: &[(String, String)]) -> Result<(Env, Vec<String>), Usage> {
    let mut env: Env = caller.into_iter().filter(|(name, _)| !is_reserved(name)).collect();
    env.extend(["PAGER", "GIT_PAGER"].map(|name| (name.to_string(), "cat".to_string())));
    let mut given = Env::new();
    for (path, text) in files {
        given.extend(values::env_file(path, text)?);
    }
    for text in &args.env {
        given.extend([values::variable("--env", text)?]);
    }
    let names = given.keys().cloned().collect();
    env.extend(given);
    Ok((env, names))
}

fn tags(typed: &[String]) -> Result<Vec<String>, Usage> {
    let mut tags = Vec::new();
    for tag in typed {
        let tag = named("--tag", tag)?;
        if tag.contains(char::is_whitespace) || tag.contains(',') {
            return Err(Usage::new(format!("--tag {tag:?} is more than one word"), "--tag one --tag two"));
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Ok(tags)
}

fn named(option: &str, text: &str) -> Result<String, Usage> {
    let fine = !text.trim().is_empty() && !text.contains(char::is_control) && text.chars().count() <= LONGEST_NAME;
    match fine {
        true => Ok(text.to_string()),
        false => Err(Usage::new(
            format!("{option} cannot be {:?}", crate::render::text::cut(text, 40)),
            format!("one line of 1 to {LONGEST_NAME} characters"),
        )),
    }
}

fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    let joined = cwd.join(path);
    // Takes out `.`; `..` stays, since a symlink may stand before it.
    std::path::absolute(&joined).unwrap_or(joined)
}

fn text_of(option: &str, path: PathBuf) -> Result<String, Usage> {
    path.into_os_string()
        .into_string()
        .map_err(|bad| Usage::new(format!("{option}: the path {bad:?} is not valid UTF-8"), "another folder"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(args_override_self = true)]
    struct Typed {
        #[command(flatten)]
        args: AddArgs,
    }

    fn around() -> Surroundings {
        let env = [("PATH", "/bin"), ("PAGER", "less"), ("CUDA_VISIBLE_DEVICES", "7")];
        Surroundings {
            env: env.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            cwd: "/data".into(),
            window: Some((80, 24)),
            ..Surroundings::default()
        }
    }

    fn typed(words: &[&str]) -> Result<JobSpec, Usage> {
        let raw: Vec<_> = ["add"].iter().chain(words).map(std::ffi::OsString::from).collect();
        let args = Typed::try_parse_from(&raw).unwrap_or_else(|error| panic!("{error}")).args;
        let escaped = crate::typed::is_escaped(&raw, args.command.len());
        resolve(&args, Surroundings { escaped, ..around() })
    }

    fn argv(words: &[&str]) -> Command {
        Command::Argv(words.iter().map(|word| word.to_string()).collect())
    }

    #[test]
    fn one_argument_is_a_shell_command_and_more_are_an_argv() {
        assert_eq!(typed(&["a  'b' $(c)\n"]).unwrap().command, Command::Shell("a  'b' $(c)\n".into()));
        let words = ["python", "train.py", "--lr", "3", "--name", "x", "--", "-h"];
        assert_eq!(typed(&words).unwrap().command, argv(&words));
        assert_eq!(typed(&["--", "nvidia-smi"]).unwrap().command, argv(&["nvidia-smi"]));
        assert_eq!(typed(&["--name", "n", "--", "-v", "--name"]).unwrap().command, argv(&["-v", "--name"]));
        assert!(typed(&["--", "python train.py"]).unwrap_err().hint.unwrap().contains("leave out --"));
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let spec = typed(&["--gpus", "2", "prog", "--gpus", "4"]).unwrap();
        assert_eq!((spec.request.amount(), spec.command), (GpuAmount::whole(2), argv(&["prog", "--gpus", "4"])));
        assert!(Typed::try_parse_from(["add", "--gpu", "2", "prog"]).is_err(), "a mistyped option is no command");
        assert!(Typed::try_parse_from(["add"]).is_err());
    }

    #[test]
    fn defaults() {
        let spec = typed(&["true"]).unwrap();
        assert_eq!(spec.request, JobRequest::default());
        assert_eq!((spec.cwd.as_str(), spec.priority, spec.retries, spec.hold), ("/data", 0, 0, false));
        assert_eq!((spec.tty, spec.window), (None, Some((80, 24))));
    }

    #[test]
    fn the_last_value_wins_and_lists_add() {
        let spec = typed(&[
            "--priority",
            "3",
            "--priority",
            "-5",
            "--tag",
            "a",
            "--tag",
            "b",
            "--tag",
            "a",
            "--on",
            "0",
            "--on",
            "2-3",
            "--gpus",
            "1",
            "--gpus",
            "3",
            "--time",
            "1h30m",
            "--signal",
            "USR1@120s",
            "--no-tty",
            "true",
        ])
        .unwrap();
        assert_eq!((spec.priority, spec.tags), (-5, vec!["a".to_string(), "b".to_string()]));
        assert_eq!((spec.request.amount(), spec.request.on), (GpuAmount::whole(3), Some(vec![0, 2, 3])));
        assert_eq!((spec.request.time_seconds, spec.tty), (Some(5400), Some(false)));
    }

    #[test]
    fn force_is_for_paused_gpus() {
        assert!(typed(&["--force", "x"]).unwrap().request.force);
        assert_eq!(typed(&["x", "--force"]).unwrap().command, argv(&["x", "--force"]), "the command's own");
    }

    #[test]
    fn contradictions_are_told() {
        for words in [
            &["--gpus", "0", "--on", "1", "x"][..],
            &["--gpus", "3", "--on", "0,1", "x"],
            &["--signal", "USR1@120s", "x"],
            &["--signal", "USR1@2h", "--time", "1h", "x"],
            &["--time", "0s", "x"],
            &["--tag", "a b", "x"],
            &["--name", "", "x"],
            &["--conda", "a", "--venv", "b", "x"],
        ] {
            assert!(typed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_environment_is_laid_in_order() {
        let args = Typed::parse_from(["add", "--env", "B=typed", "--env", "PAGER=most", "x"]).args;
        let files = vec![("f".to_string(), "A=file\nB=file\n".to_string())];
        let spec = resolve(&args, Surroundings { env_files: files, ..around() }).unwrap();
        let shown: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["A=file", "B=typed", "GIT_PAGER=cat", "PAGER=most", "PATH=/bin"]);
        assert_eq!(spec.env_given, ["A", "B", "PAGER"]);
    }

    #[test]
    fn paths_are_made_absolute() {
        let spec = typed(&["--cwd", "./sub", "--out", "run.log", "x"]).unwrap();
        assert_eq!((spec.cwd.as_str(), spec.out.as_deref()), ("/data/sub", Some("/data/run.log")));
        assert_eq!(typed(&["--cwd", "/", "x"]).unwrap().cwd, "/");
    }
}
