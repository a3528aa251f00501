//! Variables by name. Their values are not known here.

use jiff::Zoned;
use nexus_api::variables::Variable;

use super::paint::Paint;
use super::table::Table;
use super::time;

pub fn variables(variables: &[Variable], now: &Zoned, heads: bool, paint: Paint) -> String {
    let needed = |variable: &Variable| match (variable.is_set, variable.jobs) {
        (true, 1) => "1 job needs it".to_string(),
        (true, jobs) => format!("{jobs} jobs need it"),
        (false, 1) => "unset; kept for 1 job".to_string(),
        (false, jobs) => format!("unset; kept for {jobs} jobs"),
    };
    let set_at = |variable: &Variable| time::clock(&variable.set_at, now);
    Table::new()
        .column("NAME", |paint, text| paint.id(text), variables.iter().map(|variable| variable.name.clone()))
        .column("SET", |paint, text| paint.time(text), variables.iter().map(set_at))
        .column("JOBS", |paint, text| paint.plain(text), variables.iter().map(needed))
        .render(heads, paint)
}
