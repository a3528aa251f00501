//! Reads the values of options: durations, counts and lists of GPUs, signals, variables.

use nexus_api::jobs::SignalBefore;

use crate::error::Usage;
use crate::signals;

/// No machine has more; the service refuses it too.
const MAX_GPUS: u16 = 128;

/// `4h`, `90s`, `1h30m`, `2d`: a unit is required.
pub fn duration(option: &str, text: &str) -> Result<u64, Usage> {
    let bad =
        || Usage::new(format!("{option} {text} is no duration"), "a number and its unit: 90s, 30m, 4h, 1h30m, 2d");
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        return Err(Usage::new(
            format!("{option} {text} has no unit"),
            format!("{text}s, {text}m, {text}h or {text}d"),
        ));
    }
    nexus_api::values::duration(text).map_err(|_| bad())
}

/// A whole number of GPUs; what looks like something else is told apart.
pub fn gpu_count(text: &str) -> Result<u16, Usage> {
    if let Ok(count) = text.parse::<u16>() {
        return match count <= MAX_GPUS {
            true => Ok(count),
            false => Err(Usage::new(format!("--gpus {text} is more than any machine has"), "--gpus 1")),
        };
    }
    if let Ok(list) = gpu_list("--gpus", text) {
        let count = list.len();
        return Err(Usage::new(
            format!("--gpus {text} is a list, and --gpus takes a number of GPUs"),
            format!("--gpus {count} --on {text}"),
        ));
    }
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part < 1.0 => Err(Usage::new(
            format!("--gpus {text}: parts of a GPU come in a later version"),
            "--gpus 1, or --gpus 0 for a job on the CPU",
        )),
        Ok(part) if part > 1.0 && part <= f64::from(MAX_GPUS) => Err(Usage::new(
            format!("--gpus {text} is not a whole number of GPUs"),
            format!("--gpus {}", part.ceil() as u16),
        )),
        _ if text.is_empty() => Err(Usage::new("--gpus needs a number", "--gpus 1, or --gpus 0 for the CPU")),
        _ => Err(Usage::new(format!("--gpus {text} is no number of GPUs"), "--gpus 1, or --gpus 0 for the CPU")),
    }
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
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("4h", 14400), ("1h30m", 5400), ("2d", 172800), ("0s", 0)] {
            assert_eq!(duration("--time", text), Ok(seconds), "{text}");
        }
        assert_eq!(hint(duration("--time", "4")), "4s, 4m, 4h or 4d");
        for bad in ["", "h", "4x", "1.5h", "-1h", "4h3", "99999999999999999999h", "999999d", "é"] {
            assert!(duration("--time", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_gpu_count_is_not_a_list_or_a_part() {
        assert_eq!(gpu_count("0"), Ok(0));
        assert_eq!(gpu_count("4"), Ok(4));
        assert!(hint(gpu_count("0,1")).contains("--on 0,1"));
        assert!(hint(gpu_count("0-3")).contains("--on 0-3"));
        assert_eq!(hint(gpu_count("1.5")), "--gpus 2");
        assert!(gpu_count("0.5").unwrap_err().error.contains("later version"));
        for bad in ["", "x", "-1", "129", "99999", "1e9", "NaN", "inf"] {
            assert!(gpu_count(bad).is_err(), "{bad}");
        }
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
