//! Reads the values of options: durations, counts and lists of GPUs, signals, variables.

use nexus_api::amount::{GpuAmount, NoAmount, Vram};
use nexus_api::jobs::{RetryOn, SignalBefore};
use nexus_api::results::Extract;
use nexus_api::{queue_text, values};

use crate::error::Usage;
use crate::signals;

/// `4h`, `90s`, `1h30m`, `1.5h`, `2d`, `2:30:00`: a unit is required, or all of a clock.
pub fn duration(option: &str, text: &str) -> Result<u64, Usage> {
    values::duration(text).map_err(|no| Usage::new(format!("{option} {}", no.why), no.instead))
}

/// Whole GPUs or a part of one; what looks like something else is told apart.
pub fn gpus(text: &str) -> Result<GpuAmount, Usage> {
    let no = match GpuAmount::parse(text) {
        Ok(amount) => return Ok(amount),
        Err(no) => no,
    };
    if let Ok(list) = gpu_list("--gpus", text) {
        return Err(Usage::new(
            format!("--gpus {text} is a list, and --gpus takes a number of GPUs"),
            format!("--gpus {} --on {text}", list.len()),
        ));
    }
    let usual = "--gpus 1, --gpus 0.5 for a part of one, or --gpus 0 for the CPU";
    Err(match no {
        NoAmount::TooMany => Usage::new(format!("--gpus {text} is more than any machine has"), "--gpus 1"),
        NoAmount::Uneven { rounded_up } => {
            Usage::new(format!("--gpus {text} is not a whole number of GPUs"), format!("--gpus {rounded_up}"))
        }
        NoAmount::TooFine => Usage::new(
            format!("--gpus {text} is finer than a thousandth of a GPU"),
            format!("--gpus {}", &text[..text.find('.').map_or(0, |point| point + 4)]),
        ),
        NoAmount::NoNumber if text.is_empty() => Usage::new("--gpus needs a number", usual),
        NoAmount::NoNumber => Usage::new(format!("--gpus {text} is no number of GPUs"), usual),
    })
}

/// `8G`, `auto`
pub fn vram(text: &str) -> Result<Vram, Usage> {
    queue_text::vram(text).map_err(|error| Usage::new(format!("--vram: {error}"), "--vram 8G, or --vram auto"))
}

/// `loss=final loss: ([0-9.]+)`, each name once.
pub fn extract(typed: &[String]) -> Result<Vec<Extract>, Usage> {
    let bad = |error: String| Usage::new(format!("--extract: {error}"), "--extract 'loss=final loss: ([0-9.]+)'");
    let list = typed.iter().map(|text| Extract::read(text)).collect::<Result<Vec<_>, _>>().map_err(bad)?;
    for Extract { name, pattern } in &list {
        let regex = regex::Regex::new(pattern).map_err(|error| {
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            bad(format!("the pattern of {name} cannot be read: {why}"))
        })?;
        if regex.captures_len() < 2 {
            return Err(bad(format!("the pattern of {name} has no group, which is what is taken")));
        }
    }
    Extract::list_text(&list).map_or(Ok(vec![]), |text| Extract::read_list(&text)).map_err(bad)
}

/// In MiB.
pub fn ram(text: &str) -> Result<u64, Usage> {
    let bad = |error: String| Usage::new(format!("--ram: {error}"), "--ram 16G");
    match values::mebibytes(text).map_err(|no| bad(no.to_string()))? {
        0 => Err(bad(format!("{text} is no memory to run in"))),
        mib => Ok(mib),
    }
}

pub fn retry_on(text: &str) -> Result<Vec<RetryOn>, Usage> {
    queue_text::retry_on(text).map_err(|error| Usage::new(format!("--retry-on: {error}"), "--retry-on timeout"))
}

/// `0-3,5`
pub fn gpu_list(option: &str, text: &str) -> Result<Vec<u16>, Usage> {
    let bad = |_| Usage::new(format!("{option} {text} is no list of GPUs"), format!("{option} 0-3,5"));
    nexus_api::values::gpu_list(text).map_err(bad)
}

/// `--cuda`
pub fn gpu_arg(text: &str) -> Result<String, Usage> {
    nexus_api::values::option_name(text).map_err(|_| {
        let named = text.trim_start_matches('-');
        let hint = match nexus_api::values::option_name(&format!("--{named}")) {
            Ok(option) => format!("--gpu-arg={option}"),
            Err(_) => "--gpu-arg=--cuda".into(),
        };
        Usage::new(format!("--gpu-arg takes the name of an option of your program, and {text:?} is none"), hint)
    })
}

/// What `--conda` and `--venv` say; one of them at most.
pub fn environments(conda: Option<&str>, venv: Option<&str>) -> Result<(Option<String>, Option<String>), Usage> {
    let named = |option: &str, example: &str, text: &str| {
        let wrong = |_| Usage::new(format!("{option} cannot be {text:?}"), format!("{option} {example}"));
        nexus_api::values::environment(text).map_err(wrong)
    };
    if conda.is_some() && venv.is_some() {
        let error = "--conda and --venv both name an environment, and a job runs in one";
        return Err(Usage::new(error, "leave out one of them"));
    }
    Ok((
        conda.map(|text| named("--conda", "torch, or --conda ./env", text)).transpose()?,
        venv.map(|text| named("--venv", ".venv", text)).transpose()?,
    ))
}

/// `USR1@120s`
pub fn signal_before(text: &str) -> Result<SignalBefore, Usage> {
    let Some((name, before)) = text.split_once('@') else {
        return Err(Usage::new(
            format!("--signal {text} does not say how long before the end"),
            format!("--signal {text}@120s"),
        ));
    };
    let signal = signals::number(name)
        .ok_or_else(|| Usage::new(format!("--signal {text}: there is no signal {name}"), "--signal USR1@120s"))?;
    let before_seconds = duration("--signal", before)?;
    Ok(SignalBefore { signal, before_seconds })
}

/// `K=V`; names that only nexus sets are refused.
pub fn variable(option: &str, text: &str) -> Result<(String, String), Usage> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(Usage::new(format!("{option} {text} is no variable"), format!("{option} NAME=value")));
    };
    if name.contains(char::is_whitespace) || text.contains('\0') {
        return Err(Usage::new(format!("{option}: {name:?} cannot be the name of a variable"), "NAME=value"));
    }
    if nexus_api::env::is_reserved(name) {
        return Err(Usage::new(
            format!("{option}: {name} is set by nexus itself"),
            "--gpus N and --on 0-3 choose GPUs; other variables may have any name",
        ));
    }
    Ok((name.to_string(), value.to_string()))
}

/// Lines `NAME=value` of a file.
pub fn env_file(path: &str, text: &str) -> Result<Vec<(String, String)>, Usage> {
    nexus_api::env::parse_file(text)
        .map_err(|bad| Usage::new(format!("{path}, line {}: {}", bad.line, bad.error), "lines NAME=value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint<T: std::fmt::Debug>(result: Result<T, Usage>) -> String {
        result.unwrap_err().hint.unwrap()
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [
            ("90s", 90),
            ("30m", 1800),
            ("4h", 14400),
            ("1h30m", 5400),
            ("2d", 172800),
            ("0s", 0),
            ("1.5h", 5400),
            ("0.5d1.1m", 43266),
        ] {
            assert_eq!(duration("--time", text), Ok(seconds), "{text}");
        }
        assert_eq!(hint(duration("--time", "4")), "4s, 4m, 4h or 4d");
        for bad in [
            "",
            "h",
            "4x",
            "-1h",
            "4h3",
            "99999999999999999999h",
            "999999d",
            "é",
            "0.5s",
            "1.h",
            ".5h",
            "1.2.3h",
            "1.00000000000000000001h",
        ] {
            assert!(duration("--time", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_amount_of_gpus_is_not_a_list() {
        assert_eq!(gpus("0"), Ok(GpuAmount::NONE));
        assert_eq!(gpus("4"), Ok(GpuAmount::whole(4)));
        assert_eq!(gpus("0.5"), Ok(GpuAmount::part(500).unwrap()));
        assert!(hint(gpus("0,1")).contains("--on 0,1"));
        assert!(hint(gpus("0-3")).contains("--on 0-3"));
        assert_eq!(hint(gpus("1.5")), "--gpus 2");
        assert_eq!(hint(gpus("0.33333")), "--gpus 0.333");
        assert_eq!(hint(gpus(".33333")), "--gpus .333");
        for bad in ["", "x", "-1", "129", "99999", "1e9", "NaN", "inf"] {
            assert!(gpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_has_a_unit_and_failures_a_name() {
        assert_eq!(vram("8G"), Ok(Vram::Mib(8192)));
        assert_eq!(vram("auto"), Ok(Vram::Auto));
        assert_eq!(ram("1536MB"), Ok(1536));
        for bad in ["", "8", "0G", "-1G", "8X", "9999999999G", "automatic"] {
            assert!(vram(bad).is_err() && ram(bad).is_err(), "{bad}");
        }
        assert!(vram("99999999G").is_err(), "no GPU has that");
        assert_eq!(retry_on("timeout"), Ok(vec![RetryOn::Timeout]));
        assert!(retry_on("gpu-oom").unwrap_err().error.contains("anyway"));
        assert!(retry_on("never").is_err());
    }

    #[test]
    fn gpu_lists() {
        assert_eq!(gpu_list("--on", "0-3,5"), Ok(vec![0, 1, 2, 3, 5]));
        assert_eq!(gpu_list("--on", "5,0,5"), Ok(vec![0, 5]));
        for bad in ["", "a", "3-1", "0,", "-1", "0-", "128", "+1", "0-3-5"] {
            assert!(gpu_list("--on", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn signals_come_before_the_end() {
        assert_eq!(signal_before("USR1@120s"), Ok(SignalBefore { signal: 10, before_seconds: 120 }));
        assert_eq!(hint(signal_before("USR1")), "--signal USR1@120s");
        for bad in ["USR1@120", "NO@1s", "@1s", "USR1@"] {
            assert!(signal_before(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_argument_for_gpus_is_an_option() {
        for fine in ["--cuda", "-g", "--gpu_ids", "--trainer.devices"] {
            assert_eq!(gpu_arg(fine).as_deref(), Ok(fine));
        }
        assert_eq!(hint(gpu_arg("cuda")), "--gpu-arg=--cuda");
        assert_eq!(hint(gpu_arg("gpu_ids")), "--gpu-arg=--gpu_ids");
        for bad in ["", "-", "--", "--cuda=", "--cuda 0", "-1", "--a;b", "---x", "--é"] {
            assert!(gpu_arg(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn variables_and_their_files() {
        assert_eq!(variable("--env", "A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("--env", "A="), Ok(("A".into(), "".into())));
        for bad in ["A", "=b", "A B=c", "CUDA_VISIBLE_DEVICES=0", "NEXUS_PARAM_X=1"] {
            assert!(variable("--env", bad).is_err(), "{bad}");
        }
        let text = "# c\n\nA=1\nexport B=\"two words\"\nC='x'\n";
        let pairs = env_file("f", text).unwrap();
        assert_eq!(pairs, [("A", "1"), ("B", "two words"), ("C", "x")].map(|(k, v)| (k.to_string(), v.to_string())));
        assert!(env_file("f", "A=1\nnonsense\n").unwrap_err().error.contains("f, line 2"));
    }
}
