//! Statements that are made of parts, and what they give, as texts.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use tickstone_query::{Database, Outcome, QueryError, Session};

/// A database that is asked.
pub(crate) struct Asked {
    session: Session,
    database: Database,
}

impl Asked {
    pub(crate) fn new(database: Database) -> Self {
        Self { session: database.session(), database }
    }

    /// Runs statements of whose rows none is wanted.
    pub(crate) fn done(&mut self, sql: &str) {
        let session = &mut self.session;
        let ran = self.database.runtime().block_on(async {
            for statement in session.parse(sql)? {
                if let Outcome::Rows { stream, .. } = session.run(statement).await? {
                    let _: Vec<RecordBatch> = stream.try_collect().await?;
                }
            }
            Ok::<(), QueryError>(())
        });
        ran.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }

    /// The rows of a query, each a text; in their order where the query ends with one.
    pub(crate) fn rows(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let batches = self.database.runtime().block_on(self.session.query(sql));
        let batches = batches.map_err(|error| error.to_string())?;
        let options = FormatOptions::new().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &batches {
            let columns: Vec<ArrayFormatter> =
                batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
            let shown = |row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|");
            rows.extend((0..batch.num_rows()).map(shown));
        }
        if !sql.contains(" LIMIT ") {
            rows.sort();
        }
        Ok(rows)
    }

    /// Asserts that two queries give the same; both may fail, as one may for what the other leaves out.
    pub(crate) fn same(&mut self, asked: &str, truth: &str) {
        let (found, wanted) = (self.rows(asked), self.rows(truth));
        if found.is_err() && wanted.is_err() {
            return;
        }
        assert!(found == wanted, "{asked}\n{truth}\nfound:\n{found:#?}\nwanted:\n{wanted:#?}");
    }
}
