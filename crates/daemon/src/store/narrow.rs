//! Jobs of a project, a tag, a sweep, a name.

use super::read::JobRow;

/// All that is said must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrow {
    pub project: Option<String>,
    pub tag: Option<String>,
    pub sweep: Option<String>,
    pub name: Option<String>,
    /// In the id, the name, the command, the project or a tag, in any case of letters.
    pub contains: Option<String>,
}

impl Narrow {
    pub fn fits(&self, row: &JobRow) -> bool {
        let same = |asked: &Option<String>, has: &Option<String>| asked.is_none() || asked == has;
        same(&self.project, &row.spec.project)
            && same(&self.name, &row.spec.name)
            && same(&self.sweep, &row.spec.sweep)
            && self.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
            && self.contains.as_ref().is_none_or(|text| {
                let texts = [Some(&row.id), row.spec.name.as_ref(), Some(&row.command), row.spec.project.as_ref()];
                texts.into_iter().flatten().chain(&row.tags).any(|has| lower(has).contains(&lower(text)))
            })
    }

    /// As a condition on rows of `jobs`, behind others; empty where nothing is said.
    pub(super) fn sql(&self) -> String {
        let Narrow { project, tag, sweep, name, contains } = self;
        let conditions = [
            project.as_ref().map(|project| format!("AND jobs.project = {}", literal(project))),
            name.as_ref().map(|name| format!("AND jobs.name = {}", literal(name))),
            tag.as_ref().map(|tag| format!("AND jobs.n IN (SELECT n FROM tags WHERE tag = {})", literal(tag))),
            sweep.as_ref().map(|sweep| {
                format!("AND jobs.sweep = (SELECT sweeps.n FROM sweeps WHERE sweeps.name = {})", literal(sweep))
            }),
            contains.as_ref().map(|text| {
                let like = format!("LIKE {} ESCAPE '!'", literal(&format!("%{}%", escaped(text))));
                let tagged = format!("jobs.n IN (SELECT n FROM tags WHERE tag {like})");
                let own = ["id", "name", "command", "project"].map(|column| format!("jobs.{column} {like}"));
                format!("AND ({} OR {tagged})", own.join(" OR "))
            }),
        ];
        conditions.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// As the database compares: the letters of English alone.
fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// What stands for others in a pattern stands for itself.
fn escaped(text: &str) -> String {
    text.replace('!', "!!").replace('%', "!%").replace('_', "!_")
}

/// A text as SQL has it. A NUL, which no name has, would end it early.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_where_they_end() {
        assert_eq!(Narrow::default().sql(), "");
        let narrow = Narrow { name: Some("it's' OR 1 --".into()), ..Narrow::default() };
        assert_eq!(narrow.sql(), "AND jobs.name = 'it''s'' OR 1 --'");
        let narrow = Narrow { contains: Some("50%_!'".into()), ..Narrow::default() };
        assert!(narrow.sql().starts_with("AND (jobs.id LIKE '%50!%!_!!''%' ESCAPE '!' OR"), "{}", narrow.sql());
    }
}
