//! `[gpus]`: which GPUs are used, and what on them counts as somebody else's work.

use std::time::Duration;

use nexus_core::request::GpuSet;

#[derive(Clone, Debug, PartialEq)]
pub struct GpuConfig {
    pub using: GpuUse,
    pub poll: Duration,
    /// Shares of memory and load (0 to 1) above which a GPU takes no further job that shares it.
    pub mem_threshold: f64,
    pub load_threshold: f64,
    /// Foreign processes with less memory than this do not count.
    pub ignore_below_mib: u64,
    /// Names of programs or users whose processes do not count.
    pub ignore: Vec<String>,
    /// Taken first, in this order.
    pub prefer: Vec<u16>,
    pub shares: Shares,
    pub visible: Visible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuUse {
    All,
    Only(GpuSet),
}

/// Where a job that asks for a part of a GPU goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    Auto,
    Pack,
    Spread,
}

/// What `CUDA_VISIBLE_DEVICES` is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    Index,
    Uuid,
}

impl Default for GpuConfig {
    fn default() -> GpuConfig {
        GpuConfig {
            using: GpuUse::All,
            poll: Duration::from_secs(5),
            mem_threshold: 0.8,
            load_threshold: 0.8,
            ignore_below_mib: 256,
            ignore: vec![],
            prefer: vec![],
            shares: Shares::Auto,
            visible: Visible::Index,
        }
    }
}
