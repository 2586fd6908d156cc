//! Statements that give no rows; for many rows of parameters, many of them or one append.

use super::failure::status;
use super::ingest::columns_named;
use super::service::Inner;
use super::sessions::Within;
use super::statements::Asked;
use crate::parameters::Bound;
use crate::statement::Answer;
use sqlparser::ast::{self, Expr, SetExpr, TableObject, Value};
use tickstone_model::Rights;
use tickstone_query::QueryError;
use tickstone_query::append::{AppendRequest, Appender, append};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::dialect::Statement;
use tonic::Status;

/// What a statement was, and the rows it changed, where it did that.
pub(super) type Updated = (String, Option<u64>);

impl Inner {
    /// Carries out a statement, for each row of its parameters.
    ///
    /// # Errors
    /// Those of the statement. An INSERT stores all rows or none; of other statements those before the one that fails
    /// were carried out.
    pub(super) async fn update(&self, asked: Asked) -> Result<Updated, Status> {
        let done = match &asked.parameters {
            Some(batches) if batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 1 => {
                match self.append_of(&asked, batches).await {
                    Some(append) => self.append_rows(append, &asked.within).await,
                    None => self.update_each(&asked).await,
                }
            }
            _ => self.update_each(&asked).await,
        };
        done.inspect_err(|_| asked.within.fail()).map_err(|error| status(&error))
    }

    async fn update_each(&self, asked: &Asked) -> Result<Updated, QueryError> {
        let Asked { text, statement, within, parameters } = asked;
        let several =
            parameters.as_ref().is_some_and(|all| all.iter().map(RecordBatch::num_rows).sum::<usize>() > 1);
        let together =
            several && matches!(statement, Statement::Insert(_)) && matches!(within, Within::Alone(_));
        let kind = statement.kind();
        if together {
            self.of_transaction(within, Statement::Begin { read_only: None }).await?;
        }
        let mut bound = Bound::new(statement.clone(), parameters.clone());
        let (mut tag, mut changed) = (kind.to_string(), None);
        while let Some(statement) = bound.next()? {
            match within.run(self, text, statement).await? {
                Answer::Done { tag: done, rows } => {
                    tag = done;
                    changed = rows.map_or(changed, |rows| Some(changed.unwrap_or(0) + rows));
                }
                Answer::Rows(mut rows) => {
                    while let Some(batch) = rows.next().await.transpose()? {
                        // What RETURNING gives is a row for each that was stored.
                        if kind == "INSERT" {
                            changed = Some(changed.unwrap_or(0) + batch.num_rows() as u64);
                        }
                    }
                }
            }
        }
        if together {
            // Where a statement failed the session is gone, and with it what it had inserted.
            self.of_transaction(within, Statement::Commit).await?;
        }
        Ok((tag, changed))
    }

    /// Begins or commits the transaction of a session of a statement's own.
    async fn of_transaction(&self, within: &Within, statement: Statement) -> Result<(), QueryError> {
        let text = statement.kind().into();
        within.conversation().run(&self.shared, text, statement, None).await.map(|_| ())
    }

    /// What rows of parameters are appended to, where a statement inserts just them: `INSERT INTO t (…) VALUES ($1,
    /// …)`.
    async fn append_of(&self, asked: &Asked, batches: &[RecordBatch]) -> Option<(String, Vec<RecordBatch>)> {
        let (table, columns) = plain_insert(&asked.statement)?;
        let table = asked.within.conversation().with(|session| session.stored_name(&table)).await;
        let access = asked.within.conversation().with(|session| session.access()).await;
        let there = access.table(Rights::INSERT, &table).ok()??;
        let all = || there.schema.columns().iter().map(|column| column.name.clone()).collect();
        let columns: Vec<String> = columns.unwrap_or_else(all);
        let named = batches.iter().map(|batch| columns_named(batch, &columns)).collect::<Option<Vec<_>>>()?;
        // Where they do not fit as they are, they may as values of an INSERT.
        Appender::to_table(&access, &table, &named.first()?.schema()).ok()?;
        Some((there.schema.name().to_string(), named))
    }

    async fn append_rows(
        &self,
        (table, batches): (String, Vec<RecordBatch>),
        within: &Within,
    ) -> Result<Updated, QueryError> {
        within.admit()?;
        within.conversation().access().turn(true).await?;
        let rows = match within {
            Within::Session(_) if within.in_transaction().await => {
                within
                    .conversation()
                    .blocking(&self.shared, move |session| add(session, &table, &batches))
                    .await?
            }
            _ => {
                let append = move |session: &mut tickstone_query::Session| {
                    let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(0) };
                    append(
                        &session.access(),
                        &AppendRequest::new(table),
                        &schema,
                        batches.into_iter().map(Ok),
                    )
                };
                within.conversation().blocking(&self.shared, append).await?
            }
        };
        Ok(("INSERT".to_string(), Some(rows)))
    }
}

/// Adds rows to the open transaction of a session; how many. Where some do not fit, none is added.
///
/// # Errors
/// Where they do not fit the table.
pub(super) fn add(
    session: &mut tickstone_query::Session,
    table: &str,
    batches: &[RecordBatch],
) -> Result<u64, QueryError> {
    let Some(first) = batches.first() else { return Ok(0) };
    let mut appender = Appender::to_table(&session.access(), table, &first.schema())?;
    let cast = batches.iter().map(|batch| appender.cast_owned(batch)).collect::<Result<Vec<_>, _>>()?;
    let table = appender.table();
    cast.iter().try_for_each(|batch| session.append(table, batch))?;
    Ok(cast.iter().map(|batch| batch.num_rows() as u64).sum())
}

/// The table and the columns that `INSERT INTO t (…) VALUES ($1, $2, …)` fills, where a statement is one, each
/// placeholder once and in order; no columns where it names none.
fn plain_insert(statement: &Statement) -> Option<(String, Option<Vec<String>>)> {
    let Statement::Insert(insert) = statement else { return None };
    let ast::Statement::Insert(insert) = insert.as_ref() else { return None };
    let ast::Insert { or: None, on: None, returning: None, table: TableObject::TableName(name), .. } = insert
    else {
        return None;
    };
    let source = insert.source.as_ref()?;
    let (None, SetExpr::Values(values), None) = (&source.with, source.body.as_ref(), &source.limit_clause)
    else {
        return None;
    };
    let [row] = values.rows.as_slice() else { return None };
    let in_order = row.content.iter().enumerate().all(|(place, value)| {
        matches!(value, Expr::Value(value) if matches!(&value.value,
            Value::Placeholder(name) if name.strip_prefix('$').and_then(|number| number.parse().ok()) == Some(place + 1)))
    });
    let last = |name: &ast::ObjectName| Some(name.0.last()?.as_ident()?.value.clone());
    let columns = insert.columns.iter().map(last).collect::<Option<Vec<_>>>()?;
    let fits = columns.is_empty() || columns.len() == row.content.len();
    (in_order && fits).then_some((last(name)?, (!columns.is_empty()).then_some(columns)))
}
