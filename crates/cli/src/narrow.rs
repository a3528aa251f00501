//! Options that narrow a listing down.

use nexus_api::jobs::JobQuery;

#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct NarrowArgs {
    /// Only jobs of this project
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// Only jobs with this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Only jobs of this sweep
    #[arg(long, value_name = "SWEEP")]
    pub sweep: Option<String>,
    /// Only jobs with this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

impl NarrowArgs {
    pub fn is_none(&self) -> bool {
        *self == NarrowArgs::default()
    }

    /// The query, narrowed.
    pub fn of(self, query: JobQuery) -> JobQuery {
        let NarrowArgs { project, tag, sweep, name } = self;
        JobQuery { project, tag, sweep, name, ..query }
    }
}
