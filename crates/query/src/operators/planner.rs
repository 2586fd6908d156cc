//! From logical plans, in which nothing claims more than is declared, to physical ones with our operators.

use super::asof::node::AsOfJoin;
use super::barrier::Barrier;
use super::claims::declared;
use super::fill::exec::{FillColumn, FillExec};
use super::fill::node::{Fill, FillWith};
use super::joins::exec::{AsOf, KeyExprs, Matching, TimeJoinExec, Times};
use super::joins::node::Pairing;
use super::late::exec::LateColumnsExec;
use super::late::node::LateColumns;
use super::latest::exec::latest_of;
use super::latest::node::LatestOn;
use super::nbbo::exec::{NbboExec, QuoteColumns};
use super::nbbo::node::Nbbo;
use super::node::Node;
use super::pairwise::exec::PairGroupsExec;
use super::pairwise::node::PairGroups;
use super::pairwise::side::SideExprs;
use super::read_twice::exec::{CommonRowsExec, Rows};
use super::read_twice::node::CommonRows;
use super::sample::bars::exec::{BarRows, BarsExec};
use super::sample::bars::node::Bars;
use super::sample::exec::SampleByExec;
use super::sample::node::SampleBy;
use super::series_join::lower::{Lowered, operator_of};
use super::series_join::node::SeriesJoin;
use super::unkeyed::Unkeyed;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{LoweredAggregate, LoweredAggregateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

type Planned<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// DataFusion's planner with our operators.
#[derive(Debug)]
pub(crate) struct TimeSeriesQueryPlanner;

impl QueryPlanner for TimeSeriesQueryPlanner {
    // Written out, since the attribute that would do it costs seconds of every build.
    fn create_physical_plan<'a, 'b, 'c, 'r>(
        &'a self,
        plan: &'b LogicalPlan,
        session: &'c dyn Session,
    ) -> Planned<'r, Arc<dyn ExecutionPlan>>
    where
        'a: 'r,
        'b: 'r,
        'c: 'r,
        Self: 'r,
    {
        Box::pin(async move {
            let planner =
                DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TimeSeriesPlanner::default())]);
            planner.create_physical_plan(&declared(plan)?, session).await
        })
    }
}

/// Knows the nodes of this folder.
#[derive(Default)]
struct TimeSeriesPlanner {
    /// Rows that several operators of the plan yield, by number.
    common: Mutex<HashMap<u64, Arc<Rows>>>,
}

impl ExtensionPlanner for TimeSeriesPlanner {
    fn plan_extension<'a, 'b, 'c, 'd, 'e, 'f, 'g, 'h, 'r>(
        &'a self,
        planner: &'b dyn PhysicalPlanner,
        node: &'c dyn UserDefinedLogicalNode,
        _logical_inputs: &'d [&'e LogicalPlan],
        physical_inputs: &'f [Arc<dyn ExecutionPlan>],
        session: &'g dyn Session,
        planning: &'h PhysicalPlanningContext,
    ) -> Planned<'r, Option<Arc<dyn ExecutionPlan>>>
    where
        'a: 'r,
        'b: 'r,
        'c: 'r,
        'd: 'r,
        'e: 'r,
        'f: 'r,
        'g: 'r,
        'h: 'r,
        Self: 'r,
    {
        let lowering = Lowering { planner, session, planning, common: &self.common };
        Box::pin(std::future::ready(lowering.plan(node, physical_inputs)))
    }
}

struct Lowering<'a> {
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    planning: &'a PhysicalPlanningContext,
    common: &'a Mutex<HashMap<u64, Arc<Rows>>>,
}

impl Lowering<'_> {
    fn plan(
        &self,
        node: &dyn UserDefinedLogicalNode,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any();
        let input = |index: usize| Arc::clone(&inputs[index]);
        Ok(Some(if let Some(barrier) = node.downcast_ref::<Barrier>() {
            Arc::new(barrier.lowered(input(0)))
        } else if let Some(sample) = node.downcast_ref::<SampleBy>() {
            Arc::new(self.sample(sample, input(0))?)
        } else if let Some(bars) = node.downcast_ref::<Bars>() {
            Arc::new(self.bars(bars, input(0))?)
        } else if let Some(fill) = node.downcast_ref::<Fill>() {
            Arc::new(self.fill(fill, input(0))?)
        } else if let Some(latest) = node.downcast_ref::<LatestOn>() {
            let schema = latest.input.schema();
            let time = self.expr(&latest.time, schema)?;
            latest_of(&input(0), &time, &self.exprs(&latest.keys, schema)?)?
        } else if let Some(common) = node.downcast_ref::<CommonRows>() {
            let mut known = self.common.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::new(CommonRowsExec::new(input(0), Arc::clone(known.entry(common.number).or_default())))
        } else if node.is::<Unkeyed>() {
            input(0)
        } else if let Some(late) = node.downcast_ref::<LateColumns>() {
            Arc::new(Self::late(late, input(0))?)
        } else if let Some(join) = node.downcast_ref::<AsOfJoin>() {
            Arc::new(self.asof(join, [input(0), input(1)])?)
        } else if let Some(nbbo) = node.downcast_ref::<Nbbo>() {
            Arc::new(self.nbbo(nbbo, input(0))?)
        } else if let Some(pairs) = node.downcast_ref::<PairGroups>() {
            Arc::new(self.pairs(pairs, [input(0), input(1)])?)
        } else if let Some(join) = node.downcast_ref::<SeriesJoin>() {
            Arc::new(self.series_join(join, [input(0), input(1)])?)
        } else {
            return Ok(None);
        }))
    }

    fn late(late: &LateColumns, input: Arc<dyn ExecutionPlan>) -> Result<LateColumnsExec> {
        let number = late.input.schema().index_of_column(&late.number)?;
        let output = Arc::clone(late.output().inner());
        Ok(LateColumnsExec::new(input, number, late.columns.as_slice().into(), output))
    }

    fn expr(&self, expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        self.planner.create_physical_expr(expr, schema, self.session, self.planning)
    }

    fn exprs(&self, exprs: &[Expr], schema: &DFSchema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        exprs.iter().map(|expr| self.expr(expr, schema)).collect()
    }

    fn aggregates(
        &self,
        aggregates: &[Expr],
        schema: &DFSchema,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<Vec<LoweredAggregate>> {
        let physical = input.schema();
        let properties = self.session.execution_props();
        let lowered = aggregates.iter().map(|aggregate| {
            LoweredAggregateBuilder::new(aggregate, schema, &physical, properties, self.planning).build()
        });
        lowered.collect()
    }

    fn sample(&self, node: &SampleBy, input: Arc<dyn ExecutionPlan>) -> Result<SampleByExec> {
        let schema = node.input.schema();
        let aggregates = self.aggregates(&node.aggregates, schema, &input)?;
        order_of_time(&aggregates, node.bucketing.awaits_first())?;
        let output = Arc::clone(node.output().inner());
        let (time, keys) = (self.expr(&node.time, schema)?, self.exprs(&node.keys, schema)?);
        Ok(SampleByExec::new(input, Some((time, node.bucketing)), keys, aggregates, output))
    }

    fn bars(&self, node: &Bars, input: Arc<dyn ExecutionPlan>) -> Result<BarsExec> {
        let schema = node.input.schema();
        let aggregates = self.aggregates(&node.aggregates, schema, &input)?;
        let output = Arc::clone(node.output().inner());
        let (time, of) = (self.expr(&node.time, schema)?, self.expr(&node.of, schema)?);
        let rows = BarRows { time, of, keys: self.exprs(&node.keys, schema)? };
        BarsExec::try_new(input, rows, node.size, &aggregates, output)
    }

    fn pairs(&self, node: &PairGroups, inputs: [Arc<dyn ExecutionPlan>; 2]) -> Result<PairGroupsExec> {
        let exprs = node.sides.each_ref().map(|side| {
            let schema = side.input.schema();
            Ok::<_, DataFusionError>(SideExprs {
                on: self.exprs(&side.on, schema)?,
                groups: self.exprs(&side.groups, schema)?,
                values: self.exprs(&side.values, schema)?,
            })
        });
        let [left, right] = exprs;
        let output = Arc::clone(node.output().inner());
        Ok(PairGroupsExec::new(inputs, [left?, right?], &node.keys, &node.measures, output))
    }

    fn fill(&self, node: &Fill, input: Arc<dyn ExecutionPlan>) -> Result<FillExec> {
        let empty = DFSchema::empty();
        let bound = |bound: &Option<Expr>| bound.as_ref().map(|expr| self.expr(expr, &empty)).transpose();
        let fills = node.fills.iter().map(|fill| {
            Ok(match fill {
                FillWith::Null => FillColumn::Null,
                FillWith::Prev => FillColumn::Prev,
                FillWith::PrevOf(column) => FillColumn::PrevOf(*column),
                FillWith::Linear => FillColumn::Linear,
                FillWith::Constant(expr) => FillColumn::Constant(self.expr(expr, &empty)?),
            })
        });
        let fills = fills.collect::<Result<_>>()?;
        let output = Arc::clone(node.output().inner());
        let bounds = (bound(&node.from)?, bound(&node.to)?);
        FillExec::try_new(input, node.keys, node.bucketing, bounds, fills, output)
    }

    fn nbbo(&self, node: &Nbbo, input: Arc<dyn ExecutionPlan>) -> Result<NbboExec> {
        let schema = node.input.schema();
        let expr = |expr: &Expr| self.expr(expr, schema);
        let of = &node.arguments;
        let ([bid, ask], [bid_size, ask_size]) = (&of.prices, &of.sizes);
        let columns = QuoteColumns {
            time: expr(&of.time)?,
            series: self.exprs(&of.series, schema)?,
            venue: expr(&of.venue)?,
            prices: [expr(bid)?, expr(ask)?],
            sizes: [bid_size.as_ref().map(expr).transpose()?, ask_size.as_ref().map(expr).transpose()?],
        };
        let output = Arc::clone(node.output().inner());
        Ok(NbboExec::new(input, columns, output))
    }

    /// The times and the keys of both sides.
    fn pairing(&self, of: &Pairing) -> Result<(Times, (KeyExprs, KeyExprs))> {
        let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = of.keys.iter().cloned().unzip();
        let (left, right) = (of.left.schema(), of.right.schema());
        let times = (self.expr(&of.times.0, left)?, self.expr(&of.times.1, right)?);
        Ok((times, (self.exprs(&left_keys, left)?, self.exprs(&right_keys, right)?)))
    }

    fn asof(&self, node: &AsOfJoin, inputs: [Arc<dyn ExecutionPlan>; 2]) -> Result<TimeJoinExec> {
        let (times, keys) = self.pairing(&node.pairing)?;
        let output = Arc::clone(node.output().inner());
        let of = AsOf { right_columns: node.pairing.right_columns(), options: node.options };
        Ok(TimeJoinExec::new(inputs, times, keys, Matching::AsOf(of), output))
    }

    fn series_join(&self, node: &SeriesJoin, inputs: [Arc<dyn ExecutionPlan>; 2]) -> Result<TimeJoinExec> {
        let (times, keys) = self.pairing(&node.pairing)?;
        let pairs = node.pairs()?;
        let aggregates = node.aggregates.iter().flatten().map(|aggregate| {
            let properties = self.session.execution_props();
            LoweredAggregateBuilder::new(aggregate, &pairs, pairs.inner(), properties, self.planning).build()
        });
        let aggregates = aggregates.collect::<Result<Vec<LoweredAggregate>>>()?;
        operator_of(node, inputs, Lowered { times, keys, aggregates })
    }
}

/// Refuses aggregates that need their rows in an order other than that of time where buckets count from the first row.
fn order_of_time(aggregates: &[LoweredAggregate], from_first: bool) -> Result<()> {
    let hard = |of: &LoweredAggregate| of.aggregate.order_sensitivity().hard_requires();
    if from_first && aggregates.iter().any(hard) {
        return plan_err!(
            "ALIGN TO FIRST OBSERVATION reads rows in order of time, which nth_value(… ORDER BY …) cannot do with: SAMPLE BY in a sub-query with ALIGN TO CALENDAR, or leave its ORDER BY out"
        );
    }
    Ok(())
}
