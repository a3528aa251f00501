//! Any bytes as `jobs.txt`: what is read and written again says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_api::queue_text::{entry, read};

const HOME: &str = "/home/ann";

fuzz_target!(|bytes: &[u8]| {
    for found in read(bytes).entries {
        let usual = JobSpec::new(Command::Shell("true".into()), HOME.into());
        let Ok(spec) = found.new_spec(usual.clone()) else { continue };
        // Such a command is refused before it is ever written.
        if spec.command.check().is_err() {
            continue;
        }
        let text = entry("abc", &spec, HOME);
        let again = read(text.as_bytes());
        assert_eq!((again.entries.len(), again.refused.len()), (1, 0), "{text:?}");
        assert_eq!(again.entries[0].new_spec(usual), Ok(spec), "{text:?}");
    }
});
