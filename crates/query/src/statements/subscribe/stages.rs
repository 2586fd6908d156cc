//! What a subscription makes of rows: filters and projections of one table, as expressions over a batch.

use crate::database::Database;
use crate::dialect::own_of_rightful;
use crate::error::{QueryError, Result, from_arrow};
use crate::operators::hushed;
use crate::provider::SnapshotTable;
use crate::scan::symbols_by_id;
use crate::session::{Session, released_batch};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{filter, filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Schema, SchemaRef, UInt32Type};
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::{Dictionary, Segment, TableSnapshot};
use tickstone_model::TableSchema;

/// The rows of one table, through filters and projections.
#[derive(Debug)]
pub(super) struct Stages {
    table: Arc<TableSnapshot>,
    /// The table's columns as queries see them.
    edge: SchemaRef,
    /// The same, where those that are not read may be NULL.
    nullable: SchemaRef,
    /// The columns that are read.
    needed: Vec<bool>,
    stages: Vec<Stage>,
    /// How many of them are of a grant or a view: their errors are told without values.
    guarded: usize,
    output: SchemaRef,
    symbols: Option<(u32, Vec<String>)>,
    /// Whether its user may not read all: dictionaries have the symbols of the rows at hand alone.
    releases: bool,
}

#[derive(Debug)]
enum Stage {
    Filter(Arc<dyn PhysicalExpr>),
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

/// Rows that came through, and which of those that were given they are.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) rows: RecordBatch,
    pub(super) numbers: UInt32Array,
}

/// Why a query can be none of a subscription.
pub(super) fn refused(what: &str) -> QueryError {
    let message = format!("a subscription cannot have {what}");
    QueryError::request(message)
        .hint("it is of one table: SELECT … FROM t [WHERE …], or with SAMPLE BY at its end")
}

impl Stages {
    /// Those of an analyzed plan.
    ///
    /// # Errors
    /// Where it is anything but filters and projections of one table.
    pub(super) fn of(plan: &LogicalPlan, session: &Session, database: &Database) -> Result<Self> {
        let (mut stages, mut guarded) = (Vec::new(), 0);
        let table = collect(plan, session.state(), &mut stages, &mut guarded)?;
        let edge = database.marked_schema(&table);
        let mut needed = vec![false; edge.fields().len()];
        let mut symbols = None;
        plan.apply(|node| {
            if !node.inputs().first().is_some_and(|input| has_its_columns(input)) {
                return Ok(TreeNodeRecursion::Continue);
            }
            if let LogicalPlan::Filter(filter) = node {
                symbols = symbols.take().or_else(|| picked_symbols(&filter.predicate, table.schema()));
            }
            for column in node.expressions().iter().flat_map(Expr::column_refs) {
                if let Ok(index) = edge.index_of(&column.name) {
                    needed[index] = true;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if stages.iter().all(|stage| matches!(stage, Stage::Filter(_))) {
            needed.fill(true);
        }
        let output = stages.iter().rev().find_map(|stage| match stage {
            Stage::Project(_, schema) => Some(Arc::clone(schema)),
            Stage::Filter(_) => None,
        });
        let output = output.unwrap_or_else(|| Arc::clone(&edge));
        let fields = edge.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let nullable = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let releases = session.standing().is_some();
        Ok(Self { table, edge, nullable, needed, stages, guarded, output, symbols, releases })
    }

    /// The table, without its rows.
    pub(super) fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Has the columns read that tell series apart, too.
    pub(super) fn read_series(&mut self) {
        let table = Arc::clone(&self.table);
        table.schema().series().iter().for_each(|column| self.needed[*column] = true);
    }

    /// The columns that come out.
    pub(super) fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// The symbols of a column, by its id, that every row must have one of.
    pub(super) fn symbols(&self) -> Option<&(u32, Vec<String>)> {
        self.symbols.as_ref()
    }

    /// The places in `schema` of the table's columns: `None` for one that is not read.
    ///
    /// # Errors
    /// Where a column that is read is not there any more.
    pub(super) fn places(&self, schema: &TableSchema) -> Result<Vec<Option<usize>>> {
        let own = self.table.schema();
        let place = |(index, needed): (usize, &bool)| {
            if !needed {
                return Ok(None);
            }
            let place = schema.column_of_id(own.column_id(index));
            place.map(Some).ok_or_else(|| {
                let message =
                    format!("column '{}' of '{}' was dropped", own.columns()[index].name, own.name());
                QueryError::request(message).hint("subscribe anew to the columns that are left")
            })
        };
        self.needed.iter().enumerate().map(place).collect()
    }

    /// What comes through of rows in stored types; `columns` are the table's, `None` for those that are not read.
    pub(super) fn pass<'a>(
        &self,
        columns: Vec<Option<ArrayRef>>,
        rows: usize,
        dictionary: impl Fn(usize) -> Option<&'a Arc<Dictionary>>,
    ) -> Result<Passed> {
        let mut edge = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            let data_type = self.edge.field(index).data_type();
            edge.push(match column {
                None => new_null_array(data_type, rows),
                Some(ids) => match dictionary(index) {
                    Some(dictionary) => symbols_by_id(ids.as_primitive::<UInt32Type>(), dictionary.values())?,
                    None => ids,
                },
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.nullable);
        let batch = RecordBatch::try_new_with_options(schema, edge, &options).map_err(from_arrow)?;
        let count = u32::try_from(rows).map_err(|_| QueryError::request("too many rows at once"))?;
        self.run(batch, UInt32Array::from_iter_values(0..count))
    }

    fn run(&self, mut batch: RecordBatch, mut numbers: UInt32Array) -> Result<Passed> {
        for (place, stage) in self.stages.iter().enumerate() {
            let told = |error| if place < self.guarded { hushed(error) } else { error };
            match stage {
                Stage::Filter(predicate) => {
                    let rows = batch.num_rows();
                    let mask =
                        predicate.evaluate(&batch).and_then(|mask| mask.into_array(rows)).map_err(told)?;
                    let mask: &BooleanArray = mask.as_boolean();
                    let mask = if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() };
                    if mask.true_count() < batch.num_rows() {
                        batch = filter_record_batch(&batch, &mask).map_err(from_arrow)?;
                        numbers = filter(&numbers, &mask).map_err(from_arrow)?.as_primitive().clone();
                    }
                    if batch.num_rows() == 0 {
                        break;
                    }
                    if self.releases {
                        batch = released_batch(&batch).map_err(from_arrow)?;
                    }
                }
                Stage::Project(exprs, schema) => {
                    let rows = batch.num_rows();
                    let columns = exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(rows));
                    let columns = columns.collect::<datafusion::common::Result<Vec<_>>>().map_err(told)?;
                    let options = RecordBatchOptions::new().with_row_count(Some(rows));
                    batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
                        .map_err(from_arrow)?;
                }
            }
        }
        if batch.num_rows() == 0 {
            batch = RecordBatch::new_empty(Arc::clone(&self.output));
        } else if self.releases {
            batch = released_batch(&batch).map_err(from_arrow)?;
        }
        Ok(Passed { rows: batch, numbers })
    }
}

/// The stages of a plan, from the table up, and how many of them are of a grant or a view; its table.
fn collect(
    plan: &LogicalPlan,
    state: &SessionState,
    stages: &mut Vec<Stage>,
    guarded: &mut usize,
) -> Result<Arc<TableSnapshot>> {
    let physical = |expr: &Expr, schema: &DFSchemaRef| -> Result<Arc<dyn PhysicalExpr>> {
        let mut nested = false;
        expr.apply(|part| {
            nested |= matches!(part, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if nested {
            return Err(refused("a sub-query in an expression"));
        }
        // now() is the moment it begins.
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(schema))
            .with_config_options(Arc::clone(state.config_options()))
            .with_query_execution_start_time(state.execution_props().query_execution_start_time)
            .build();
        let expr = ExprSimplifier::new(context).simplify(expr.clone())?;
        Ok(state.create_physical_expr(expr, schema)?)
    };
    match plan {
        LogicalPlan::Projection(projection) => {
            let found = collect(&projection.input, state, stages, guarded)?;
            let schema = projection.input.schema();
            let exprs =
                projection.expr.iter().map(|expr| physical(expr, schema)).collect::<Result<Vec<_>>>()?;
            let fields = projection.schema.fields().iter();
            let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
            let output =
                Schema::new_with_metadata(fields.collect::<Vec<_>>(), projection.schema.metadata().clone());
            stages.push(Stage::Project(exprs, Arc::new(output)));
            Ok(found)
        }
        LogicalPlan::Filter(filter) => {
            let found = collect(&filter.input, state, stages, guarded)?;
            stages.push(Stage::Filter(physical(&filter.predicate, filter.input.schema())?));
            Ok(found)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let found = collect(&alias.input, state, stages, guarded)?;
            if own_of_rightful(alias.alias.table()).is_some() {
                *guarded = stages.len();
            }
            Ok(found)
        }
        LogicalPlan::TableScan(scan) => {
            let source = scan.source.downcast_ref::<DefaultTableSource>();
            let table = source.and_then(|source| source.table_provider.downcast_ref::<SnapshotTable>());
            match table {
                Some(table) => Ok(table.table().without_rows()),
                None => Err(refused("rows of anything but a table of the database")),
            }
        }
        LogicalPlan::Sort(_) => Err(refused("ORDER BY: rows are heard as they are committed")),
        LogicalPlan::Limit(_) => Err(refused("LIMIT: it ends when its reader goes")),
        LogicalPlan::Aggregate(_) => Err(refused("aggregates without SAMPLE BY")),
        LogicalPlan::Window(_) => Err(refused("window functions")),
        LogicalPlan::Join(_) => Err(refused("joins")),
        LogicalPlan::Union(_) => Err(refused("UNION")),
        LogicalPlan::Distinct(_) => Err(refused("DISTINCT")),
        LogicalPlan::Extension(node) => Err(refused(node.node.name())),
        _ => Err(refused("this")),
    }
}

/// Whether a plan has the table's columns, by whatever name of it.
fn has_its_columns(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => has_its_columns(&alias.input),
        LogicalPlan::Filter(filter) => has_its_columns(&filter.input),
        _ => false,
    }
}

/// The symbols of one column, by its id, that a condition demands one of.
fn picked_symbols(condition: &Expr, schema: &TableSchema) -> Option<(u32, Vec<String>)> {
    split_conjunction(condition).into_iter().find_map(|part| {
        let (column, values) = match part {
            Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
                let either = [(&binary.left, &binary.right), (&binary.right, &binary.left)];
                either.into_iter().find_map(|(column, value)| Some((named(column)?, vec![text(value)?])))?
            }
            Expr::InList(list) if !list.negated => {
                (named(&list.expr)?, list.list.iter().map(text).collect::<Option<Vec<_>>>()?)
            }
            _ => return None,
        };
        let index = schema.symbol_columns().find(|index| schema.columns()[*index].name == column)?;
        Some((schema.column_id(index), values))
    })
}

/// The column that an expression is, also where it is cast.
fn named(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => named(&cast.expr),
        _ => None,
    }
}

/// The text that an expression is.
fn text(expr: &Expr) -> Option<String> {
    fn of(value: &ScalarValue) -> Option<String> {
        match value {
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)) => Some(text.clone()),
            ScalarValue::Dictionary(_, value) => of(value),
            _ => None,
        }
    }
    match expr {
        Expr::Literal(value, _) => of(value),
        Expr::Cast(cast) => text(&cast.expr),
        _ => None,
    }
}

/// Values of one column of a segment, in stored type, of some ranges of its rows.
pub(super) fn read(
    segment: &Segment,
    place: Option<usize>,
    ranges: &[Range<usize>],
) -> Result<Option<ArrayRef>> {
    Ok(place.map(|place| segment.read_ranges(place, ranges)).transpose()?)
}
