//! A setting: its name, its default, and how it gets into [`Config`] and out again.

use toml::Value;

use super::given::Given;
use super::{Config, GpuConfig};

pub struct Key {
    pub section: &'static str,
    pub name: &'static str,
    /// As it is written in the file.
    pub default: &'static str,
    /// What the file says beside it.
    pub about: &'static str,
    pub force: Force,
    pub access: Access,
    /// Of one that is not shown as it is: what it is, for those who compare.
    pub secret: Option<Show<Config>>,
}

/// When a change counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    AtOnce,
    AtRestart,
}

/// The error says what would be right.
pub type Set<T> = fn(&mut T, &Given) -> Result<(), String>;
pub type Show<T> = fn(&T) -> Value;

pub enum Access {
    Whole(Set<Config>, Show<Config>),
    /// Of `[gpus]`, and of `[machine.NAME.gpus]` too.
    Gpus(Set<GpuConfig>, Show<GpuConfig>),
}

/// A key that does not know yet where it belongs.
pub struct Named {
    section: &'static str,
    name: &'static str,
    default: &'static str,
    about: &'static str,
}

pub const fn key(section: &'static str, name: &'static str, default: &'static str, about: &'static str) -> Named {
    Named { section, name, default, about }
}

impl Named {
    pub const fn of_config(self, set: Set<Config>, show: Show<Config>) -> Key {
        self.with(Access::Whole(set, show))
    }

    pub const fn of_gpus(self, set: Set<GpuConfig>, show: Show<GpuConfig>) -> Key {
        self.with(Access::Gpus(set, show))
    }

    const fn with(self, access: Access) -> Key {
        let Named { section, name, default, about } = self;
        Key { section, name, default, about, force: Force::AtOnce, access, secret: None }
    }
}

impl Key {
    pub const fn at_restart(mut self) -> Key {
        self.force = Force::AtRestart;
        self
    }

    pub const fn secret(mut self, whole: Show<Config>) -> Key {
        self.secret = Some(whole);
        self
    }

    /// `jobs.grace`
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    pub fn set(&self, config: &mut Config, given: &Given) -> Result<(), String> {
        match self.access {
            Access::Whole(set, _) => set(config, given),
            Access::Gpus(set, _) => set(&mut config.usual_gpus, given),
        }
    }

    pub fn show(&self, config: &Config) -> Value {
        match self.access {
            Access::Whole(_, show) => show(config),
            Access::Gpus(_, show) => show(&config.usual_gpus),
        }
    }

    /// What tells two values apart, and is shown to nobody.
    pub fn whole(&self, config: &Config) -> Value {
        self.secret.map_or_else(|| self.show(config), |whole| whole(config))
    }

    /// The line of the file made at first use.
    pub fn template_line(&self) -> String {
        let setting = format!("# {} = {}", self.name, self.default);
        let note = match self.force {
            Force::AtOnce => "",
            Force::AtRestart => " (after nexus restart)",
        };
        format!("{setting:<33} # {}{note}", self.about)
    }
}
