//! GPUs named after a verb: `0`, `0,2-3`, `box:1`, several words. Jobs among them are sent to their own verb.

use nexus_api::service::OnGpus;

use crate::error::CliError;
use crate::misplaced;
use crate::values;

/// Machine of GPUs that are named without one.
const HERE: &str = "local";

/// The GPUs, machine by machine in the order named.
pub fn read(verb: &'static str, words: &[String]) -> Result<Vec<OnGpus>, CliError> {
    let mut named: Vec<OnGpus> = Vec::new();
    for word in words {
        let (machine, list) = match word.split_once(':') {
            Some((machine, list)) if !machine.is_empty() => (machine, list),
            _ => (HERE, word.as_str()),
        };
        if !list.starts_with(|c: char| c.is_ascii_digit()) {
            misplaced::refuse(verb, std::slice::from_ref(word))?;
        }
        let gpus = values::gpu_list(&format!("nexus {verb}"), list).map_err(|usage| usage.of(verb))?;
        match named.iter_mut().find(|on| on.machine == machine) {
            Some(on) => on.gpus.extend(gpus),
            None => named.push(OnGpus { machine: machine.into(), gpus }),
        }
    }
    for on in &mut named {
        on.gpus.sort_unstable();
        on.gpus.dedup();
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Result<Vec<(String, Vec<u16>)>, CliError> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        Ok(read("pause", &words)?.into_iter().map(|on| (on.machine, on.gpus)).collect())
    }

    #[test]
    fn gpus_are_read_in_every_form() {
        let on = |machine: &str, gpus: &[u16]| (machine.to_string(), gpus.to_vec());
        assert_eq!(typed(&[]).unwrap(), []);
        assert_eq!(typed(&["0"]).unwrap(), [on("local", &[0])]);
        assert_eq!(typed(&["0,2-3", "local:1", "2"]).unwrap(), [on("local", &[0, 1, 2, 3])]);
        assert_eq!(typed(&["box:1", "0"]).unwrap(), [on("box", &[1]), on("local", &[0])]);
    }

    #[test]
    fn what_is_no_gpu_is_told() {
        let job = typed(&["0", "abc"]).unwrap_err();
        assert!(job.told().hint.unwrap().contains("nexus hold abc"));
        for bad in ["0,", "3-1", "128", "1.5", "tag:x", "0-", "", "local:", "last"] {
            assert_eq!(typed(&[bad]).unwrap_err().exit_code(), 2, "{bad}");
        }
    }
}
