//! Tables in memory and a session with the operators, for the tests of this crate's planner parts.

use crate::designated::{SERIES_KEY, TIMESTAMP_KEY, TIMESTAMP_VALUE};
use crate::dialect::{Statement, parse, resolve_names};
use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext, col};
use std::collections::HashMap;
use std::sync::Arc;

/// One row of a test's table: ts, symbol, x, y.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) ts: i64,
    pub(crate) symbol: Option<&'static str>,
    pub(crate) x: Option<f64>,
    pub(crate) y: Option<f64>,
}

/// A row without NULLs.
pub(crate) fn row(ts: i64, symbol: &'static str, x: f64, y: f64) -> Row {
    Row { ts, symbol: Some(symbol), x: Some(x), y: Some(y) }
}

pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) fn schema() -> SchemaRef {
    let marked = |field: Field, key: &str, value: &str| {
        field.with_metadata(HashMap::from([(key.to_string(), value.to_string())]))
    };
    let symbol = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        marked(
            Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
            TIMESTAMP_KEY,
            TIMESTAMP_VALUE,
        ),
        marked(Field::new("symbol", symbol, true), SERIES_KEY, "0"),
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float64, true),
    ]))
}

/// A batch whose symbols have a dictionary of their own, or the one of all symbols.
pub(crate) fn batch(rows: &[Row], own_dictionary: bool) -> RecordBatch {
    let mut names: Vec<&str> = if own_dictionary { Vec::new() } else { vec!["A", "B", "C", "D", "E"] };
    let keys: UInt32Array = rows
        .iter()
        .map(|row| {
            let name = row.symbol?;
            let at = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            u32::try_from(at).ok()
        })
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.ts))),
        Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(names)))),
        Arc::new(rows.iter().map(|row| row.x).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.y).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns of the schema")
}

/// A session with the operators.
pub(crate) struct TestSession {
    pub(crate) context: SessionContext,
}

impl TestSession {
    /// With tiny batches, so that everything crosses their edges.
    pub(crate) fn new() -> Self {
        Self::with_batch_size(7)
    }

    pub(crate) fn with_batch_size(batch_rows: usize) -> Self {
        // Tables in memory keep their partitions, so that rows of equal time keep their order.
        let config = SessionConfig::new().with_target_partitions(3).with_batch_size(batch_rows);
        let config = config.with_repartition_file_scans(false);
        let builder = SessionStateBuilder::new().with_default_features().with_config(config);
        let context = SessionContext::new_with_state(crate::operators::install(builder).build());
        Self { context }
    }

    /// Adds a table of these rows; `cut` says how many rows make a batch, and how many partitions.
    pub(crate) fn table(self, name: &str, rows: &[Row], cut: (usize, usize)) -> Self {
        let mut partitions = vec![Vec::new(); cut.1.max(1)];
        for (index, chunk) in rows.chunks(cut.0.max(1)).enumerate() {
            let count = partitions.len();
            partitions[index % count].push(batch(chunk, index % 3 == 2));
        }
        let table = MemTable::try_new(schema(), partitions).expect("batches of the schema");
        let sorted = rows.is_sorted_by_key(|row| row.ts) && cut.1 <= 1;
        let table =
            if sorted { table.with_sort_order(vec![vec![col("ts").sort(true, false)]]) } else { table };
        self.context.register_table(name, Arc::new(table)).expect("a new table");
        self
    }

    fn statement(&self, sql: &str) -> Statement {
        let mut statement = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).remove(0);
        let tables =
            self.context.catalog("datafusion").and_then(|c| c.schema("public")).expect("the default schema");
        let names = tables.table_names();
        let tables = &|wanted: &str| {
            let name = names.iter().find(|name| name.eq_ignore_ascii_case(wanted))?;
            let columns = schema().fields().iter().map(|f| f.name().clone()).collect();
            Some((name.clone(), columns))
        };
        resolve_names(&mut statement, tables, &|_| None).unwrap_or_else(|e| panic!("{sql}: {e}"));
        statement
    }

    async fn frame(&self, sql: &str) -> Result<DataFrame> {
        let Statement::Query(statement) = self.statement(sql) else { panic!("{sql} is no query") };
        let state = self.context.state();
        let statement = datafusion::sql::parser::Statement::Statement(statement);
        let plan = state.statement_to_plan(statement).await?;
        self.context.execute_logical_plan(plan).await
    }

    /// The rows of a query, values as text, NULL as an empty string.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.try_rows(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    pub(crate) fn try_rows(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let batches = runtime().block_on(async { self.frame(sql).await?.collect().await })?;
        let options = FormatOptions::default();
        let mut rows = Vec::new();
        for batch in &batches {
            let columns = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            rows.extend(
                (0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()),
            );
        }
        Ok(rows)
    }

    /// One line a row, values separated by a space, NULL as `-`.
    pub(crate) fn text(&self, sql: &str) -> String {
        let cell = |value: String| match value.is_empty() {
            true => "-".to_string(),
            false => value.strip_prefix("1970-01-01T").map(String::from).unwrap_or(value),
        };
        let lines =
            self.rows(sql).into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn check(&self, sql: &str, expected: &[&str]) {
        assert_eq!(self.text(sql), expected.join("\n"), "{sql}\n{}", self.plan(sql));
    }

    /// Checks that a query is refused with a message that holds `part`.
    pub(crate) fn check_error(&self, sql: &str, part: &str) {
        match self.try_rows(sql) {
            Ok(rows) => panic!("{sql} gave {rows:?}"),
            Err(error) => assert!(error.to_string().contains(part), "{sql}: {error}"),
        }
    }

    /// Milliseconds that a planned query takes to run.
    pub(crate) fn execute_ms(&self, sql: &str) -> f64 {
        runtime().block_on(async {
            let frame = self.frame(sql).await.expect("a valid query");
            let plan = frame.create_physical_plan().await.expect("a valid query");
            let start = std::time::Instant::now();
            datafusion::physical_plan::collect(plan, self.context.task_ctx()).await.expect("it runs");
            start.elapsed().as_secs_f64() * 1_000.0
        })
    }

    /// The physical plan as EXPLAIN shows it.
    pub(crate) fn plan(&self, sql: &str) -> String {
        runtime().block_on(async {
            match self.frame(sql).await {
                Ok(frame) => match frame.create_physical_plan().await {
                    Ok(plan) => displayable(plan.as_ref()).indent(false).to_string(),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            }
        })
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}
