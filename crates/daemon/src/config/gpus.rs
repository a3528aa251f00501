//! `[gpus]`: which GPUs are used, and what on them counts as somebody else's work.

use std::time::Duration;

use nexus_api::values::gpu_list_text;
use nexus_core::machine::Shares;
use nexus_core::request::{GpuSet, MAX_GPUS};
use toml::Value;

use super::given::Given;
use super::given::shown::{duration, indices, size, text, word, words};
use super::key::{Key, key};

#[derive(Clone, Debug, PartialEq)]
pub struct GpuConfig {
    pub using: GpuUse,
    pub poll: Duration,
    /// How long GPUs may stay free until another user, whose turn it is, has as many as a job of theirs needs.
    pub gather: Duration,
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
            gather: Duration::from_secs(60),
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

const SHARES: &[(&str, Shares)] = &[("auto", Shares::Auto), ("pack", Shares::Pack), ("spread", Shares::Spread)];
const VISIBLE: &[(&str, Visible)] = &[("index", Visible::Index), ("uuid", Visible::Uuid)];

/// The longest that GPUs are left without a look.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

pub const KEYS: &[Key] = &[
    key("gpus", "use", "\"all\"", "or the numbers of those to use: \"0-2\"")
        .of_gpus(|gpus, given| using(given).map(|it| gpus.using = it), |gpus| shown_use(gpus.using)),
    key("gpus", "poll", "\"5s\"", "between two looks at the GPUs")
        .of_gpus(|gpus, given| poll(given).map(|it| gpus.poll = it), |gpus| duration(gpus.poll)),
    key("gpus", "gather", "\"1m\"", "GPUs are kept free so long for another user's job that needs several")
        .of_gpus(|gpus, given| gather(given).map(|it| gpus.gather = it), |gpus| duration(gpus.gather)),
    key("gpus", "mem_threshold", "0.8", "part of its memory in use over which a GPU is shared no further").of_gpus(
        |gpus, given| given.fraction().map(|it| gpus.mem_threshold = it),
        |gpus| Value::Float(gpus.mem_threshold),
    ),
    key("gpus", "load_threshold", "0.8", "the same for its load").of_gpus(
        |gpus, given| given.fraction().map(|it| gpus.load_threshold = it),
        |gpus| Value::Float(gpus.load_threshold),
    ),
    key("gpus", "ignore_below", "\"256MB\"", "others' processes with less memory do not count").of_gpus(
        |gpus, given| given.size().map(|it| gpus.ignore_below_mib = it >> 20),
        |gpus| size(gpus.ignore_below_mib << 20),
    ),
    key("gpus", "ignore", "[]", "programs and users that do not count: [\"Xorg\", \"alice\"]")
        .of_gpus(|gpus, given| given.words().map(|it| gpus.ignore = it), |gpus| words(&gpus.ignore)),
    key("gpus", "prefer", "[]", "GPUs to take first: [2, 3]")
        .of_gpus(|gpus, given| prefer(given).map(|it| gpus.prefer = it), |gpus| indices(&gpus.prefer)),
    key("gpus", "shares", "\"auto\"", "where parts of GPUs go: \"auto\", \"pack\", \"spread\"")
        .of_gpus(|gpus, given| given.one_of(SHARES).map(|it| gpus.shares = it), |gpus| word(SHARES, gpus.shares)),
    key("gpus", "visible", "\"index\"", "what CUDA_VISIBLE_DEVICES holds: \"index\" or \"uuid\"")
        .of_gpus(|gpus, given| given.one_of(VISIBLE).map(|it| gpus.visible = it), |gpus| word(VISIBLE, gpus.visible)),
];

fn using(given: &Given) -> Result<GpuUse, String> {
    match given.value.as_str() {
        Some("all") => Ok(GpuUse::All),
        _ => match given.gpu_list() {
            Ok(list) if !list.is_empty() => Ok(GpuUse::Only(list.into_iter().collect())),
            _ => Err(format!("\"all\", or GPU numbers under {MAX_GPUS}: \"0-2,5\"")),
        },
    }
}

fn shown_use(using: GpuUse) -> Value {
    match using {
        GpuUse::All => text("all"),
        GpuUse::Only(set) => text(&gpu_list_text(&set.iter().collect::<Vec<_>>())),
    }
}

fn poll(given: &Given) -> Result<Duration, String> {
    let want = "a duration in quotes from \"1s\" to \"1h\"";
    given.duration().ok().filter(|it| (Duration::from_secs(1)..=LONGEST_POLL).contains(it)).ok_or_else(|| want.into())
}

fn gather(given: &Given) -> Result<Duration, String> {
    let want = "a duration in quotes up to \"1h\"; \"0s\" keeps none";
    given.duration().ok().filter(|it| *it <= LONGEST_POLL).ok_or_else(|| want.into())
}

/// Each once; the first time counts.
fn prefer(given: &Given) -> Result<Vec<u16>, String> {
    let mut seen = GpuSet::EMPTY;
    let mut list = given.gpu_list()?;
    list.retain(|index| {
        let is_new = !seen.contains(*index);
        seen.insert(*index);
        is_new
    });
    Ok(list)
}
