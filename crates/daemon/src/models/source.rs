//! The file of the table: read whenever somebody wants to know, so that a change counts for the next job. One that is
//! wrong changes nothing.

use std::path::Path;
use std::sync::Arc;

use nexus_api::problem::Problem;
use nexus_node::trust::Writers;

use super::table::Table;
use crate::text_file;

#[derive(Default)]
pub struct Source {
    /// The newest that was right.
    table: Option<Arc<Table>>,
    /// What is wrong with the file on disk, if it is.
    refused: Option<Problem>,
}

impl Source {
    /// A file that is wrong is an error.
    pub fn open(path: Option<&Path>) -> Result<Source, Problem> {
        let table = path.map(|path| read(path, false)).transpose()?.map(Arc::new);
        Ok(Source { table, refused: None })
    }

    /// For a start: without a table where the file is wrong, and with a line for service.log that says so. `of_anybody`:
    /// this once the file is read though strangers can write to it.
    pub fn begin(path: Option<&Path>, of_anybody: bool) -> (Source, Option<String>) {
        match path.map(|path| read(path, of_anybody)).transpose() {
            Ok(table) => (Source { table: table.map(Arc::new), refused: None }, None),
            Err(problem) => {
                let mut source = Source::default();
                let line = source.refuse(problem);
                (source, line)
            }
        }
    }

    pub fn table(&self) -> Option<Arc<Table>> {
        self.table.clone()
    }

    pub fn refused(&self) -> Option<Problem> {
        self.refused.clone()
    }

    /// Reads the file; what there is to tell in service.log.
    pub fn look(&mut self, path: Option<&Path>) -> Option<String> {
        match path.map(|path| read(path, false)).transpose() {
            Ok(table) => {
                let was_refused = self.refused.take().is_some();
                let is_new = self.table.as_deref() != table.as_ref();
                self.table = table.map(Arc::new);
                let count = self.table.as_ref()?.count();
                let path = path?.display();
                match (is_new, was_refused) {
                    (true, _) => Some(format!("Models changed: {count} in {path}")),
                    (false, true) => Some(format!("Models in {path} are those in force again")),
                    (false, false) => None,
                }
            }
            Err(problem) => self.refuse(problem),
        }
    }

    /// Tells of each problem once.
    fn refuse(&mut self, problem: Problem) -> Option<String> {
        if self.refused.as_ref() == Some(&problem) {
            return None;
        }
        let instead = match self.table {
            Some(_) => "the old ones stay in force",
            None => "none are in force",
        };
        let line = format!("Models refused: {problem}; {instead}");
        self.refused = Some(problem);
        Some(line)
    }
}

fn read(path: &Path, of_anybody: bool) -> Result<Table, Problem> {
    let shown = path.display().to_string();
    let bad = |line, error| Problem::BadModels { path: shown.clone(), line, error };
    let text = match of_anybody {
        true => text_file::read_of_anybody(path),
        false => text_file::read(path, &Writers::own()),
    };
    let text = text.map_err(|why| bad(why.line, why.error))?;
    let text = text.ok_or_else(|| bad(None, "there is no such file".into()))?;
    Table::parse(&text, &shown).map_err(|(line, error)| bad(line, error))
}
