//! What `nexus start` said over the file: in force until the next start, and written nowhere.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;

use super::change::{NotChanged, meant, plain_key};
use super::given::Given;
use super::key::{Access, Force};
use super::{Config, keys};

/// By the full names of keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides(BTreeMap<String, Value>);

impl Overrides {
    /// One more, in place of what was said of this key before. It must be one that counts at once.
    pub fn set(&mut self, name: &str, typed: &str, user_home: Option<&Path>) -> Result<(), NotChanged> {
        let key = plain_key(name)?;
        if key.force != Force::AtOnce {
            return Err(NotChanged::NoKey(format!("{name} cannot be changed for a while alone")));
        }
        let value = meant(key, typed, user_home).map_err(|want| NotChanged::BadValue {
            key: name.into(),
            typed: typed.into(),
            want,
        })?;
        self.0.insert(key.full_name(), value);
        Ok(())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Puts them over a configuration; over what the file says of this very machine too.
    pub fn over(&self, config: &mut Config) {
        for (name, value) in &self.0 {
            let key = keys::all().find(|key| key.full_name() == *name).expect("it was looked up when it was said");
            let given = Given { value, user_home: None };
            let set = key.set(config, &given).and_then(|()| match (&key.access, config.machines.get_mut("local")) {
                (Access::Gpus(set, _), Some(local)) => set(local, &given),
                _ => Ok(()),
            });
            set.expect("it was read when it was said");
        }
        config.gpus = config.gpus_of("local").clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{GpuUse, read};

    #[test]
    fn they_go_over_the_file_and_over_what_it_says_of_this_machine() {
        let text = "[gpus]\nuse = \"0-3\"\nmem_threshold = 0.5\n[machine.local.gpus]\nuse = \"2\"\n\
                    [machine.box.gpus]\nmem_threshold = 0.6\n";
        let mut config = read(text, None).unwrap().config;
        let mut overrides = Overrides::default();
        for (name, typed) in [("gpus.use", "0-1"), ("jobs.start_attempts", "9"), ("gpus.use", "0")] {
            overrides.set(name, typed, None).unwrap();
        }
        overrides.over(&mut config);
        assert_eq!(config.gpus.using, GpuUse::Only([0].into_iter().collect()));
        assert_eq!((config.gpus.mem_threshold, config.policy.start_attempts), (0.5, 9));
        assert_eq!(config.gpus_of("box").mem_threshold, 0.6);
        assert!(overrides.has("gpus.use") && !overrides.has("gpus.mem_threshold"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut overrides = Overrides::default();
        for (name, typed) in [
            ("gpus.sue", "0"),
            ("gpus.use", "x"),
            ("machine.box.gpus.use", "0"),
            ("paths.log_dir", "/x"),
            ("models.file", "relative"),
            ("gpus.mem_threshold", "1.5"),
        ] {
            overrides.set(name, typed, None).expect_err(name);
        }
        assert_eq!(overrides, Overrides::default());
    }
}
