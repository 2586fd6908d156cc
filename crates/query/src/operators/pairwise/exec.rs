//! The operator of groups of pairs.

use super::node::{Measure, PairMeasure};
use super::side::{Found, Pairs, Reading, Side, SideExprs, meet};
use crate::operators::exec::{Core, Need, Operator, known, operator};
use crate::operators::key::KeyIds;
use crate::operators::reduce::Pieces;
use crate::operators::workers;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{Stream, StreamExt, TryStreamExt};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows of lists that are looked at for a pair, in the time that a joined row takes to find its group, about.
const LOOKS_A_ROW: u64 = 16;
/// So many looks take no time.
const FEW_LOOKS: u64 = if cfg!(test) { 64 } else { 1 << 20 };
/// Fewer are one core's.
const CORE_LOOKS_MIN: u64 = if cfg!(test) { 8 } else { 1 << 16 };

/// Yields a row for each pair of groups that meet.
#[derive(Debug, Clone)]
pub(crate) struct PairGroupsExec {
    core: Core<2>,
    exprs: Arc<[SideExprs; 2]>,
    /// The key columns of the output: a side, and which of its groups' columns.
    keys: Arc<[(usize, usize)]>,
    measures: Arc<[PairMeasure]>,
}

impl PairGroupsExec {
    pub(crate) fn new(
        inputs: [Arc<dyn ExecutionPlan>; 2],
        exprs: [SideExprs; 2],
        keys: &[(usize, usize)],
        measures: &[PairMeasure],
        schema: SchemaRef,
    ) -> Self {
        let properties = known(EquivalenceProperties::new(schema), 1, EmissionType::Final);
        let core = Core::new(inputs, properties);
        Self { core, exprs: Arc::new(exprs), keys: keys.into(), measures: measures.into() }
    }

    /// Reads both sides, one after the other: what is below works on several cores.
    async fn sides(&self, context: &Arc<TaskContext>) -> Result<[Arc<Side>; 2]> {
        let mut on = KeyIds::of(&self.exprs[0].on, &self.core.inputs[0].schema())?;
        let mut sides = Vec::with_capacity(2);
        for (input, exprs) in self.core.inputs.iter().zip(self.exprs.iter()) {
            let reservation = self.reservation(context);
            let mut reading = Reading::try_new(exprs, &input.schema(), reservation)?;
            let mut rows = input.execute(0, Arc::clone(context))?;
            while let Some(batch) = rows.try_next().await? {
                reading.read(&batch, &mut on)?;
            }
            sides.push(Arc::new(reading.finish()?));
        }
        let mut sides = sides.into_iter();
        Ok([(); 2].map(|()| sides.next().expect("two inputs were read")))
    }

    /// What the sides make, in parts that are worked on at the same time.
    fn parts(&self, sides: [Arc<Side>; 2], cores: usize) -> Vec<Part> {
        let of = |side: usize| (sides[side].groups() as u64, sides[side].rows() as u64);
        let (left, right) = (of(0), of(1));
        let looks = left.0.saturating_mul(right.1).saturating_add(right.0.saturating_mul(left.1));
        let few = looks <= FEW_LOOKS || looks <= joined_rows(&sides).saturating_mul(LOOKS_A_ROW);
        let workers = usize::try_from(looks / CORE_LOOKS_MIN).unwrap_or(cores).clamp(1, cores.max(1));
        let groups = left.0 as usize;
        let work = Arc::new(Work {
            sides,
            measures: Arc::clone(&self.measures),
            keys: Arc::clone(&self.keys),
            schema: self.schema(),
        });
        if !few {
            return vec![Part { work, groups: None }];
        }
        let part = |worker: usize| {
            let groups = groups * worker / workers..groups * (worker + 1) / workers;
            Part { work: Arc::clone(&work), groups: Some(groups) }
        };
        (0..workers).map(part).collect()
    }

    /// All pairs, part by part.
    async fn pairs(
        self,
        context: Arc<TaskContext>,
        baseline: BaselineMetrics,
    ) -> Result<impl Stream<Item = Result<RecordBatch>>> {
        let sides = self.sides(&context).await?;
        let batch_rows = context.session_config().batch_size().max(1);
        let parts = self.parts(sides, context.session_config().target_partitions()).into_iter().map(|part| {
            let reservation = self.reservation(&context);
            let baseline = baseline.clone();
            async move {
                let _timer = baseline.elapsed_compute().timer();
                Ok((part.run(&reservation)?, reservation))
            }
        });
        let done = futures::stream::iter(workers::started(parts)).then(std::convert::identity);
        Ok(done
            .map_ok(move |(rows, reservation)| {
                let baseline = baseline.clone();
                let pieces = Pieces::new(rows, batch_rows, reservation);
                futures::stream::iter(pieces.map(move |rows| {
                    baseline.record_output(rows.num_rows());
                    Ok(rows)
                }))
            })
            .try_flatten())
    }
}

/// How many rows a join of both sides would have.
fn joined_rows(sides: &[Arc<Side>; 2]) -> u64 {
    let mut met = HashMap::<u32, [u64; 2]>::new();
    for (side, of) in sides.iter().enumerate() {
        of.join_keys().for_each(|on| met.entry(on).or_default()[side] += 1);
    }
    met.values().fold(0, |rows, [a, b]| rows.saturating_add(a.saturating_mul(*b)))
}

/// What all parts share.
struct Work {
    sides: [Arc<Side>; 2],
    measures: Arc<[PairMeasure]>,
    keys: Arc<[(usize, usize)]>,
    schema: SchemaRef,
}

/// The pairs of some of the left groups with all right ones; where `None`, those of rows that meet.
struct Part {
    work: Arc<Work>,
    groups: Option<Range<usize>>,
}

impl Part {
    fn run(self, reservation: &MemoryReservation) -> Result<RecordBatch> {
        let Work { sides, measures, .. } = &*self.work;
        let sides = sides.each_ref().map(Arc::as_ref);
        let mut rows = PairRows::new(measures);
        let row_bytes = rows.row_bytes();
        let Some(groups) = self.groups else {
            let reserve = |pairs: usize| reservation.try_resize(2 * pairs * row_bytes);
            meet(sides, measures, &reserve, |groups, found| rows.push(groups, found))?;
            return rows.finish(&self.work);
        };
        let mut pairs = Pairs::new(sides, measures);
        let mut found = vec![Found::Value(None); measures.len()];
        for left in groups {
            crate::wanted::look()?;
            for right in 0..sides[1].groups() {
                if pairs.measure([left, right], &mut found) {
                    rows.push([left as u32, right as u32], &found);
                }
            }
            reservation.try_resize(2 * rows.len() * row_bytes)?;
        }
        rows.finish(&self.work)
    }
}

/// Pairs on their way into a batch.
struct PairRows {
    groups: [Vec<u32>; 2],
    columns: Vec<Column>,
}

enum Column {
    Values(Vec<Option<f64>>),
    Counts(Vec<i64>),
}

impl PairRows {
    fn new(measures: &[PairMeasure]) -> Self {
        let column = |measure: &PairMeasure| match measure.of {
            Measure::Count => Column::Counts(Vec::new()),
            _ => Column::Values(Vec::new()),
        };
        Self { groups: Default::default(), columns: measures.iter().map(column).collect() }
    }

    fn len(&self) -> usize {
        self.groups[0].len()
    }

    fn row_bytes(&self) -> usize {
        2 * size_of::<u32>() + self.columns.len() * size_of::<Option<f64>>()
    }

    fn push(&mut self, groups: [u32; 2], found: &[Found]) {
        self.groups.iter_mut().zip(groups).for_each(|(groups, group)| groups.push(group));
        for (column, found) in self.columns.iter_mut().zip(found) {
            match (column, found) {
                (Column::Values(values), Found::Value(value)) => values.push(*value),
                (Column::Counts(counts), Found::Count(count)) => counts.push(*count),
                // A measure finds what its column is of.
                (Column::Values(values), Found::Count(_)) => values.push(None),
                (Column::Counts(counts), Found::Value(_)) => counts.push(0),
            }
        }
    }

    fn finish(self, work: &Work) -> Result<RecordBatch> {
        let count = self.len();
        if count == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&work.schema)));
        }
        let groups = self.groups.map(UInt32Array::from);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(work.schema.fields().len());
        for (side, key) in work.keys.iter() {
            columns.push(take(&work.sides[*side].keys[*key], &groups[*side], None)?);
        }
        columns.extend(self.columns.into_iter().map(|column| match column {
            Column::Values(values) => Arc::new(Float64Array::from(values)) as ArrayRef,
            Column::Counts(counts) => Arc::new(Int64Array::from(counts)),
        }));
        Ok(RecordBatch::try_new(Arc::clone(&work.schema), columns)?)
    }
}

operator!(PairGroupsExec);

impl Operator for PairGroupsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let on = self.exprs[0].on.iter().zip(&self.exprs[1].on);
        let on: Vec<String> = on.map(|(left, right)| format!("{left} = {right}")).collect();
        write!(f, "PairGroupsExec: [{}], on=[{}]", names.join(", "), on.join(", "))
    }

    fn needs(&self) -> Vec<Need> {
        vec![Need::One, Need::One]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.exprs.iter().flat_map(SideExprs::all).cloned().collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(output);
        Ok(self.stream(futures::stream::once(self.clone().pairs(context, baseline)).try_flatten()))
    }
}
