//! The operator of the joins by time.

use super::execute::{AHEAD_BYTES, Work};
use crate::dialect::marker::Direction;
use crate::operators::TIME_ORDER;
use crate::operators::asof::by_series::probe::probe;
use crate::operators::asof::merge::Merge;
use crate::operators::asof::node::AsOfOptions;
use crate::operators::asof::waiting::WaitingMerge;
use crate::operators::exec::{Core, Need, Operator, known, operator};
use crate::operators::filters::with_filters_in_scan;
use crate::operators::order::in_order;
use crate::operators::series_join::chunks::Chunks;
use crate::operators::series_join::node::Kind;
use crate::operators::series_join::rows::Shape;
use crate::operators::shared::Shared;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// The key expressions of one side, in the order of the join's keys.
pub(in crate::operators) type KeyExprs = Vec<Arc<dyn PhysicalExpr>>;

/// The time of each side.
pub(in crate::operators) type Times = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// How the rows are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operators) enum Way {
    /// Both inputs come in time order and are merged; the left rows keep their order.
    Merge,
    /// Series by series, out of the segments of two scans; rows come in no order.
    BySeries,
    /// Series by series, the rows put in time order at the end; where they are too many for that, and that is
    /// only known now, by merging.
    BySeriesInOrder,
    /// Left rows come and stay in any order; for them those of a scan on the right are looked up, series by series.
    Probe,
    /// The same, of left rows that come in time order and keep it.
    ProbeInOrder,
}

/// Most rows that are put in order at the end, in batches: about a million.
const ORDERED_BATCHES_MAX: u64 = 128;

/// Whether so many rows are put in order at the end.
pub(super) fn are_ordered(rows: u64, batch_rows: usize) -> bool {
    rows <= ORDERED_BATCHES_MAX.saturating_mul(batch_rows as u64)
}

/// What a join makes of both sides' rows.
#[derive(Debug, Clone)]
pub(in crate::operators) enum Matching {
    /// The left rows, each with the right row that stood at its time.
    AsOf(AsOf),
    /// Left rows with what the right side is around their times; of a splice the rows of both sides.
    Around(Shape),
}

/// What ASOF JOIN yields.
#[derive(Debug, Clone)]
pub(in crate::operators) struct AsOf {
    /// The right columns of the output.
    pub(in crate::operators) right_columns: Vec<usize>,
    pub(in crate::operators) options: AsOfOptions,
}

impl Matching {
    /// Whether a left row without a match is left out.
    pub(super) fn is_inner(&self) -> bool {
        matches!(self, Matching::AsOf(AsOf { options, .. }) if options.inner)
    }

    /// Whether right rows count as left ones do.
    pub(super) fn is_splice(&self) -> bool {
        matches!(self, Matching::Around(shape) if shape.kind == Kind::Splice)
    }

    /// How many rows come of one left row, at most.
    pub(super) fn rows_per_left(&self) -> usize {
        match self {
            Matching::AsOf(_) => 1,
            Matching::Around(shape) => shape.kind.rows_per_left(),
        }
    }
}

/// Joins rows by their keys and times.
#[derive(Debug, Clone)]
pub(in crate::operators) struct TimeJoinExec {
    pub(in crate::operators) core: Core<2>,
    way: Way,
    pub(in crate::operators) times: Times,
    pub(in crate::operators) keys: (KeyExprs, KeyExprs),
    pub(in crate::operators) matching: Matching,
    pub(super) running: Shared<Work>,
}

impl TimeJoinExec {
    /// Merges its inputs; `schema` is that of its rows.
    pub(in crate::operators) fn new(
        inputs: [Arc<dyn ExecutionPlan>; 2],
        times: Times,
        keys: (KeyExprs, KeyExprs),
        matching: Matching,
        schema: SchemaRef,
    ) -> Self {
        let properties = properties(Way::Merge, inputs.each_ref(), (&times.0, &matching), schema);
        let core = Core::new(inputs, properties);
        Self { core, way: Way::Merge, times, keys, matching, running: Shared::default() }
    }

    /// The same join in another way.
    pub(in crate::operators) fn with_way(&self, way: Way) -> Self {
        let properties = properties(way, self.inputs(), (&self.times.0, &self.matching), self.schema());
        Self { core: self.core.with_properties(properties), way, ..self.clone() }
    }

    /// The same join over another right input, whose rows are looked up.
    pub(in crate::operators) fn over_right(&self, right: Arc<dyn ExecutionPlan>) -> Self {
        let [left, _] = &self.core.inputs;
        let core = Core { inputs: [Arc::clone(left), right], ..self.core.clone() };
        Self { core, ..self.clone() }
    }

    /// The same join over scans that work out the filters of its inputs; `None` where there are none.
    pub(super) fn with_filters_in_scans(&self) -> Result<Option<Self>> {
        let [left, right] = self.inputs();
        let inputs = match (with_filters_in_scan(left)?, with_filters_in_scan(right)?) {
            (None, None) => return Ok(None),
            (new_left, new_right) => {
                [new_left.unwrap_or_else(|| Arc::clone(left)), new_right.unwrap_or_else(|| Arc::clone(right))]
            }
        };
        let core = Core { inputs, ..self.core.clone() };
        Ok(Some(Self { core, ..self.clone() }.with_way(self.way)))
    }

    pub(in crate::operators) fn inputs(&self) -> [&Arc<dyn ExecutionPlan>; 2] {
        self.core.inputs.each_ref()
    }

    /// The places of the left keys among the columns of either input and of the output.
    pub(super) fn left_keys(&self) -> impl Iterator<Item = Option<usize>> {
        self.keys.0.iter().map(|key| key.downcast_ref::<Column>().map(Column::index))
    }

    pub(in crate::operators) fn right_schema(&self) -> SchemaRef {
        self.core.inputs[1].schema()
    }

    pub(in crate::operators) fn left_schema(&self) -> SchemaRef {
        self.core.inputs[0].schema()
    }

    /// Whether each input has to come in order of time.
    fn are_in_order(&self) -> [bool; 2] {
        match self.way {
            Way::Merge => [true, true],
            Way::ProbeInOrder => [true, false],
            Way::Probe | Way::BySeries | Way::BySeriesInOrder => [false, false],
        }
    }

    /// The rows of both inputs in order of time, merged.
    pub(super) fn merge_ahead(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [left, right] = self.inputs();
        self.merge([&ahead(left, &self.times.0)?, &ahead(right, &self.times.1)?], 0, context)
    }

    /// The left rows as they come, in order of time, merged with those of the right scan.
    pub(in crate::operators) fn merge_right_ahead(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let [left, right] = self.inputs();
        self.merge([left, &ahead(right, &self.times.1)?], 0, context)
    }

    fn merge(
        &self,
        [left, right]: [&Arc<dyn ExecutionPlan>; 2],
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(partition);
        let left = left.execute(partition, Arc::clone(context))?;
        let right = right.execute(partition, Arc::clone(context))?;
        let (inputs, held) = ((left, right), self.reservation(context));
        match &self.matching {
            Matching::AsOf(of) if of.options.direction == Direction::Backward => {
                let merge = Merge::try_new(self, of, inputs, held, baseline)?;
                let stream = futures::stream::try_unfold(merge, |mut merge| async move {
                    Ok(merge.next().await?.map(|batch| (batch, merge)))
                });
                Ok(self.stream(stream))
            }
            Matching::AsOf(of) => {
                let merge = WaitingMerge::try_new(self, of, inputs, held, baseline)?;
                let stream = futures::stream::try_unfold(merge, |mut merge| async move {
                    Ok(merge.next().await?.map(|batch| (batch, merge)))
                });
                Ok(self.stream(stream))
            }
            Matching::Around(shape) => {
                let chunks = Chunks::try_new(self, shape, inputs, held, baseline)?;
                let batches = chunks.batches(context.session_config().batch_size().max(1));
                Ok(self.stream(batches))
            }
        }
    }
}

/// An input over a scan, which gives its rows in order of time instead and may be read ahead of the other.
fn ahead(input: &Arc<dyn ExecutionPlan>, time: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn ExecutionPlan>> {
    let time = time.downcast_ref::<Column>().map(|time| vec![(time.index(), TIME_ORDER)]);
    let ordered = time.map_or(Ok(None), |time| in_order(input, time))?;
    let ordered = ordered
        .ok_or_else(|| internal_datafusion_err!("the scan below {} has no order of time", input.name()))?;
    Ok(Arc::new(BufferExec::new(ordered, AHEAD_BYTES)))
}

fn properties(
    way: Way,
    [left, right]: [&Arc<dyn ExecutionPlan>; 2],
    (time, matching): (&Arc<dyn PhysicalExpr>, &Matching),
    schema: SchemaRef,
) -> PlanProperties {
    let mut equivalences = EquivalenceProperties::new(schema);
    // Left columns have the same places in the output.
    if keeps_left_order(way, matching) {
        equivalences.add_orderings(left.output_ordering().cloned());
    }
    let partitions = |input: &Arc<dyn ExecutionPlan>| input.output_partitioning().partition_count();
    let partitions = match way {
        Way::BySeries => partitions(left).max(partitions(right)),
        Way::Probe => partitions(left),
        Way::Merge | Way::ProbeInOrder | Way::BySeriesInOrder => {
            // No column of a splice has the time of each row.
            if !matching.is_splice() {
                equivalences.add_orderings([[PhysicalSortExpr::new(Arc::clone(time), TIME_ORDER)]]);
            }
            1
        }
    };
    let emission = match way {
        Way::BySeriesInOrder => EmissionType::Final,
        Way::Merge | Way::Probe | Way::ProbeInOrder | Way::BySeries => EmissionType::Incremental,
    };
    known(equivalences, partitions, emission)
}

/// Whether left rows come one by one in the order they have.
fn keeps_left_order(way: Way, matching: &Matching) -> bool {
    let keeps = matches!(way, Way::Merge | Way::Probe | Way::ProbeInOrder);
    keeps && matches!(matching, Matching::AsOf(_))
}

operator!(TimeJoinExec);

impl Operator for TimeJoinExec {
    fn named(&self) -> &'static str {
        match self.matching {
            Matching::AsOf(_) => "AsOfJoinExec",
            Matching::Around(_) => "SeriesJoinExec",
        }
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right) = &self.times;
        match &self.matching {
            Matching::AsOf(of) => write!(f, "{}: {left} {} {right}, on=[", self.name(), of.options.sign())?,
            Matching::Around(shape) => write!(f, "{}: {}, {left} {right}, on=[", self.name(), shape.kind)?,
        }
        for (index, (left, right)) in self.keys.0.iter().zip(&self.keys.1).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        match &self.matching {
            Matching::AsOf(of) => write!(f, "], {}", of.options)?,
            Matching::Around(shape) => write!(f, "], aggregates=[{}]", shape.aggregates.names().join(", "))?,
        }
        match self.way {
            Way::Merge => Ok(()),
            Way::BySeries => f.write_str(", by series"),
            Way::BySeriesInOrder => f.write_str(", by series, then in time order"),
            Way::Probe => f.write_str(", right rows looked up by series"),
            Way::ProbeInOrder => f.write_str(", right rows looked up by series, in time order"),
        }
    }

    fn needs(&self) -> Vec<Need> {
        let need = |(ordered, time)| if ordered { Need::by_time(time) } else { Need::Any };
        self.are_in_order().into_iter().zip([&self.times.0, &self.times.1]).map(need).collect()
    }

    fn keeps_order(&self) -> Vec<bool> {
        vec![keeps_left_order(self.way, &self.matching), false]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let aggregates = match &self.matching {
            Matching::AsOf(_) => None,
            Matching::Around(shape) => Some(shape.aggregates.exprs()),
        };
        let keys = self.keys.0.iter().chain(&self.keys.1);
        let times = [&self.times.0, &self.times.1].into_iter();
        times.chain(keys).chain(aggregates.into_iter().flatten()).cloned().collect()
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(match known {
            ChildrenPropertiesMode::Keep => self,
            ChildrenPropertiesMode::Recompute => self.with_way(self.way),
        }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.way {
            Way::Merge => self.merge(self.inputs(), output, &context),
            Way::BySeries => self.by_series(output, &context),
            Way::BySeriesInOrder => self.by_series_in_order(&context),
            Way::Probe | Way::ProbeInOrder => probe(self, output, &context),
        }
    }
}
