//! What became of an upload, as QuestDB tells it: a table of text, or JSON.

use super::super::types;
use serde_json::{Value, json};
use std::fmt::Write;
use tickstone_model::ColumnType;

/// What became of an upload.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) table: String,
    pub(super) rows_rejected: u64,
    pub(super) rows_imported: u64,
    /// Whether the first line named the columns.
    pub(super) header: bool,
    pub(super) partition_by: String,
    pub(super) timestamp: Option<String>,
    pub(super) columns: Vec<Column>,
    /// What was wrong with the first of the rows that were not taken as they came.
    pub(super) warnings: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) column_type: ColumnType,
    /// Values that were none of its type.
    pub(super) errors: u64,
}

/// How wide the columns of the text are.
const WIDTHS: [usize; 5] = [15, 50, 15, 7, 10];

impl Report {
    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let column = |column: &Column| {
            let data_type = column.column_type.edge_type();
            json!({
                "name": column.name, "type": types::name(&data_type), "size": types::size(&data_type),
                "errors": column.errors,
            })
        };
        let columns: Vec<Value> = self.columns.iter().map(column).collect();
        let mut report = json!({
            "status": "OK",
            "location": self.table,
            "rowsRejected": self.rows_rejected,
            "rowsImported": self.rows_imported,
            "header": self.header,
            "partitionBy": self.partition_by,
            "columns": columns,
        });
        if let Some(timestamp) = &self.timestamp {
            report["timestamp"] = json!(timestamp);
        }
        if !self.warnings.is_empty() {
            report["warnings"] = json!(self.warnings);
        }
        report
    }

    /// As a table of text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let rule = format!("+{}+\r\n", "-".repeat(WIDTHS.iter().sum::<usize>() + 14));
        let [name, value, pattern, locale, errors] = WIDTHS;
        // Writing to a String does not fail.
        let mut line = |a: &str, b: &str, [c, d, e]: [&str; 3]| {
            let _ = write!(
                text,
                "|{a:>name$}  |{b:>value$}  |{c:>pattern$}  |{d:>locale$}  |{e:>errors$}  |\r\n"
            );
        };
        let handled = self.rows_imported + self.rows_rejected;
        line("Location:", &self.table, ["Pattern", "Locale", "Errors"]);
        line("Partition by", &self.partition_by, [""; 3]);
        line("Timestamp", self.timestamp.as_deref().unwrap_or("NONE"), [""; 3]);
        let head = std::mem::take(&mut text);
        let mut line = |a: &str, b: &str| {
            let c = "";
            let _ = write!(
                text,
                "|{a:>name$}  |{b:>value$}  |{c:>pattern$}  |{c:>locale$}  |{c:>errors$}  |\r\n"
            );
        };
        line("Rows handled", &handled.to_string());
        line("Rows imported", &self.rows_imported.to_string());
        let rows = std::mem::take(&mut text);
        let wide = pattern + locale + 3;
        for (place, column) in self.columns.iter().enumerate() {
            let kind = types::name(&column.column_type.edge_type());
            let (column, count) = (&column.name, column.errors);
            let _ =
                write!(text, "|{place:>name$}  |{column:>value$}  |{kind:>wide$}  |{count:>errors$}  |\r\n");
        }
        let warnings: String = self.warnings.iter().map(|warning| format!("{warning}\r\n")).collect();
        format!("{rule}{head}{rule}{rows}{rule}{text}{rule}{warnings}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_as_questdb_has_it() {
        let column = |name: &str, column_type, errors| Column { name: name.to_string(), column_type, errors };
        let report = Report {
            table: "weather.csv".to_string(),
            rows_rejected: 1,
            rows_imported: 49_975,
            header: true,
            partition_by: "NONE".to_string(),
            timestamp: None,
            columns: vec![
                column("ts", ColumnType::Timestamp, 0),
                column("visMiles", ColumnType::Float64, 12),
            ],
            warnings: vec!["line 7: it has 3 fields".to_string()],
        };
        let wanted = "\
+---------------------------------------------------------------------------------------------------------------+
|      Location:  |                                       weather.csv  |        Pattern  | Locale  |    Errors  |
|   Partition by  |                                              NONE  |                 |         |            |
|      Timestamp  |                                              NONE  |                 |         |            |
+---------------------------------------------------------------------------------------------------------------+
|   Rows handled  |                                             49976  |                 |         |            |
|  Rows imported  |                                             49975  |                 |         |            |
+---------------------------------------------------------------------------------------------------------------+
|              0  |                                                ts  |             TIMESTAMP_NS  |         0  |
|              1  |                                          visMiles  |                   DOUBLE  |        12  |
+---------------------------------------------------------------------------------------------------------------+
line 7: it has 3 fields
";
        assert_eq!(report.text(), wanted.replace('\n', "\r\n"));
        assert_eq!(
            report.json()["columns"][1],
            json!({"name": "visMiles", "type": "DOUBLE", "size": 8, "errors": 12})
        );
    }
}
