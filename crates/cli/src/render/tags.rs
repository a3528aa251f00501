//! Tags, and how many jobs have each.

use nexus_api::report::Tag;

use super::paint::Paint;
use super::table::Table;

pub fn tags(tags: &[Tag], paint: Paint) -> String {
    Table::new()
        .column("TAG", |paint, text| paint.id(text), tags.iter().map(|tag| tag.tag.clone()))
        .column("LIVE", |paint, text| paint.plain(text), tags.iter().map(|tag| tag.live.to_string()))
        .column("ENDED", |paint, text| paint.plain(text), tags.iter().map(|tag| tag.ended.to_string()))
        .render(true, paint)
}
