//! `nexus __service`: this process becomes the service. Typed by nobody; see `start.rs`.

use std::process::ExitCode;

use nexus_api::paths::Home;

#[derive(Clone, Debug, clap::Args)]
pub struct ServiceArgs {
    #[arg(long)]
    pub simulate_gpus: Option<u16>,
    #[arg(long)]
    pub adopt_home: bool,
    /// KEY=VALUE
    #[arg(long)]
    pub over: Vec<String>,
}

pub fn run(args: ServiceArgs, home: Home) -> ExitCode {
    let pair = |text: &String| text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    let options = nexus_daemon::Options {
        simulate_gpus: args.simulate_gpus,
        adopt_home: args.adopt_home,
        overrides: args.over.iter().filter_map(pair).collect(),
    };
    give_memory_back();
    nexus_daemon::run(home, options)
}

/// Has memory that is free given back to the machine. An answer about thousands of jobs takes megabytes for a moment; left
/// to itself the allocator would keep that, in as many places as there are threads. Comes before the first thread.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: i32 = 128 << 10;
        let wanted =
            [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_TRIM_THRESHOLD, LARGE_BYTES)];
        for (what, value) in wanted {
            // SAFETY: sets a number of the allocator.
            unsafe { libc::mallopt(what, value) };
        }
    }
}
