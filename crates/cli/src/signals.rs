//! Names of signals, as everybody here knows them.

pub use nexus_api::signals::{described, name, number};
