//! Points of a file: a csv with names in its first line, or JSON, as rows or as columns. Values stay as they are written.

mod csv;
mod json;

use super::Table;
use super::bad::BadPlan;

impl Table {
    /// By RFC 4180; blanks around fields without quotes do not count, nor do empty lines.
    pub fn from_csv(text: &str) -> Result<Table, BadPlan> {
        csv::read(text).and_then(checked)
    }

    /// A list of objects, or an object of lists.
    pub fn from_json(text: &str) -> Result<Table, BadPlan> {
        json::read(text).and_then(checked)
    }
}

fn checked(table: Table) -> Result<Table, BadPlan> {
    check(&table).map(|()| table)
}

/// What a table from elsewhere may get wrong.
pub fn check(table: &Table) -> Result<(), BadPlan> {
    if table.rows.is_empty() {
        return Err(bad("the table has no rows", "a line for each point, below the names"));
    }
    for (place, row) in table.rows.iter().enumerate() {
        if row.len() != table.names.len() {
            let error =
                format!("row {} has {} values, and there are {} names", place + 1, row.len(), table.names.len());
            return Err(bad(error, "a value of each name in every row"));
        }
        if row.iter().any(|value| value.contains('\0')) {
            return Err(bad(format!("row {} has a NUL byte", place + 1), "values without it"));
        }
    }
    Ok(())
}

fn bad(error: impl Into<String>, hint: impl Into<String>) -> BadPlan {
    BadPlan::Table { error: error.into(), hint: hint.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: Result<Table, BadPlan>) -> String {
        let table = table.unwrap_or_else(|bad| panic!("{bad}"));
        let rows = table.rows.iter().map(|row| row.join("|"));
        std::iter::once(table.names.join("|")).chain(rows).collect::<Vec<_>>().join(" / ")
    }

    #[test]
    fn csv_has_names_then_values() {
        for (text, expected) in [
            ("lr,seed\n0.10,1\n1e-4,2\n", "lr|seed / 0.10|1 / 1e-4|2"),
            ("lr , seed\r\n\r\n 0.1 , \" 1\"", "lr|seed / 0.1| 1"),
            ("\u{feff}a\n\"x, \"\"y\"\"\nz\"\n", "a / x, \"y\"\nz"),
            ("a,b\n,\"\"\n", "a|b / |"),
            ("\"a\"\n1\n\n2\n", "a / 1 / 2"),
        ] {
            assert_eq!(shown(Table::from_csv(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn json_is_rows_or_columns_and_numbers_keep_their_text() {
        for (text, expected) in [
            (r#"[{"lr": 0.10, "opt": "a\"b"}, {"opt": true, "lr": 1e-4}]"#, "lr|opt / 0.10|a\"b / 1e-4|true"),
            (r#"{"z": [1.0, 2], "a": ["x", "y"]}"#, "z|a / 1.0|x / 2|y"),
            ("[{\"n\": 12345678901234567890123}]", "n / 12345678901234567890123"),
        ] {
            assert_eq!(shown(Table::from_json(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_table_is_told() {
        for (table, error) in [
            (Table::from_csv(""), "no line with names"),
            (Table::from_csv("a,b\n"), "no rows"),
            (Table::from_csv("a,b\n1,2\n3\n"), "line 3 has 1 value"),
            (Table::from_csv("a\n\"1\n2\n"), "line 2: a quote is not closed"),
            (Table::from_csv("a\n\"1\"2\n"), "line 2: text follows a quote"),
            (Table::from_csv("a,b\n1\"2,3\n"), "line 2: a quote stands inside"),
            (Table::from_json(""), "cannot be read as JSON"),
            (Table::from_json("3"), "neither"),
            (Table::from_json("[]"), "no rows"),
            (Table::from_json("{}"), "no rows"),
            (Table::from_json("[1]"), "row 1 is no object"),
            (Table::from_json("[{\"a\":1},{}]"), "row 2 has no a"),
            (Table::from_json("[{\"a\":1},{\"a\":1,\"b\":2}]"), "row 2 has b"),
            (Table::from_json("[{\"a\":1,\"a\":2}]"), "row 1 has a twice"),
            (Table::from_json("[{\"a\":null}]"), "a of row 1 is null"),
            (Table::from_json("[{\"a\":[1]}]"), "a of row 1 is [1]"),
            (Table::from_json("{\"a\":[1,2],\"b\":[1]}"), "a has 2 values, b has 1"),
            (Table::from_json("{\"a\":1}"), "a is no list"),
            (Table::from_json("[{\"a\":\"x\\u0000\"}]"), "NUL"),
        ] {
            let told = table.expect_err(error).error();
            assert!(told.contains(error), "{told} / {error}");
        }
    }
}
