//! The operator of LATEST ON.

use crate::arrays::pinned::{PinnedRows, Place};
use crate::operators::TIME_ORDER;
use crate::operators::below::batch_of;
use crate::operators::exec::{Core, Need, Operator, known, operator};
use crate::operators::key::{KeyIds, KeyReader};
use crate::operators::node::write_list;
use crate::operators::reduce::{Reduce, in_pieces, reduce};
use crate::scan::{NewestRows, ScanExec};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use std::fmt;
use std::sync::Arc;

/// Keeps the newest row of each key; yields them in order of time.
#[derive(Debug, Clone)]
pub(crate) struct LatestOnExec {
    core: Core,
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

/// LATEST ON of rows. Of each input of a UNION ALL, it is that of the newest of each: what is stored of a materialized view
/// is looked up as that of any table.
pub(crate) fn latest_of(
    input: &Arc<dyn ExecutionPlan>,
    time: &Arc<dyn PhysicalExpr>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let latest = |input| Arc::new(LatestOnExec::new(input, Arc::clone(time), keys.to_vec()));
    let Some(union) = input.downcast_ref::<UnionExec>() else {
        return Ok(latest(Arc::clone(input)));
    };
    let inputs = union.inputs().iter().map(|input| match below_projection(input, time, keys) {
        Some(below) => below,
        None => Ok(latest(Arc::clone(input)) as Arc<dyn ExecutionPlan>),
    });
    Ok(latest(UnionExec::try_new(inputs.collect::<Result<_>>()?)?))
}

/// LATEST ON below a projection, where that leaves the time and the keys as they are.
fn below_projection(
    input: &Arc<dyn ExecutionPlan>,
    time: &Arc<dyn PhysicalExpr>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let projection = input.downcast_ref::<ProjectionExec>()?;
    let schema = projection.input().schema();
    let below = |expr: &Arc<dyn PhysicalExpr>| {
        let column = expr.downcast_ref::<Column>()?;
        let mut of = Arc::clone(&projection.expr().get(column.index())?.expr);
        // What a UNION casts to the type it has.
        if let Some(cast) = of.downcast_ref::<CastExpr>() {
            let same = cast.expr().data_type(&schema).ok()? == *cast.cast_type();
            of = same.then(|| Arc::clone(cast.expr()))?;
        }
        of.downcast_ref::<Column>().is_some().then_some(of)
    };
    let (time, keys) = (below(time)?, keys.iter().map(below).collect::<Option<Vec<_>>>()?);
    let latest = Arc::new(LatestOnExec::new(Arc::clone(projection.input()), time, keys));
    let above = ProjectionExec::try_new(projection.expr().to_vec(), latest);
    Some(above.map(|above| Arc::new(above) as Arc<dyn ExecutionPlan>))
}

impl LatestOnExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        time: Arc<dyn PhysicalExpr>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Self {
        let mut equivalences = EquivalenceProperties::new(input.schema());
        if time.downcast_ref::<Column>().is_some() {
            equivalences.add_orderings([[PhysicalSortExpr::new(Arc::clone(&time), TIME_ORDER)]]);
        }
        let core = Core::new([input], known(equivalences, 1, EmissionType::Final));
        Self { core, time, keys }
    }
}

operator!(LatestOnExec);

impl Operator for LatestOnExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatestOnExec: {} per [", self.time)?;
        write_list(f, &self.keys)?;
        f.write_str("]")
    }

    fn needs(&self) -> Vec<Need> {
        vec![Need::One]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        std::iter::once(&self.time).chain(&self.keys).cloned().collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(output);
        let reservation = self.reservation(&context);
        if let Some(newest) = self.newest_of_scan() {
            let looked_at = self.core.counter("segments_looked_at");
            let batch_rows = context.session_config().batch_size();
            let rows = async move {
                let _timer = baseline.elapsed_compute().timer();
                let (batch, segments) = newest.find()?;
                looked_at.add(segments);
                baseline.record_output(batch.num_rows());
                Ok(batch)
            };
            return Ok(in_pieces(rows, self.schema(), batch_rows, reservation));
        }
        let input = self.core.input().execute(output, Arc::clone(&context))?;
        let newest = Newest::try_new(self, reservation.new_empty())?;
        let batch_rows = context.session_config().batch_size();
        Ok(reduce(newest, input, self.schema(), (batch_rows, reservation), baseline))
    }
}

impl LatestOnExec {
    /// The search straight in the table, where it is read as it is and the keys are of its series key.
    fn newest_of_scan(&self) -> Option<NewestRows> {
        let place = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
        let keys: Option<Vec<usize>> = self.keys.iter().map(place).collect();
        NewestRows::new(ScanExec::of(self.core.input())?, place(&self.time)?, &keys?)
    }
}

/// The state of one execution.
struct Newest {
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    ids: KeyIds,
    reader: KeyReader,
    scratch: Vec<u32>,
    kept: PinnedRows,
    schema: SchemaRef,
    reservation: MemoryReservation,
}

impl Newest {
    fn try_new(exec: &LatestOnExec, reservation: MemoryReservation) -> Result<Self> {
        let schema = exec.schema();
        let row_types = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        Ok(Self {
            time: Arc::clone(&exec.time),
            keys: exec.keys.clone(),
            ids: KeyIds::of(&exec.keys, &schema)?,
            reader: KeyReader::new(exec.keys.len()),
            scratch: Vec::new(),
            kept: PinnedRows::new(row_types),
            schema,
            reservation,
        })
    }
}

impl Reduce for Newest {
    fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let times = self.time.evaluate(batch)?.into_array(rows)?;
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let keys = self.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        self.scratch.clear();
        self.ids.read(&keys, rows, &mut self.reader, &mut self.scratch)?;
        self.kept.grow(self.ids.len());
        self.kept.add_batch(batch.columns().to_vec(), rows);
        let times = times.as_primitive::<TimestampNanosecondType>();
        for (row, (&time, &key)) in times.values().iter().zip(&self.scratch).enumerate() {
            if time >= self.kept.get(key).1 && times.is_valid(row) {
                self.kept.keep(key, row, time);
            }
        }
        if self.kept.is_heavy() {
            self.kept.compact()?;
        }
        self.reservation.try_resize(self.kept.size() + self.ids.size())
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let mut rows = self.kept.all();
        rows.sort_by_key(|(time, place)| (*time, *place));
        let places: Vec<Place> = rows.into_iter().map(|(_, place)| place).collect();
        let columns = self.kept.rows(&places)?;
        batch_of(&self.schema, columns, places.len())
    }
}
