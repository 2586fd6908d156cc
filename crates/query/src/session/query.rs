//! Queries: from a syntax tree to a stream.

use super::{Outcome, Session, explained, released};
use crate::dialect::{self, Statement};
use crate::error::{ErrorKind, QueryError, Result};
use crate::frame::{Frame, FrameTable};
use crate::functions::growth::folding;
use crate::in_place::FileProvider;
use crate::operators::raised;
use crate::plans::{
    self, KeptPlans, Known, KnownText, PlanKey, Selections, Taken, lists_that_may_merge, staying,
    take_literals,
};
use crate::provider::SnapshotTable;
use crate::running::QueryProgress;
use crate::scan::{ScanExec, Selected};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as PlannerStatement;
use futures::TryStreamExt;
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::TableSnapshot;
use tickstone_model::TimeRange;

impl Session {
    pub(crate) async fn run_query(&mut self, statement: ast::Statement) -> Result<Outcome> {
        let explains = matches!(statement, ast::Statement::Explain { .. });
        let veiled = if explains { self.veiled(&statement)? } else { BTreeSet::new() };
        let begun = Instant::now();
        if !explains && let Some((plan, stream)) = self.start_kept(&statement).await? {
            self.database.plans().count(true);
            let progress = QueryProgress::of(&plan);
            return Ok(Outcome::Rows { schema: plan.schema(), stream, planning: begun.elapsed(), progress });
        }
        let (plan, stream) = self.begin(statement).await?;
        let planning = begun.elapsed();
        let (schema, progress) = (plan.schema(), QueryProgress::of(&plan));
        if !explains {
            self.database.plans().count(false);
            return Ok(Outcome::Rows { schema, stream, planning, progress });
        }
        let begun = Instant::now();
        let batches: Vec<RecordBatch> = self.heeded(&plan, stream).try_collect().await?;
        let veil = |batch| explained::veil(batch, &veiled);
        let mut batches = batches.iter().map(veil).collect::<Result<Vec<_>>>()?;
        batches.push(times_batch(&batches, planning, begun.elapsed())?);
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        Ok(Outcome::Rows { schema, stream, planning, progress })
    }

    /// The rows of a query for a statement that reads them itself, its physical plan made. They end with an error
    /// when the statement is cancelled.
    pub(crate) async fn start(
        &mut self,
        statement: ast::Statement,
    ) -> Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)> {
        let (plan, stream) = self.begin(statement).await?;
        let stream = self.heeded(&plan, stream);
        Ok((plan, stream))
    }

    /// What RETURNING asks of rows of a table that are not stored yet.
    pub(crate) async fn rows_returned(
        &mut self,
        items: Vec<ast::SelectItem>,
        table: &str,
        schema: &SchemaRef,
        rows: Vec<RecordBatch>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>, QueryProgress)> {
        // No table is named so unless somebody means it.
        const INSERTED: &str = "rows~inserted";
        let table = self.temporaries.name_of(table).unwrap_or(table);
        let query = dialect::returning_query(items, table, INSERTED)?;
        let mut statement = Statement::Query(Box::new(ast::Statement::Query(query)));
        let frames = self.pinned.add_frame(Arc::new(Frame::new(INSERTED, schema, rows, None, &[])?));
        let started = async {
            self.prepare_names(&mut statement)?;
            match statement {
                Statement::Query(query) => self.start(*query).await,
                _ => Err(QueryError::request("RETURNING gives rows of a query")),
            }
        };
        let started = started.await;
        self.pinned.set_frames(frames);
        let (plan, stream) = started?;
        Ok((plan.schema(), stream.try_collect().await?, QueryProgress::of(&plan)))
    }

    fn heeded(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        stream: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        match &self.running {
            Some(running) => running.heeded(stream, QueryProgress::of(plan)),
            None => stream,
        }
    }

    async fn begin(
        &mut self,
        statement: ast::Statement,
    ) -> Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)> {
        let (plan, wide) = self.plan(statement).await?;
        let stream = execute_stream(Arc::clone(&plan), self.states.task(wide))?;
        Ok((plan, self.released(stream)))
    }

    /// Rows as their user may have them.
    fn released(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        if self.restricted().is_some() { released::released(rows) } else { rows }
    }

    /// The rows of a query over a table whose rows change by it, and what their numbers are of: `None` where no
    /// row is read, since the condition is never true.
    pub(crate) async fn start_change(
        &mut self,
        table: Arc<TableSnapshot>,
        query: Box<ast::Query>,
    ) -> Result<(Option<Arc<Selected>>, SendableRecordBatchStream)> {
        self.renew()?;
        let guard = self.pinned.changing(table);
        let planned = self.start(ast::Statement::Query(query)).await;
        drop(guard);
        let (plan, stream) = planned?;
        Ok((numbered(&plan), stream))
    }

    /// The range of the designated timestamp whose rows a query of one table yields, all of them; `None` where it
    /// is not that.
    pub(crate) async fn times_of(&mut self, query: ast::Query) -> Result<Option<TimeRange>> {
        let (plan, _) = self.plan(ast::Statement::Query(Box::new(query))).await?;
        if plan.downcast_ref::<EmptyExec>().is_some() {
            return Ok(Some(TimeRange::new(0, 0)));
        }
        let Some(scan) = ScanExec::of(&plan) else { return Ok(None) };
        let selection = &scan.selected().selection;
        Ok(Some(selection.time).filter(|_| selection.series.is_empty() && selection.bounds.is_empty()))
    }

    /// The rows of a query that came before with other literals, its kept plan bound to these and to the
    /// snapshot; `None` where none is kept and it must be planned.
    async fn start_kept(
        &mut self,
        statement: &ast::Statement,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)>> {
        // What the user may read of it was checked, and stands in the statement.
        let (snapshot, user) = (self.full_snapshot(), self.restricted());
        let key_with = |staying: &BTreeSet<usize>| {
            let mut statement = statement.clone();
            let taken = take_literals(&mut statement, staying);
            let (catalog_version, settings) = (snapshot.catalog_version(), self.states.settings);
            let functions = self.states.functions.version;
            (PlanKey { statement, user, catalog_version, settings, functions }, taken)
        };
        let (mut key, Taken { literals, computes_tables }) = key_with(&BTreeSet::new());
        let database = self.database.clone();
        let mut known = database.plans().look_up(&key);
        if let Some(Known::With(staying)) = &known {
            key = key_with(staying).0;
            // That it came before is known, if not with which literals.
            known = database.plans().look_up(&key).or(Some(Known::Once));
        }
        let kept = match known {
            None | Some(Known::Never | Known::With(_)) => return Ok(None),
            Some(Known::Kept(kept)) => kept,
            Some(Known::Once) => Arc::default(),
        };
        let Some(narrow) = self.template(&key, &kept, (false, computes_tables)).await else {
            return Ok(None);
        };
        let mut selections = Selections::default();
        let Some(mut scans) = plans::select(&narrow, &snapshot, &literals, &mut selections)? else {
            return Ok(None);
        };
        let rows: u64 = scans.iter().map(|scan| scan.selected().rows).sum();
        let wide = rows >= self.database.options().wide_rows_min;
        let mut template = narrow;
        if wide {
            let Some(plan) = self.template(&key, &kept, (true, computes_tables)).await else {
                return Ok(None);
            };
            let Some(bound) = plans::select(&plan, &snapshot, &literals, &mut selections)? else {
                return Ok(None);
            };
            (template, scans) = (plan, bound);
        }
        if let Some(text) = self.whole.take() {
            let (catalog_version, settings) = (key.catalog_version, key.settings);
            let functions = key.functions;
            let known = KnownText { catalog_version, settings, functions, kept, literals };
            database.plans().note_text((user, text), known);
        }
        self.begin_bound(&template, scans, wide).map(Some)
    }

    /// What is known of a text, where tables, settings and functions are what they were then.
    pub(crate) fn known_text(&self, text: &Arc<str>) -> Option<Arc<KnownText>> {
        if !self.temporaries.is_empty() {
            // It may name one of the session's own tables.
            return None;
        }
        let known = self.database.plans().text(&(self.restricted(), Arc::clone(text)))?;
        let same = known.catalog_version == self.full_snapshot().catalog_version()
            && known.settings == self.states.settings
            && known.functions == self.states.functions.version;
        same.then_some(known)
    }

    /// The number of the session's user, where they may not do everything.
    fn restricted(&self) -> Option<u32> {
        self.standing().map(|standing| standing.user)
    }

    /// The rows of a query by the plan that was kept for its text; `None` where that does not fit any longer.
    pub(crate) fn start_known(
        &mut self,
        known: &KnownText,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)>> {
        let Some(narrow) = known.kept.narrow.get() else { return Ok(None) };
        let snapshot = self.full_snapshot();
        let mut selections = Selections::default();
        let select = |plan: &Arc<dyn ExecutionPlan>, selections: &mut Selections| {
            plans::select(plan, &snapshot, &known.literals, selections)
        };
        let Some(scans) = select(narrow, &mut selections)? else { return Ok(None) };
        let rows: u64 = scans.iter().map(|scan| scan.selected().rows).sum();
        if rows < self.database.options().wide_rows_min {
            return self.begin_bound(narrow, scans, false).map(Some);
        }
        let Some(wide) = known.kept.wide.get() else { return Ok(None) };
        let Some(scans) = select(wide, &mut selections)? else { return Ok(None) };
        self.begin_bound(wide, scans, true).map(Some)
    }

    /// A template over scans, begun.
    fn begin_bound(
        &self,
        template: &Arc<dyn ExecutionPlan>,
        scans: Vec<Arc<ScanExec>>,
        wide: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)> {
        let plan = plans::bind(template, &mut scans.into_iter())?;
        let stream = execute_stream(Arc::clone(&plan), self.states.task(wide))?;
        Ok((plan, self.released(stream)))
    }

    /// The template of a statement, made where it is not there yet; `None` where none can be kept.
    async fn template(
        &mut self,
        key: &PlanKey,
        kept: &Arc<KeptPlans>,
        (wide, computes_tables): (bool, bool),
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let slot = if wide { &kept.wide } else { &kept.narrow };
        if let Some(template) = slot.get() {
            return Some(Arc::clone(template));
        }
        if wide && kept.narrow.get().is_some_and(plans::is_narrow) {
            return None;
        }
        let guard = self.pinned.templates();
        let made = self.make_template(key.statement.clone(), wide, computes_tables).await;
        drop(guard);
        // A statement that is wrong is planned again as it was written, which says where.
        let (known, made) = match made {
            Ok(Made::Template(template)) => (Known::Kept(Arc::clone(kept)), Some(template)),
            Ok(Made::With(staying)) => (Known::With(Arc::new(staying)), None),
            Ok(Made::Nothing) | Err(_) => (Known::Never, None),
        };
        self.database.plans().note(key, known);
        made.map(|template| Arc::clone(slot.get_or_init(|| template)))
    }

    async fn make_template(
        &self,
        statement: ast::Statement,
        wide: bool,
        computes_tables: bool,
    ) -> Result<Made> {
        let state = if wide { &self.states.wide } else { &self.states.narrow };
        let planned = logical(state, statement).await?;
        if !plans::is_timeless(&planned.written)? {
            return Ok(Made::Nothing);
        }
        let mut staying = staying(&planned.optimized)?;
        staying.extend(lists_that_may_merge(&planned.written)?);
        if !staying.is_empty() {
            return Ok(Made::With(staying));
        }
        let plan =
            state.query_planner().create_physical_plan(&planned.optimized, state).await.map_err(of_outer)?;
        let kept = plans::can_be_kept(&plan, wide) && !(computes_tables && plans::has_series(&plan));
        Ok(if kept { Made::Template(plan) } else { Made::Nothing })
    }

    /// The plan of a query as it was written, its meanings mended and nothing made quicker, and its columns.
    pub(crate) async fn analyzed(&self, statement: ast::Statement) -> Result<(LogicalPlan, SchemaRef)> {
        let state = &self.states.narrow;
        let planned = logical(state, statement).await?;
        let plan = state.analyzer().execute_and_check(planned.written, state.config_options(), |_, _| {})?;
        Ok((plan, Arc::clone(planned.optimized.schema().inner())))
    }

    /// The rows of a query whose names are resolved, of the newest state.
    pub(crate) async fn rows_now(&mut self, query: Box<ast::Query>) -> Result<SendableRecordBatchStream> {
        self.renew()?;
        self.states.know(self.database.user_functions())?;
        self.states.begin();
        let statement = ast::Statement::Query(query);
        if let Some((_, stream)) = self.start_kept(&statement).await? {
            return Ok(stream);
        }
        Ok(self.start(statement).await?.1)
    }

    /// The rows of a query whose names are not resolved, of the newest state, and that state's position.
    pub(crate) async fn rows_as_of(
        &mut self,
        query: Box<ast::Query>,
    ) -> Result<(u64, SendableRecordBatchStream)> {
        self.renew()?;
        self.states.know(self.database.user_functions())?;
        self.states.begin();
        let mut statement = Statement::Query(Box::new(ast::Statement::Query(query)));
        self.prepare(&mut statement).await?;
        let position = self.snapshot().position();
        let Statement::Query(statement) = statement else { return Err(not_a_query()) };
        Ok((position, self.start(*statement).await?.1))
    }

    /// The columns that a query yields.
    pub(crate) async fn schema_of(&mut self, statement: ast::Statement) -> Result<SchemaRef> {
        Ok(self.plan(statement).await?.0.schema())
    }

    /// The same, without a physical plan.
    pub(crate) async fn columns_of(&mut self, statement: ast::Statement) -> Result<SchemaRef> {
        let planned = logical(&self.states.narrow, statement).await?;
        Ok(Arc::clone(planned.optimized.schema().inner()))
    }

    /// The physical plan of a query, and whether it is one for the wide state.
    async fn plan(&mut self, statement: ast::Statement) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
        let state = &self.states.narrow;
        let optimized = logical(state, statement).await?.optimized;
        let wide = rows_read(&optimized)? >= self.database.options().wide_rows_min;
        let state = if wide { &self.states.wide } else { state };
        let plan = state.query_planner().create_physical_plan(&optimized, state).await.map_err(of_outer)?;
        Ok((plan, wide))
    }
}

fn not_a_query() -> QueryError {
    QueryError::new(ErrorKind::Report, "a query became another statement")
}

/// What became of a statement that was to be kept.
enum Made {
    Template(Arc<dyn ExecutionPlan>),
    /// It may be kept with these literals in it (by place, from 0).
    With(BTreeSet<usize>),
    Nothing,
}

/// The plan of a query, whose columns have different names.
struct Planned {
    /// As the query says it.
    written: LogicalPlan,
    optimized: LogicalPlan,
}

async fn logical(state: &SessionState, statement: ast::Statement) -> Result<Planned> {
    let again = dialect::has_casts_or_uuids(&statement).then(|| statement.clone());
    match (planned(state, statement).await, again) {
        (Err(error), Some(mut again)) => {
            // Planning has one name for two expressions that differ by a cast.
            let changed = if is_named_alike(&error) {
                dialect::name_casts(&mut again);
                true
            } else {
                dialect::cast_uuids(&mut again)
            };
            if !changed {
                return Err(error.into());
            }
            Ok(planned(state, again).await.map_err(|_| error)?)
        }
        (planned, _) => Ok(planned?),
    }
}

async fn planned(state: &SessionState, statement: ast::Statement) -> datafusion::common::Result<Planned> {
    let written = state.statement_to_plan(PlannerStatement::Statement(Box::new(statement))).await?;
    read_only().verify_plan(&written)?;
    let written = with_unique_names(written)?;
    let guarded = raised(&written)?;
    let optimized = folding(|| state.optimize(guarded.as_ref().unwrap_or(&written))).map_err(of_outer)?;
    Ok(Planned { written, optimized })
}

/// An error of planning, after all columns that are written were found: one that is missing then is of the query around a
/// sub-query that has no join.
fn of_outer(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::SchemaError(missing, _)
            if matches!(**missing, SchemaError::FieldNotFound { .. }) =>
        {
            DataFusionError::NotImplemented(format!("undecorrelated Subquery: {missing}"))
        }
        _ => error,
    }
}

fn is_named_alike(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::DuplicateUnqualifiedField { .. } | SchemaError::DuplicateQualifiedField { .. }
        ),
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        _ => false,
    }
}

/// The same rows, columns of one name told apart: two tables that are joined may both have a `ts`.
fn with_unique_names(plan: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let names: Vec<&str> = plan.schema().fields().iter().map(|field| field.name().as_str()).collect();
    let unique = dialect::unique_names(&names, false);
    if unique.iter().zip(&names).all(|(unique, name)| unique == name) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(unique).map(|(column, name)| {
        let is_same = column.name == name;
        let column = Expr::Column(column);
        if is_same { column } else { column.alias(name) }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// What the scan reads that numbers its rows.
fn numbered(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Selected>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let numbers = scan.selected().table.schema().columns().len();
        return scan.projection().contains(&numbers).then(|| Arc::clone(scan.selected()));
    }
    plan.children().into_iter().find_map(numbered)
}

fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// Rows that the scans of a plan yield together.
fn rows_read(plan: &LogicalPlan) -> Result<u64> {
    let mut rows = 0;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.source.downcast_ref::<DefaultTableSource>()
        {
            if let Some(table) = source.table_provider.downcast_ref::<SnapshotTable>() {
                rows += table.rows_selected(&scan.filters)?;
            } else if let Some(frame) = source.table_provider.downcast_ref::<FrameTable>() {
                rows += frame.rows();
            } else if let Some(files) = source.table_provider.downcast_ref::<FileProvider>() {
                rows += files.0.rows();
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

/// The last rows of EXPLAIN: how long planning took, and running what it explains.
fn times_batch(batches: &[RecordBatch], planning: Duration, running: Duration) -> Result<RecordBatch> {
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["planning time", "execution time"])),
        Arc::new(StringArray::from(vec![millis(planning), millis(running)])),
    ];
    let schema = batches
        .first()
        .map(RecordBatch::schema)
        .unwrap_or_else(datafusion::logical_expr::LogicalPlan::explain_schema);
    Ok(RecordBatch::try_new(schema, columns)?)
}
