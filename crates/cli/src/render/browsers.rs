//! Browsers that were let in, and how long.

use jiff::Zoned;
use nexus_api::web::Browser;

use super::paint::Paint;
use super::table::Table;
use super::time;

pub fn browsers(browsers: &[Browser], now: &Zoned, paint: Paint) -> String {
    let column = |cell: fn(&Browser) -> String| browsers.iter().map(cell).collect::<Vec<_>>();
    let ago = |browser: &Browser| match time::seconds_since(&browser.proved_at, now) {
        Some(seconds) => format!("{} ago", time::rough(seconds)),
        None => browser.proved_at.clone(),
    };
    let ends = |browser: &Browser| match &browser.ends_at {
        Some(at) => time::clock(at, now),
        None => "with its open tab".into(),
    };
    Table::new()
        .column("ID", |paint, text| paint.id(text), column(|browser| browser.id.clone()))
        .column("BROWSER", |paint, text| paint.plain(text), column(|browser| browser.name.clone()))
        .column("LET IN", |paint, text| paint.plain(text), browsers.iter().map(|it| time::clock(&it.added_at, now)))
        .column("SEEN", |paint, text| paint.plain(text), browsers.iter().map(ago))
        .column("IN UNTIL", |paint, text| paint.plain(text), browsers.iter().map(ends))
        .render(true, paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn each_says_who_it_is_and_until_when_it_is_in() {
        let now = "2024-10-24T17:45:00+02:00[Europe/Berlin]".parse().unwrap();
        let closed = Browser {
            id: "3fa91c".into(),
            name: "Firefox on Linux".into(),
            added_at: "2024-10-24T06:00:00Z".into(),
            proved_at: "2024-10-24T14:45:00Z".into(),
            ends_at: Some("2024-10-25T02:45:00Z".into()),
            tabs: 1,
        };
        let asleep = Browser { id: "00ab12".into(), ends_at: None, ..closed.clone() };
        assert_eq!(
            browsers(&[closed, asleep], &now, PLAIN),
            "ID      BROWSER           LET IN  SEEN    IN UNTIL\n\
             3fa91c  Firefox on Linux  08:00   1h ago  2024-10-25 04:45\n\
             00ab12  Firefox on Linux  08:00   1h ago  with its open tab\n"
        );
    }
}
