//! The doctor's findings, one line each, and how to mend them.

use serde::Serialize;

use super::paint::Paint;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    Warn,
    Bad,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub level: Level,
    pub says: String,
    /// What to do about it.
    pub mend: Option<String>,
}

pub fn doctor(findings: &[Finding], paint: Paint) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let level = match finding.level {
            Level::Ok => paint.good("ok  "),
            Level::Warn => paint.state("warn"),
            Level::Bad => paint.error("bad "),
        };
        text.push_str(&format!("{level}  {:width$}  {}\n", finding.name, finding.says));
        if let Some(mend) = &finding.mend {
            text.push_str(&format!("      {:width$}  {mend}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    #[test]
    fn findings_and_how_to_mend_them() {
        let found = |name, level, mend: Option<&str>| Finding {
            name,
            level,
            says: "what is".into(),
            mend: mend.map(String::from),
        };
        let findings = [found("service", Level::Warn, Some("nexus start")), found("bash", Level::Ok, None)];
        assert_eq!(
            doctor(&findings, PLAIN),
            "\
warn  service  what is
               nexus start
ok    bash     what is
"
        );
    }
}
