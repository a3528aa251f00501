//! Any text as `config.toml`: it is read, or what is wrong is told by line; what it says can be set key by key in a fresh
//! file, and then says the same; a key that is set and unset leaves a file that can be read.

use std::path::Path;

use nexus_api::config::typed;
use nexus_api::paths::{Home, Surroundings};
use nexus_daemon::config::{Config, Overrides, Settings, read, set, template, unset, view};

const HOME: &str = "/home/ann";

pub fn hold(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let user_home = Some(Path::new(HOME));
    match read(text, user_home) {
        Ok(settings) => {
            let lines = text.split('\n').count() as u64;
            assert!(settings.lines.values().all(|line| (1..=lines).contains(line)), "{:?}", settings.lines);
            is_said_again(&settings);
        }
        Err(fault) => assert!(!fault.error.is_empty(), "{fault:?}"),
    }
    for (key, value) in
        [("jobs.grace", "3s"), ("gpus.use", "0-2"), ("machine.a b.gpus.use", "0"), ("jobs.shell", "a\"\nb")]
    {
        if let Ok(changed) = set(text, key, value, user_home) {
            read(&changed, user_home).unwrap_or_else(|fault| panic!("{fault:?} in {changed:?}"));
            let back = match unset(&changed, key, user_home) {
                Ok(back) => back,
                // What stands in a table on one line, as it was to be set, is left to an editor.
                Err(error) if error.to_string().contains("only an editor can change") => continue,
                Err(error) => panic!("{error} in {changed:?}"),
            };
            read(&back, user_home).unwrap_or_else(|fault| panic!("{fault:?} in {back:?}"));
        }
    }
}

fn is_said_again(settings: &Settings) {
    let config = &settings.config;
    if *config == Config::default() {
        return;
    }
    let around = Surroundings { home: Some(HOME.into()), ..Surroundings::default() };
    let home = Home::find(&around, |_| false).expect("there is a home");
    let user_home = Some(Path::new(HOME));
    let mut text = template();
    for key in view(&home, config, settings, &Overrides::default(), None).keys {
        if key.value == key.default || key.key.starts_with("rule.") || key.key.starts_with("machine.") {
            continue;
        }
        let value = typed(&key.value);
        text = set(&text, &key.key, &value, user_home).unwrap_or_else(|error| panic!("{} {value:?}: {error}", key.key));
    }
    let same = read(&text, user_home).unwrap_or_else(|fault| panic!("{fault:?} in {text:?}")).config;
    let plain = |config: &Config| {
        let mut plain = config.clone();
        (plain.rules, plain.machines, plain.gpus) = (vec![], Default::default(), Default::default());
        plain
    };
    assert_eq!(plain(&same), plain(config));
}
