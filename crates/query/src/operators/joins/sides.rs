//! Which inputs of a join can be read series by series.

use super::exec::{Matching, TimeJoinExec};
use crate::operators::below::{Below, Layer, batch_of};
use crate::scan::{PieceReader, ScanExec};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Both sides of a join that can be done by series.
#[derive(Debug)]
pub(in crate::operators) struct Sides {
    pub(in crate::operators) left: Side,
    pub(in crate::operators) right: Side,
}

/// A scan, and what the join takes of it.
#[derive(Debug, Clone)]
pub(in crate::operators) struct Side {
    pub(in crate::operators) scan: ScanExec,
    /// The columns that are read of the table: those of the input, or what it makes them of.
    pub(in crate::operators) columns: Vec<usize>,
    /// The keys as columns of the table.
    pub(in crate::operators) keys: Vec<usize>,
    made: Option<Made>,
}

/// Columns that an input makes of those of its scan.
#[derive(Debug, Clone)]
pub(in crate::operators) struct Made {
    /// Over columns of `schema`.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns that are read.
    schema: SchemaRef,
}

impl Sides {
    /// The sides of a join; `None` where it cannot be done by series.
    pub(in crate::operators) fn of(join: &TimeJoinExec) -> Option<Self> {
        let [left, right] = join.inputs();
        let left = Side::of(left, &join.times.0, &join.keys.0)?;
        let right = Side::of(right, &join.times.1, &join.keys.1)?;
        // Of a key that is only a part of the right series key the rows come from many series, which overlap in time:
        // ASOF JOIN, which does not bring them together, does not find the last of them.
        let whole = right.series_key().iter().all(|column| right.keys.contains(column));
        let fits = whole || matches!(join.matching, Matching::Around(_));
        (fits && !left.keys.is_empty()).then_some(Self { left, right })
    }
}

impl Side {
    /// The right side of a join whose rows can be looked up: keyed by the join's keys, then by the rest of its series
    /// key; `None` where it is no scan, or a key is no SYMBOL.
    pub(in crate::operators) fn probed(join: &TimeJoinExec) -> Option<Self> {
        let [_, right] = join.inputs();
        let mut side = Self::of(right, &join.times.1, &join.keys.1)?;
        let rest = side.series_key().iter().filter(|column| !side.keys.contains(column)).copied();
        side.keys.extend(rest.collect::<Vec<_>>());
        Some(side)
    }

    /// The side that an input is with this time and these keys, all SYMBOL columns; `None` where it cannot be read by
    /// series.
    fn of(
        input: &Arc<dyn ExecutionPlan>,
        time: &Arc<dyn PhysicalExpr>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Option<Self> {
        let (scan, exprs) = scan_of(input)?;
        let table = &scan.selected().table;
        let stored = |at: usize| {
            let column = exprs.get(at)?.downcast_ref::<Column>()?.index();
            let column = scan.projection().get(column).copied()?;
            (column < table.schema().columns().len()).then_some(column)
        };
        let column = |expr: &Arc<dyn PhysicalExpr>| stored(expr.downcast_ref::<Column>()?.index());
        let keys: Vec<usize> = keys.iter().map(column).collect::<Option<_>>()?;
        let schema = table.schema();
        let fits = schema.timestamp().is_some()
            && column(time) == schema.timestamp()
            && keys.iter().all(|key| table.dictionary(*key).is_some());
        if !fits {
            return None;
        }
        let (columns, made) = read_and_made(scan, &exprs)?;
        Some(Self { scan: scan.clone(), columns, keys, made })
    }

    /// The columns of the table that are read for some columns of the input, and what these are made of them.
    fn columns_at(&self, places: &[usize]) -> Result<(Vec<usize>, Option<Made>)> {
        let Some(made) = &self.made else {
            return Ok((places.iter().map(|at| self.columns[*at]).collect(), None));
        };
        let exprs: Vec<Arc<dyn PhysicalExpr>> =
            places.iter().map(|at| Arc::clone(&made.exprs[*at])).collect();
        let read = columns_of(&exprs);
        let exprs = exprs.into_iter().map(|expr| moved(expr, &read)).collect::<Result<_>>()?;
        let schema = Arc::new(made.schema.project(&read)?);
        Ok((read.iter().map(|at| self.columns[*at]).collect(), Some(Made { exprs, schema })))
    }

    /// Reads what some columns of the input are made of, in the order of `places`, whose schema is `schema`, and where
    /// `numbered` the numbers of the rows after them; of the columns `keys` of the table the ids are known.
    pub(in crate::operators) fn reader(
        &self,
        places: &[usize],
        keys: &[usize],
        (mut schema, numbered): (SchemaRef, bool),
    ) -> Result<(PieceReader, Option<Made>)> {
        let (mut columns, made) = self.columns_at(places)?;
        schema = made.as_ref().map_or(schema, Made::schema);
        if numbered {
            columns.push(self.scan.selected().table.schema().columns().len());
            let mut fields = schema.fields().to_vec();
            fields.push(Arc::new(Field::new("row", DataType::UInt64, false)));
            schema = Arc::new(Schema::new(fields));
        }
        Ok((PieceReader::new(&self.scan, &columns, keys, schema)?, made))
    }

    /// Whether the index of the parts says which rows are of which series.
    pub(in crate::operators) fn is_by_index(&self) -> bool {
        !self.scan.has_condition() && self.keys.iter().all(|key| self.series_key().contains(key))
    }

    /// Whether the rows of a series may be of several keys.
    pub(in crate::operators) fn refines_series(&self) -> bool {
        self.keys.iter().any(|key| !self.series_key().contains(key))
    }

    fn series_key(&self) -> &[usize] {
        self.scan.selected().table.schema().series()
    }

    /// Rows that its scan selects, at most; `None` where that is not known yet.
    pub(in crate::operators) fn rows(&self) -> Option<u64> {
        self.scan.filters().is_none().then(|| self.scan.selected().rows)
    }
}

impl Made {
    /// The columns it is made of.
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The columns made of those that were read.
    pub(in crate::operators) fn of(&self, read: Vec<ArrayRef>, rows: usize) -> Result<Vec<ArrayRef>> {
        let batch = batch_of(&self.schema, read, rows)?;
        self.exprs.iter().map(|expr| expr.evaluate(&batch)?.into_array(rows)).collect()
    }
}

/// The columns of the table that a side reads, and what is made of them where they are not all it yields.
fn read_and_made(scan: &ScanExec, exprs: &[Arc<dyn PhysicalExpr>]) -> Option<(Vec<usize>, Option<Made>)> {
    let place = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
    if let Some(places) = exprs.iter().map(place).collect::<Option<Vec<usize>>>() {
        return Some((places.into_iter().map(|at| scan.projection()[at]).collect(), None));
    }
    let read = columns_of(exprs);
    let moved = exprs.iter().map(|expr| moved(Arc::clone(expr), &read)).collect::<Result<_>>().ok()?;
    let schema = Arc::new(scan.schema().project(&read).ok()?);
    Some((read.iter().map(|at| scan.projection()[*at]).collect(), Some(Made { exprs: moved, schema })))
}

/// The places of the columns that expressions read, ascending.
fn columns_of(exprs: &[Arc<dyn PhysicalExpr>]) -> Vec<usize> {
    let read: BTreeSet<usize> = exprs.iter().flat_map(collect_columns).map(|column| column.index()).collect();
    read.into_iter().collect()
}

/// An expression over the columns at these places alone.
fn moved(expr: Arc<dyn PhysicalExpr>, read: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = expr.transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let place = read.binary_search(&column.index()).unwrap_or(usize::MAX);
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as _))
    });
    moved.data()
}

/// The scan that a plan is but for projections, and what the plan yields as expressions over what the scan does.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(&ScanExec, Vec<Arc<dyn PhysicalExpr>>)> {
    let below = Below::of(plan).filter(|below| below.is_unfiltered() && below.is_as_it_lies())?;
    // What is worked out for the rows that are found must be the same for all rows.
    let varies = |layer: &Layer| matches!(layer, Layer::Project(exprs, _) if exprs.iter().any(is_volatile));
    if below.layers.iter().any(varies) {
        return None;
    }
    let fields = plan.schema();
    let column =
        |(at, field): (usize, &FieldRef)| below.resolve(&(Arc::new(Column::new(field.name(), at)) as _));
    let exprs = fields.fields().iter().enumerate().map(column).collect::<Result<_>>().ok()?;
    Some((below.scan, exprs))
}
