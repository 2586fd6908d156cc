//! SHOW, DESCRIBE and functions of the same names: what tables, streams and functions there are and how tables are stored,
//! `tables()`, `streams()`, `table_partitions('t')` and `table_storage('t')`, and what the database does, `queries()`,
//! `metrics()`, `config()`.

use super::config::config_batch;
use super::metrics::metrics_batch;
use super::queries::queries_batch;
use super::streams::{StreamFunction, streams_batch};
use crate::access::standing::{Object, Standing};
use crate::aside::listed;
use crate::database::Database;
use crate::ddl::{ddl, ddl_as};
use crate::designated::{is_designated, series_ordinal};
use crate::dialect::CallableKind;
use crate::error::{Result, type_name};
use crate::functions::user::Function;
use crate::functions::{DEFINED, Defined, Is};
use crate::refresher::Refreshed;
use crate::running::QueryProgress;
use crate::session::{Outcome, PinnedSnapshot, Session, stale_buckets};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::compute::{filter_record_batch, like as like_kernel};
use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue, plan_err};
use datafusion::logical_expr::{Documentation, Expr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::{ColumnType, MaterializedView, Rights, TableSchema};

/// SHOW TABLES.
pub(super) fn tables(session: &Session) -> Result<Outcome> {
    let own = |stored: &str| session.temporaries.name_of(stored).map(str::to_string);
    shown(tables_batch(&session.snapshot(), &own, session.standing().as_deref())?)
}

/// SHOW VIEWS.
pub(super) fn views(session: &Session) -> Result<Outcome> {
    shown(views_batch(&session.snapshot(), session.database(), session.standing().as_deref())?)
}

/// SHOW STREAMS.
pub(super) fn streams(session: &Session) -> Result<Outcome> {
    shown(streams_batch(session.database(), session.standing().as_deref())?)
}

/// Rows of `views()` and SHOW VIEWS.
fn views_batch(
    snapshot: &Snapshot,
    database: &Database,
    standing: Option<&Standing>,
) -> PlanResult<RecordBatch> {
    let is_view = |table: &&Arc<TableSnapshot>| {
        table.schema().view().is_some() || table.schema().materialized().is_some()
    };
    let views: Vec<&Arc<TableSnapshot>> = listed(snapshot).filter(is_view).collect();
    let each = || views.iter().map(|view| (view, view.schema().materialized()));
    let knows = |view: &TableSnapshot| standing.is_none_or(|of| of.knows_query_of(view.schema()));
    let query = |view: &TableSnapshot| match view.schema().materialized() {
        _ if !knows(view) => None,
        Some(of) => Some(of.query.clone()),
        None => view.schema().view().map(str::to_string),
    };
    let base = |view: &TableSnapshot| {
        let of = view.schema().materialized().filter(|_| knows(view))?;
        Some(of.base.clone())
    };
    let stale = |view: &TableSnapshot, of: &MaterializedView| stale_buckets(view, of);
    let kept: Vec<_> =
        each().map(|(view, of)| of.map(|_| database.refresher().shared().of(view.id()))).collect();
    // An error may quote rows that whoever asks may not read.
    let failure = |kept: &Refreshed| match &kept.failure {
        Some(_) if standing.is_some() => Some("its query fails: an admin is told why".to_string()),
        other => other.clone(),
    };
    let of_kept =
        |count: fn(&Refreshed) -> u64| counts_or_null(kept.iter().map(|kept| kept.as_ref().map(count)));
    batch(vec![
        ("view", strings(views.iter().map(|view| Some(view.schema().name())))),
        ("query", strings(views.iter().map(|view| query(view)))),
        ("base", strings(views.iter().map(|view| base(view)))),
        ("rows", counts_or_null(each().map(|(view, of)| of.map(|_| view.rows())))),
        ("stale", counts_or_null(each().map(|(view, of)| of.map(|of| stale(view, of).len() as u64)))),
        (
            "stale_from",
            instants(
                each().map(|(view, of)| Some(stale(view, of?).first()?.from).filter(|from| *from > i64::MIN)),
            ),
        ),
        ("frozen_to", instants(views.iter().map(|view| Some(view.staleness().frozen().last()?.to)))),
        ("refreshes", of_kept(|kept| kept.stretches)),
        ("refreshed_rows", of_kept(|kept| kept.rows)),
        ("refresh_ms", of_kept(|kept| u64::try_from(kept.took.as_millis()).unwrap_or(u64::MAX))),
        ("failure", strings(kept.iter().map(|kept| failure(kept.as_ref()?)))),
    ])
}

/// SHOW FUNCTIONS: those of the user's own first, then all by name.
pub(super) fn functions(session: &Session, like: Option<&str>) -> Result<Outcome> {
    let mut shown_functions: Vec<ShownFunction> =
        session.database().functions().iter().map(|function| ShownFunction::of_user(function)).collect();
    let own: HashSet<String> = shown_functions.iter().map(|function| function.name.clone()).collect();
    let state = session.state();
    let scalars = state.scalar_functions().iter().map(|(name, of)| (name, "scalar", of.documentation()));
    let aggregates =
        state.aggregate_functions().iter().map(|(name, of)| (name, "aggregate", of.documentation()));
    let windows = state.window_functions().iter().map(|(name, of)| (name, "window", of.documentation()));
    let mut built_in: Vec<ShownFunction> = scalars
        .chain(aggregates)
        .chain(windows)
        .filter(|(name, ..)| !own.contains(*name) && !name.starts_with("__"))
        .map(|(name, kind, documentation)| ShownFunction::built_in(name, kind, documentation))
        .collect();
    let known = |name: &str| session.callable(name).map(|of| of.kind);
    built_in.extend(
        DEFINED
            .iter()
            .filter(|of| of.beside || known(of.name).is_none())
            .map(|of| ShownFunction::defined(of, &known)),
    );
    built_in.dedup_by(|a, b| a.name == b.name && a.description == b.description);
    built_in.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    shown_functions.append(&mut built_in);
    let batch = functions_batch(&shown_functions)?;
    shown(match like {
        Some(pattern) => {
            let names = batch.column(0);
            filter_record_batch(&batch, &like_kernel(names, &StringArray::new_scalar(pattern))?)?
        }
        None => batch,
    })
}

/// A row of SHOW FUNCTIONS.
struct ShownFunction {
    name: String,
    kind: &'static str,
    origin: &'static str,
    arguments: Option<String>,
    returns: Option<String>,
    description: Option<String>,
}

impl ShownFunction {
    fn of_user(function: &Function) -> Self {
        let signature = function.signature();
        Self {
            name: function.name().to_string(),
            kind: function.kind().name(),
            origin: "user",
            arguments: Some(signature.parameter_names()),
            returns: Some(type_name(signature.returns())),
            description: None,
        }
    }

    fn built_in(name: &str, kind: &'static str, documentation: Option<&Documentation>) -> Self {
        let arguments = documentation.and_then(|of| of.arguments.as_ref()).map(|arguments| {
            let names: Vec<&str> = arguments.iter().map(|(name, _)| name.as_str()).collect();
            format!("({})", names.join(", "))
        });
        let description = documentation.and_then(|of| of.description.lines().next()).map(str::to_string);
        Self { name: name.to_string(), kind, origin: "built-in", arguments, returns: None, description }
    }
}

impl ShownFunction {
    fn defined(of: &Defined, known: &dyn Fn(&str) -> Option<CallableKind>) -> Self {
        const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
        let word = |name: &str| match known(name) {
            Some(CallableKind::Aggregate) => "aggregate",
            Some(CallableKind::Window) => "window",
            _ => "scalar",
        };
        let (kind, arguments, description) = match of.is {
            Is::Named(name) => (word(name), None, format!("{name} by another name")),
            Is::Of(count, expression) => {
                let mut shown = expression.to_string();
                for (number, name) in NAMES.iter().enumerate() {
                    shown = shown.replace(&format!("__{}", number + 1), name);
                }
                let calls = expression.split('(').map(|before| {
                    before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
                });
                let is_aggregate = calls.flatten().any(|name| word(name) == "aggregate");
                let kind = if is_aggregate {
                    "aggregate"
                } else {
                    word(expression.split('(').next().unwrap_or_default())
                };
                (kind, Some(format!("({})", NAMES[..count].join(", "))), shown)
            }
            Is::Filled(count, name, last) => {
                let names = NAMES[..count].join(", ");
                (word(name), Some(format!("({names})")), format!("{name}({names}, '{last}')"))
            }
        };
        Self {
            name: of.name.to_string(),
            kind,
            origin: "built-in",
            arguments,
            returns: None,
            description: Some(description),
        }
    }
}

fn functions_batch(functions: &[ShownFunction]) -> PlanResult<RecordBatch> {
    let each = || functions.iter();
    batch(vec![
        ("function", strings(each().map(|of| Some(&of.name)))),
        ("kind", strings(each().map(|of| Some(of.kind)))),
        ("origin", strings(each().map(|of| Some(of.origin)))),
        ("arguments", strings(each().map(|of| of.arguments.as_ref()))),
        ("returns", strings(each().map(|of| of.returns.as_ref()))),
        ("description", strings(each().map(|of| of.description.as_ref()))),
    ])
}

/// SHOW QUERIES.
pub(super) fn queries(session: &Session) -> Result<Outcome> {
    shown(queries_batch(session.database(), session.standing().as_deref())?)
}

/// SHOW METRICS.
pub(super) fn metrics(session: &Session) -> Result<Outcome> {
    shown(metrics_batch(session.database())?)
}

/// SHOW CONFIG.
pub(super) fn config(session: &Session) -> Result<Outcome> {
    shown(config_batch(session.database())?)
}

/// SHOW PARTITIONS FROM.
pub(super) fn partitions(session: &Session, name: &str) -> Result<Outcome> {
    shown(partitions_batch(super::table(session, name)?.as_ref())?)
}

/// SHOW CREATE TABLE, VIEW, MATERIALIZED VIEW.
pub(super) fn create(session: &Session, name: &str) -> Result<Outcome> {
    let snapshot = session.snapshot();
    let view = snapshot.table(name).filter(|found| found.schema().view().is_some());
    let found = match view {
        Some(view) => Arc::clone(view),
        None => super::table(session, name)?,
    };
    let schema = found.schema();
    let is_view = schema.view().is_some() || schema.materialized().is_some();
    if let Some(standing) = session.standing().filter(|of| is_view && !of.knows_query_of(schema)) {
        let what = format!("know what view '{}' is made of", schema.name());
        return Err(standing.denied(&what).hint("its owner may, and whoever may read all tables"));
    }
    let text = match session.temporaries.name_of(schema.name()) {
        Some(own) => ddl_as("CREATE TEMP TABLE", own, schema),
        None => ddl(schema),
    };
    shown(batch(vec![("ddl", strings([Some(text)].into_iter()))])?)
}

/// SHOW COLUMNS FROM, DESCRIBE.
pub(super) async fn columns(session: &mut Session, name: &str) -> Result<Outcome> {
    if session.snapshot().table(name).is_some_and(|found| found.schema().view().is_some()) {
        let schema = super::view::columns(session, name).await?;
        return shown(columns_of_view(&schema)?);
    }
    let table = super::table(session, name)?;
    let schema = table.schema();
    let columns = schema.columns().iter();
    let index = || 0..schema.columns().len();
    let batch = batch(vec![
        ("column", Arc::new(StringArray::from_iter_values(columns.clone().map(|c| c.name.as_str())))),
        ("type", Arc::new(StringArray::from_iter_values(columns.map(|c| c.column_type.to_string())))),
        ("designated", Arc::new(flags(index().map(|i| schema.timestamp() == Some(i))))),
        ("series", Arc::new(flags(index().map(|i| schema.series().contains(&i))))),
        ("nullable", Arc::new(flags(index().map(|i| schema.timestamp() != Some(i))))),
    ])?;
    shown(batch)
}

pub(super) fn columns_of_view(schema: &Schema) -> PlanResult<RecordBatch> {
    let fields = || schema.fields().iter();
    let type_of = |field: &FieldRef| match ColumnType::from_arrow(field.data_type()) {
        Some(column_type) => column_type.to_string(),
        None => field.data_type().to_string(),
    };
    batch(vec![
        ("column", Arc::new(StringArray::from_iter_values(fields().map(|field| field.name())))),
        ("type", Arc::new(StringArray::from_iter_values(fields().map(type_of)))),
        ("designated", Arc::new(flags(fields().map(|field| is_designated(field))))),
        ("series", Arc::new(flags(fields().map(|field| series_ordinal(field).is_some())))),
        ("nullable", Arc::new(flags(fields().map(|field| field.is_nullable())))),
    ])
}

fn flags(values: impl Iterator<Item = bool>) -> BooleanArray {
    values.map(Some).collect()
}

pub(super) fn shown(batch: RecordBatch) -> Result<Outcome> {
    let schema = batch.schema();
    let batches = futures::stream::iter([Ok(batch)]);
    let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
    Ok(Outcome::Rows { schema, stream, planning: Duration::ZERO, progress: QueryProgress::default() })
}

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> PlanResult<RecordBatch> {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect())?)
}

pub(super) fn strings<S: AsRef<str>>(values: impl Iterator<Item = Option<S>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(super) fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    counts_or_null(values.map(Some))
}

pub(super) fn counts_or_null(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Arc::new(values.map(|count| count.map(signed)).collect::<Int64Array>())
}

pub(super) fn instants(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<TimestampNanosecondArray>())
}

pub(super) fn numbers(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

/// Names of columns, separated by commas.
fn names(schema: &TableSchema, columns: &[usize]) -> String {
    let names = columns.iter().map(|index| schema.columns()[*index].name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Rows of `tables()` and SHOW TABLES; of tables that are not everybody's those that `own` has a name for.
fn tables_batch(
    snapshot: &Snapshot,
    own: &dyn Fn(&str) -> Option<String>,
    standing: Option<&Standing>,
) -> PlanResult<RecordBatch> {
    let named = |table: &Arc<TableSnapshot>| match (table.schema().is_aside(), table.schema().name()) {
        (true, name) => own(name),
        (false, name) => Some(name.to_string()),
    };
    let tables = snapshot.tables().filter(|table| table.schema().view().is_none());
    let mut tables: Vec<_> = tables.filter_map(|table| Some((named(table)?, table))).collect();
    tables.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (names_shown, tables): (Vec<String>, Vec<&Arc<TableSnapshot>>) = tables.into_iter().unzip();
    let each = || tables.iter().map(|table| table.schema());
    // Who may read some rows is not told how many there are.
    let is_whole = |table: &TableSnapshot| {
        let schema = table.schema();
        schema.is_aside() || standing.is_none_or(|standing| standing.with_all_of(schema).has(Rights::SELECT))
    };
    let counted = || tables.iter().map(|table| Some(table).filter(|table| is_whole(table)));
    let series = each().map(|schema| Some(names(schema, schema.series())).filter(|of| !of.is_empty()));
    let timestamps =
        each().map(|schema| schema.timestamp().map(|index| schema.columns()[index].name.as_str()));
    batch(vec![
        ("table", strings(names_shown.iter().map(|name| Some(name.as_str())))),
        ("timestamp", strings(timestamps)),
        ("series", strings(series)),
        ("partition_by", strings(each().map(|schema| Some(schema.partition_by().name())))),
        ("ttl", strings(each().map(|schema| schema.ttl().map(|ttl| ttl.to_string())))),
        (
            "dedup",
            strings(each().map(|schema| Some(names(schema, schema.dedup())).filter(|of| !of.is_empty()))),
        ),
        (
            "indexed",
            strings(each().map(|schema| Some(names(schema, schema.indexed())).filter(|of| !of.is_empty()))),
        ),
        ("sync", strings(each().map(|schema| Some(schema.sync().name())))),
        ("rows", counts_or_null(counted().map(|table| Some(table?.rows())))),
        ("partitions", counts_or_null(counted().map(|table| Some(table?.partitions().len() as u64)))),
    ])
}

/// Rows of `table_partitions('t')`: one a partition, in order of time.
fn partitions_batch(table: &TableSnapshot) -> PlanResult<RecordBatch> {
    let unit = table.schema().partition_by();
    let each = || table.partitions().iter();
    let bounded = |nanos: i64| (nanos != i64::MIN && nanos != i64::MAX).then_some(nanos);
    batch(vec![
        ("partition", strings(each().map(|p| Some(unit.label(p.range().from))))),
        ("from", instants(each().map(|p| bounded(p.range().from)))),
        ("to", instants(each().map(|p| bounded(p.range().to)))),
        ("rows", counts(each().map(|p| p.rows()))),
        ("first", instants(each().map(|p| p.times().map(|times| times.0)))),
        ("last", instants(each().map(|p| p.times().map(|times| times.1)))),
        ("parts", counts(each().map(|p| p.parts() as u64))),
        ("runs", counts(each().map(|p| p.runs() as u64))),
        ("disk_bytes", counts(each().map(|p| p.disk_bytes()))),
        ("memory_bytes", counts(each().map(|p| p.recent_bytes() as u64))),
    ])
}

/// The one row of `table_storage('t')`.
fn storage_batch(table: &TableSnapshot) -> PlanResult<RecordBatch> {
    let each = || table.partitions().iter();
    let one = |value: u64| counts([value].into_iter());
    let (rows, disk) = (table.rows(), each().map(|p| p.disk_bytes()).sum::<u64>());
    let symbols = table.schema().symbol_columns().filter_map(|column| table.dictionary(column));
    let unsealed: u64 = each().map(|p| p.recent_bytes() as u64).sum();
    let per_row = (rows > 0).then(|| disk as f64 / rows as f64);
    batch(vec![
        ("table", strings([Some(table.schema().name())].into_iter())),
        ("rows", one(rows)),
        ("partitions", one(table.partitions().len() as u64)),
        ("parts", one(each().map(|p| p.parts() as u64).sum())),
        ("runs", one(each().map(|p| p.runs() as u64).sum())),
        ("disk_bytes", one(disk)),
        ("memory_bytes", one(unsealed)),
        ("symbols", one(symbols.map(|dictionary| dictionary.len() as u64).sum())),
        ("disk_bytes_a_row", numbers([per_row].into_iter())),
    ])
}

/// The functions, by name.
pub(crate) fn table_functions(
    pinned: &Arc<PinnedSnapshot>,
) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let function =
        |kind| Arc::new(ShowFunction { kind, pinned: Arc::clone(pinned) }) as Arc<dyn TableFunctionImpl>;
    vec![
        ("tables", function(Kind::Tables)),
        ("views", function(Kind::Views)),
        ("streams", function(Kind::Streams)),
        ("stream", Arc::new(StreamFunction { pinned: Arc::clone(pinned) })),
        ("table_partitions", function(Kind::Partitions)),
        ("table_storage", function(Kind::Storage)),
        ("queries", function(Kind::Queries)),
        ("metrics", function(Kind::Metrics)),
        ("config", function(Kind::Config)),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Tables,
    Views,
    Streams,
    Partitions,
    Storage,
    Queries,
    Metrics,
    Config,
}

/// A table function that shows what the pinned snapshot holds, or what its database does.
#[derive(Debug)]
struct ShowFunction {
    kind: Kind,
    pinned: Arc<PinnedSnapshot>,
}

impl TableFunctionImpl for ShowFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> PlanResult<Arc<dyn TableProvider>> {
        let snapshot = self.pinned.get();
        let table = || match args.exprs() {
            [Expr::Literal(ScalarValue::Utf8(Some(name)), _)] => match snapshot.table(name) {
                Some(table) if table.schema().view().is_none() => {
                    let full = self.pinned.full();
                    let whole = full.table_by_id(table.id()).unwrap_or(table);
                    match self.pinned.standing() {
                        Some(standing) if !standing.with_all_of(whole.schema()).has(Rights::SELECT) => {
                            let on = Object::Table(whole.schema().name());
                            Err(DataFusionError::External(Box::new(
                                standing.has_only_some(Rights::SELECT, on),
                            )))
                        }
                        _ => Ok(Arc::clone(table)),
                    }
                }
                Some(_) => plan_err!("'{name}' is a view, not a table"),
                None => plan_err!("table '{name}' does not exist"),
            },
            _ => plan_err!("this function takes the name of a table in quotes"),
        };
        let standing = self.pinned.standing();
        let batch = match self.kind {
            Kind::Tables if args.exprs().is_empty() => {
                tables_batch(&snapshot, &|_| None, standing.as_deref())?
            }
            Kind::Views if args.exprs().is_empty() => {
                views_batch(&snapshot, self.pinned.database(), standing.as_deref())?
            }
            Kind::Streams if args.exprs().is_empty() => {
                streams_batch(self.pinned.database(), standing.as_deref())?
            }
            Kind::Queries if args.exprs().is_empty() => {
                queries_batch(self.pinned.database(), standing.as_deref())?
            }
            Kind::Metrics if args.exprs().is_empty() => metrics_batch(self.pinned.database())?,
            Kind::Config if args.exprs().is_empty() => config_batch(self.pinned.database())?,
            Kind::Tables | Kind::Views | Kind::Streams | Kind::Queries | Kind::Metrics | Kind::Config => {
                return plan_err!("this function takes no arguments");
            }
            Kind::Partitions => partitions_batch(table()?.as_ref())?,
            Kind::Storage => storage_batch(table()?.as_ref())?,
        };
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}
