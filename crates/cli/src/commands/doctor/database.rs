//! The database: whether all of its pages agree, and how it is kept.

use std::time::Duration;

use nexus_api::paths::Home;
use nexus_api::service::Service;
use nexus_daemon::DatabaseState;

use super::{Finding, Level, found};

/// Some gigabytes are read in this time.
const CHECK_PATIENCE: Duration = Duration::from_secs(20);

const NAME: &str = "database";

pub fn check(home: &Home, service: Option<&Service>) -> Finding {
    if let Some(trouble) = service.and_then(|service| service.trouble.as_ref()) {
        let why = trouble.why.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        return found(NAME, Level::Bad, format!("{}{why}", trouble.title), trouble.hint.as_deref());
    }
    of(nexus_daemon::check_database(home, CHECK_PATIENCE), home, service)
}

fn of(state: DatabaseState, home: &Home, service: Option<&Service>) -> Finding {
    let checked = match state {
        DatabaseState::Bad(problem) => {
            let why = problem.why().map(|why| format!("; {why}")).unwrap_or_default();
            return found(NAME, Level::Bad, format!("{}{why}", problem.title()), problem.hint().as_deref());
        }
        DatabaseState::Sound => "checked, and nothing is wrong; ",
        DatabaseState::Unfinished => "not checked as a whole, since that takes too long; ",
        DatabaseState::None => "",
    };
    let expected = if home.network { "rollback" } else { "wal" };
    match service.map_or(expected, |service| service.database.as_str()) {
        "wal" => found(NAME, Level::Ok, format!("{checked}write-ahead log, on a local disk"), None),
        mode => found(
            NAME,
            Level::Warn,
            format!("{checked}{mode} mode: the home is on a network file system"),
            Some("NEXUS_HOME on a local disk is faster and safer"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::problem::Problem;

    use super::*;

    fn home() -> Home {
        let around = nexus_api::paths::Surroundings { nexus_home: Some("/h".into()), ..Default::default() };
        Home::find(&around, |_| false).unwrap()
    }

    #[test]
    fn what_is_wrong_is_told_with_what_mends_it() {
        let problem = Problem::DatabaseDamaged {
            path: "/h/nexus.db".into(),
            error: "Tree 5 page 9: btreeInitPage() returns error code 11".into(),
            backup: Some("/h/backups/20260101_000000.db".into()),
        };
        let finding = of(DatabaseState::Bad(problem.clone()), &home(), None);
        assert_eq!(finding.level, Level::Bad);
        assert!(finding.says.contains("page 9") && finding.says.contains("/h/nexus.db"), "{}", finding.says);
        assert!(finding.mend.unwrap().starts_with("nexus stop; nexus backup restore"));
        let mut service: Service =
            serde_json::from_str(include_str!("../../../../api/frozen/v1/service.json")).unwrap();
        service.trouble = Some(problem.told());
        assert_eq!(check(&home(), Some(&service)).level, Level::Bad);
    }

    #[test]
    fn a_sound_database_is_said_to_be_checked() {
        let says = |state| of(state, &home(), None).says;
        assert_eq!(says(DatabaseState::Sound), "checked, and nothing is wrong; write-ahead log, on a local disk");
        assert!(says(DatabaseState::Unfinished).starts_with("not checked as a whole"));
        assert_eq!(says(DatabaseState::None), "write-ahead log, on a local disk");
    }
}
