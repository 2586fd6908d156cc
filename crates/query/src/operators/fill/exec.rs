//! The operator of FILL.

use super::grid::Grid;
use crate::functions::bucket::Bucketing;
use crate::operators::exec::{Core, Need, Operator, operator};
use crate::operators::sample::exec::{grid_order, grid_properties};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// The most rows FILL makes; past it the query fails with the way out.
pub(crate) const MAX_FILLED_ROWS: usize = 50_000_000;

/// How a value column of a missing row is filled.
#[derive(Debug, Clone)]
pub(crate) enum FillColumn {
    Null,
    Prev,
    /// With another column of the key's last row: its place in the input.
    PrevOf(usize),
    Linear,
    /// A constant expression of the column's type.
    Constant(Arc<dyn PhysicalExpr>),
}

type Bound = Option<Arc<dyn PhysicalExpr>>;

/// Collects the rows of SAMPLE BY, yields the grid in pieces.
#[derive(Debug, Clone)]
pub(crate) struct FillExec {
    core: Core,
    keys: usize,
    bucketing: Bucketing,
    bounds: (Bound, Bound),
    fills: Vec<FillColumn>,
}

impl FillExec {
    pub(crate) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        keys: usize,
        bucketing: Bucketing,
        bounds: (Bound, Bound),
        fills: Vec<FillColumn>,
        schema: SchemaRef,
    ) -> Result<Self> {
        for (fill, field) in fills.iter().zip(schema.fields().iter().skip(1 + keys)) {
            let data_type = field.data_type();
            let numeric = data_type.is_numeric() || *data_type == DataType::Null;
            if matches!(fill, FillColumn::Linear) && !numeric {
                return plan_err!("FILL(LINEAR) fills numbers, and '{}' is {data_type}", field.name());
            }
        }
        let core = Core::new([input], grid_properties(schema, 1 + keys));
        Ok(Self { core, keys, bucketing, bounds, fills })
    }
}

/// The value of a constant expression, in nanoseconds.
fn instant(bound: &Bound) -> Result<Option<i64>> {
    let Some(bound) = bound else { return Ok(None) };
    match constant(bound)? {
        ScalarValue::TimestampNanosecond(Some(nanos), _) => Ok(Some(nanos)),
        other => plan_err!("FROM and TO of SAMPLE BY are instants, not {other}"),
    }
}

/// The value of an expression that reads no columns.
pub(super) fn constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    let one = ScalarValue::Boolean(Some(true)).to_array()?;
    let batch = datafusion::arrow::record_batch::RecordBatch::try_from_iter([("one", one)])?;
    let array = expr.evaluate(&batch)?.into_array(1)?;
    ScalarValue::try_from_array(&array, 0)
}

operator!(FillExec);

impl Operator for FillExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FillExec: every {}, keys={}, values=[", self.bucketing, self.keys)?;
        for (index, fill) in self.fills.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match fill {
                FillColumn::Null => write!(f, "{comma}NULL")?,
                FillColumn::Prev => write!(f, "{comma}PREV")?,
                FillColumn::PrevOf(of) => {
                    write!(f, "{comma}PREV({})", self.core.input().schema().field(*of).name())?
                }
                FillColumn::Linear => write!(f, "{comma}LINEAR")?,
                FillColumn::Constant(expr) => write!(f, "{comma}{expr}")?,
            }
        }
        f.write_str("]")
    }

    fn needs(&self) -> Vec<Need> {
        vec![grid_order(&self.core.input().schema(), 1 + self.keys).map_or(Need::One, Need::Ordered)]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let constants = self.fills.iter().filter_map(|fill| match fill {
            FillColumn::Constant(expr) => Some(expr),
            _ => None,
        });
        self.bounds.0.iter().chain(&self.bounds.1).chain(constants).cloned().collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(output);
        let mut input = self.core.input().execute(output, Arc::clone(&context))?;
        let reservation = self.reservation(&context);
        let (from, to) = (instant(&self.bounds.0)?, instant(&self.bounds.1)?);
        let (fills, keys, bucketing) = (self.fills.clone(), self.keys, self.bucketing);
        let (schema, batch_rows) = (self.schema(), context.session_config().batch_size());
        let input_schema = self.core.input().schema();
        let grid = async move {
            let mut batches = Vec::new();
            while let Some(batch) = input.next().await {
                let batch = batch?;
                reservation.try_grow(2 * batch.get_array_memory_size())?;
                batches.push(batch);
            }
            let rows = concat_batches(&input_schema, &batches)?;
            let grid = Grid::try_new(rows, keys, bucketing, (from, to), &fills, schema)?;
            Ok::<_, datafusion::error::DataFusionError>((grid, reservation))
        };
        let stream = futures::stream::once(grid).map_ok(move |(mut grid, reservation)| {
            let baseline = baseline.clone();
            futures::stream::iter(std::iter::from_fn(move || {
                let _held = &reservation;
                let _timer = baseline.elapsed_compute().timer();
                let batch = grid.next(batch_rows).transpose()?;
                if let Ok(batch) = &batch {
                    baseline.record_output(batch.num_rows());
                }
                Some(batch)
            }))
        });
        Ok(self.stream(stream.try_flatten()))
    }
}
