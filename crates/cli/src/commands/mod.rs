//! One verb, one file: its arguments, whose docs are the manual, and what it does.

pub mod add;
pub mod cancel;
pub mod demo;
pub mod doctor;
pub mod edit;
pub mod first;
pub mod forget;
pub mod help;
pub mod history;
pub mod hold;
pub mod kill;
pub mod logs;
pub mod ls;
pub mod pause;
pub mod queue;
pub mod release;
pub mod remove;
pub mod rerun;
pub mod restart;
pub mod resume;
pub mod service;
pub mod show;
pub mod start;
pub mod status;
pub mod stop;
pub mod wait;
