//! Options of a job by their names: how each is written, read, and taken back to its default. One row each.

use super::{ARGV, HOLD, SET};
use nexus_core::ids::JobId;

use crate::amount::{GpuAmount, NoAmount, Vram};
use crate::jobs::{JobSpec, RetryOn, Session, SignalBefore};
use crate::results::Extract;
use crate::signals;
use crate::values::{
    duration, environment, gpu_list, gpu_list_text, limit, mebibytes, mebibytes_text, number, option_name,
};

/// What a text may say of a job beside its command.
struct Meaning {
    name: &'static str,
    /// What holds where nothing is said; shown when something is changed.
    default: &'static str,
    /// None where the default holds.
    write: fn(&JobSpec) -> Option<String>,
    /// Given no text, the default holds again.
    read: fn(&mut JobSpec, &str) -> Result<(), String>,
}

const MEANINGS: &[Meaning] = &[
    Meaning {
        name: "priority",
        default: "0",
        write: |spec| (spec.priority != 0).then(|| spec.priority.to_string()),
        read: |spec, text| put(&mut spec.priority, text, number),
    },
    Meaning {
        name: "gpus",
        default: "1",
        write: |spec| (spec.request.amount() != GpuAmount::ONE).then(|| spec.request.amount().to_string()),
        read: |spec, text| put_some(&mut spec.request.gpus, text, gpus),
    },
    Meaning {
        name: "vram",
        default: "GPUs of its own",
        write: |spec| spec.request.vram.map(vram_text),
        read: |spec, text| put_some(&mut spec.request.vram, text, vram),
    },
    Meaning {
        name: "cpus",
        default: "as many as usual",
        write: |spec| spec.request.cpus.map(|cpus| cpus.to_string()),
        read: |spec, text| put_some(&mut spec.request.cpus, text, number),
    },
    Meaning {
        name: "ram",
        default: "none kept for it",
        write: |spec| spec.request.ram_mib.map(mebibytes_text),
        read: |spec, text| put_some(&mut spec.request.ram_mib, text, ram),
    },
    Meaning {
        name: "on",
        default: "any GPU",
        write: |spec| spec.request.on.as_deref().map(gpu_list_text),
        read: |spec, text| put_some(&mut spec.request.on, text, gpu_list),
    },
    Meaning {
        name: "gpu-model",
        default: "any",
        write: |spec| spec.request.gpu_model.clone(),
        read: |spec, text| put_some(&mut spec.request.gpu_model, text, word),
    },
    Meaning {
        name: "time",
        default: "no limit",
        write: |spec| spec.request.time_seconds.map(limit),
        read: |spec, text| put_some(&mut spec.request.time_seconds, text, time),
    },
    Meaning {
        name: "signal",
        default: "none",
        write: |spec| spec.request.signal.map(signal_text),
        read: |spec, text| put_some(&mut spec.request.signal, text, signal),
    },
    Meaning {
        name: "grace",
        default: "as configured",
        write: |spec| spec.request.grace_seconds.map(limit),
        read: |spec, text| put_some(&mut spec.request.grace_seconds, text, |text| Ok(duration(text)?)),
    },
    Meaning {
        name: "retries",
        default: "0",
        write: |spec| (spec.retries != 0).then(|| spec.retries.to_string()),
        read: |spec, text| put(&mut spec.retries, text, number),
    },
    Meaning {
        name: "retry-on",
        default: "no more than usual",
        write: |spec| list_text(spec.retry_on.iter().map(|on| on.word())),
        read: |spec, text| put(&mut spec.retry_on, text, retry_on),
    },
    Meaning {
        name: "after",
        default: "no job",
        write: |spec| list_text(spec.after.iter().map(String::as_str)),
        read: |spec, text| put(&mut spec.after, text, ids),
    },
    Meaning {
        name: "after-any",
        default: "no job",
        write: |spec| list_text(spec.after_any.iter().map(String::as_str)),
        read: |spec, text| put(&mut spec.after_any, text, ids),
    },
    Meaning {
        name: "unique",
        default: "no",
        write: |spec| spec.unique.then(|| SET.to_string()),
        read: |spec, text| {
            spec.unique = is_set(text)?;
            Ok(())
        },
    },
    Meaning {
        name: "name",
        default: "none",
        write: |spec| spec.name.clone(),
        read: |spec, text| put_some(&mut spec.name, text, word),
    },
    Meaning {
        name: "project",
        default: "none",
        write: |spec| spec.project.clone(),
        read: |spec, text| put_some(&mut spec.project, text, word),
    },
    Meaning {
        name: "tags",
        default: "none",
        write: |spec| {
            let mut tags = spec.tags.clone();
            tags.sort();
            (!tags.is_empty()).then(|| tags.join(","))
        },
        read: |spec, text| put(&mut spec.tags, text, tags),
    },
    Meaning {
        name: "cwd",
        default: "as it was",
        write: |spec| Some(spec.cwd.clone()),
        read: |spec, text| {
            // There is no other folder to fall back to: without one said, it stays.
            if !text.is_empty() {
                spec.cwd = absolute(text)?;
            }
            Ok(())
        },
    },
    Meaning {
        name: "out",
        default: "none",
        write: |spec| spec.out.clone(),
        read: |spec, text| put_some(&mut spec.out, text, absolute),
    },
    Meaning {
        name: "out-dir",
        default: "none",
        write: |spec| spec.out_dir.clone(),
        read: |spec, text| put_some(&mut spec.out_dir, text, absolute),
    },
    Meaning {
        name: "results",
        default: "not copied",
        write: |spec| spec.results.clone(),
        read: |spec, text| put_some(&mut spec.results, text, absolute),
    },
    Meaning {
        name: "extract",
        default: "nothing",
        write: |spec| Extract::list_text(&spec.extract),
        read: |spec, text| put(&mut spec.extract, text, Extract::read_list),
    },
    Meaning {
        name: "no-tty",
        default: "no",
        write: |spec| (spec.tty == Some(false)).then(|| SET.to_string()),
        read: |spec, text| {
            spec.tty = if is_set(text)? { Some(false) } else { None };
            Ok(())
        },
    },
    Meaning {
        name: "screen",
        default: "no",
        write: |spec| (spec.session == Some(Session::Screen)).then(|| SET.to_string()),
        read: |spec, text| {
            spec.session = is_set(text)?.then_some(Session::Screen);
            Ok(())
        },
    },
    Meaning {
        name: "class",
        default: "default",
        write: |spec| spec.request.class.clone(),
        read: |spec, text| put_some(&mut spec.request.class, text, word),
    },
    Meaning {
        name: "machine",
        default: "any of its class",
        write: |spec| spec.request.machine.clone(),
        read: |spec, text| put_some(&mut spec.request.machine, text, word),
    },
    Meaning {
        name: "driver",
        default: "no",
        write: |spec| spec.request.driver.then(|| SET.to_string()),
        read: |spec, text| {
            spec.request.driver = is_set(text)?;
            Ok(())
        },
    },
    Meaning {
        name: "export-env",
        default: "no",
        write: |spec| spec.export_env.then(|| SET.to_string()),
        read: |spec, text| {
            spec.export_env = is_set(text)?;
            Ok(())
        },
    },
    Meaning {
        name: "force",
        default: "no",
        write: |spec| spec.request.force.then(|| SET.to_string()),
        read: |spec, text| {
            spec.request.force = is_set(text)?;
            Ok(())
        },
    },
    Meaning {
        name: "conda",
        default: "none",
        write: |spec| spec.conda.clone(),
        read: |spec, text| put_some(&mut spec.conda, text, environment),
    },
    Meaning {
        name: "venv",
        default: "none",
        write: |spec| spec.venv.clone(),
        read: |spec, text| put_some(&mut spec.venv, text, environment),
    },
    Meaning {
        name: "gpu-arg",
        default: "none",
        write: |spec| spec.gpu_arg.clone(),
        read: |spec, text| put_some(&mut spec.gpu_arg, text, option_name),
    },
    Meaning {
        name: "notify",
        default: "no",
        write: |spec| spec.notify.then(|| SET.to_string()),
        read: |spec, text| {
            spec.notify = is_set(text)?;
            Ok(())
        },
    },
    Meaning {
        name: HOLD,
        default: "no",
        write: |spec| spec.hold.then(|| SET.to_string()),
        read: |spec, text| {
            spec.hold = is_set(text)?;
            Ok(())
        },
    },
    // Of the command: it says how that is read.
    Meaning {
        name: ARGV,
        default: "no",
        write: |spec| spec.command.argv().map(|_| SET.to_string()),
        read: |_, text| is_set(text).map(drop),
    },
];

/// All that a text says of a spec: names and values, in the order they are written.
pub fn said(spec: &JobSpec) -> impl Iterator<Item = (&'static str, String)> {
    MEANINGS.iter().filter_map(|meaning| Some((meaning.name, (meaning.write)(spec)?)))
}

/// Every option there is.
pub fn names() -> impl Iterator<Item = &'static str> {
    MEANINGS.iter().map(|meaning| meaning.name)
}

fn meaning(name: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.name == name)
}

/// Gives an option a value; without text, its default.
pub fn set(spec: &mut JobSpec, name: &str, text: &str) -> Result<(), String> {
    let meaning = meaning(name).ok_or_else(|| unknown(name))?;
    (meaning.read)(spec, text)
}

/// What a spec says of an option; none for its default.
pub fn told(spec: &JobSpec, name: &str) -> Option<String> {
    (meaning(name)?.write)(spec)
}

pub fn default_of(name: &str) -> &'static str {
    meaning(name).map_or("", |meaning| meaning.default)
}

/// Whether a word without a value is an option of its own.
pub(crate) fn is_flag(name: &str) -> bool {
    matches!(name, HOLD | ARGV | "no-tty" | "screen" | "force" | "unique" | "driver" | "export-env" | "notify")
}

pub fn is_option(name: &str) -> bool {
    meaning(name).is_some()
}

pub(super) fn unknown(name: &str) -> String {
    let names: Vec<&str> = names().collect();
    let shown: String = name.chars().take(40).collect();
    format!("there is no option {shown}; there are {} and lines", names.join(", "))
}

fn put<T: Default>(place: &mut T, text: &str, read: fn(&str) -> Result<T, String>) -> Result<(), String> {
    *place = if text.is_empty() { T::default() } else { read(text)? };
    Ok(())
}

fn put_some<T>(place: &mut Option<T>, text: &str, read: fn(&str) -> Result<T, String>) -> Result<(), String> {
    *place = if text.is_empty() { None } else { Some(read(text)?) };
    Ok(())
}

fn is_set(text: &str) -> Result<bool, String> {
    match text {
        "" | "no" => Ok(false),
        SET => Ok(true),
        other => Err(format!("{other} is neither yes nor no")),
    }
}

/// None where nothing is listed.
fn list_text<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(","))
}

fn gpus(text: &str) -> Result<GpuAmount, String> {
    GpuAmount::parse(text).map_err(|want: NoAmount| format!("{text} is not {want}"))
}

fn vram_text(vram: Vram) -> String {
    match vram {
        Vram::Auto => "auto".into(),
        Vram::Mib(mib) => mebibytes_text(mib.into()),
    }
}

pub fn vram(text: &str) -> Result<Vram, String> {
    if text == "auto" {
        return Ok(Vram::Auto);
    }
    match mebibytes(text).map(u32::try_from) {
        Ok(Ok(mib @ 1..)) => Ok(Vram::Mib(mib)),
        Ok(_) => Err(format!("{text} is no memory that a GPU has")),
        Err(wrong) => Err(format!("{wrong}, or auto")),
    }
}

fn ram(text: &str) -> Result<u64, String> {
    match mebibytes(text)? {
        0 => Err(format!("{text} is no memory to run in")),
        mib => Ok(mib),
    }
}

pub fn retry_on(text: &str) -> Result<Vec<RetryOn>, String> {
    let known = |word: &str| RetryOn::ALL.iter().copied().find(|on| on.word() == word);
    let wrong = |word: &str| match word {
        "exit" | "signal" | "gpu-oom" | "host-oom" | "start-error" | "lost" => {
            format!("{word} is tried again anyway, as often as retries say")
        }
        _ => format!("{word} is no failure that can be tried again; timeout is"),
    };
    let mut list = text.split(',').map(|word| known(word).ok_or_else(|| wrong(word))).collect::<Result<Vec<_>, _>>()?;
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

fn ids(text: &str) -> Result<Vec<String>, String> {
    let mut ids: Vec<String> = Vec::new();
    for id in text.split(',') {
        id.parse::<JobId>().map_err(|_| format!("{id} is no id of a job"))?;
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_string());
        }
    }
    Ok(ids)
}

fn time(text: &str) -> Result<u64, String> {
    match duration(text)? {
        0 => Err("0s leaves no time at all".into()),
        seconds => Ok(seconds),
    }
}

fn signal_text(signal: SignalBefore) -> String {
    format!("{}@{}", signals::name(signal.signal), limit(signal.before_seconds))
}

fn signal(text: &str) -> Result<SignalBefore, String> {
    let wrong = || format!("{text} is no signal before the end, as in USR1@120s");
    let (name, before) = text.split_once('@').ok_or_else(wrong)?;
    let signal = signals::number(name).ok_or_else(wrong)?;
    Ok(SignalBefore { signal, before_seconds: duration(before)? })
}

fn word(text: &str) -> Result<String, String> {
    match text.contains(char::is_control) {
        true => Err("it has characters that cannot be shown".into()),
        false => Ok(text.to_string()),
    }
}

fn tags(text: &str) -> Result<Vec<String>, String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in text.split(',').filter(|tag| !tag.is_empty()) {
        if tag.contains(char::is_whitespace) {
            return Err(format!("{tag} is more than one word"));
        }
        tags.push(word(tag)?);
    }
    tags.sort();
    tags.dedup();
    Ok(tags)
}

fn absolute(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_string()),
        false => Err(format!("{text} is no absolute path")),
    }
}
