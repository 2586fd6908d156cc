//! Sub-queries that read columns of the query around them in forms that DataFusion 55.2 has no join for: worked out for
//! all outer rows at once.
//!
//! Such a sub-query depends on the values of the outer columns it reads. The rule lists these, each once (the domain),
//! has every part of the sub-query yield its rows for each of them, with the values beside, and leaves a condition that
//! picks those of an outer row, for which DataFusion has a join. This is the dependent join of Neumann and Kemper
//! (Unnesting Arbitrary Queries, 2015), pushed down to where nothing depends on an outer row any more:
//!
//! ```text
//! part, for each row of the domain D        written as
//! a table                                   D × table
//! a condition, a list, a join               the same, with D's values for outer columns
//! GROUP BY k, DISTINCT, a window            by D's values and k
//! an aggregate without groups, a set ()     D LEFT JOIN rows, FILTER (WHERE a row was found), grouped by D's values
//! ORDER BY k LIMIT n                        row_number() OVER (PARTITION BY D's values ORDER BY k) <= n
//! a join whose other side depends alone     both sides for each row of D, joined by its values, too
//! a sub-query inside                        the same, reading D's values as columns of the query around it
//! UNNEST                                    of the lists beside D's values
//! ```
//!
//! NULLs of outer columns are values of the domain: two equalities find them, since a join by `IS NOT DISTINCT FROM` is
//! not what all sub-queries become. Equal values of some types differ elsewhere (0.0 and -0.0, INTERVALs of one length),
//! and lists are no keys: where a sub-query does more than compare such a column, outer rows are numbered, and D has each.
//!
//! A sub-query inside that reads a column of a query further out makes its own query one that depends on that. The
//! outermost is pushed down first; those inside read columns of the query around them then, and come next. LATERAL may not
//! be inside; what else there is no word for here is refused ([`super::correlated`], [`super::correlated_keys`]).

mod push;
mod reads;

pub(super) use reads::{around, is_refused, read_through, reads_around, subquery_of};

use super::correlated::Correlated;
use super::correlated_keys;
use super::volatile::varies;
use crate::functions::row_number;
use crate::named::{change_named, has};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, FetchType, Join, Limit, LogicalPlan, LogicalPlanBuilder, SkipType,
    Subquery, SubqueryAlias, lit,
};
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::{AnalyzerRule, OptimizerContext, OptimizerRule};
use datafusion::prelude::coalesce;
use push::Push;
use reads::{change_subquery, has_lateral, has_outer_aggregate, is_dependent, is_exact};
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Dependent {
    /// Has the rows of a plan made once, however often it is read.
    common: Common,
}

pub(super) type Common = fn(LogicalPlan) -> LogicalPlan;

impl Dependent {
    pub(crate) fn new(common: Common) -> Self {
        Self { common }
    }
}

impl AnalyzerRule for Dependent {
    fn name(&self) -> &str {
        "dependent"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = 0;
        let changed = plan.transform_up_with_subqueries(|plan| settle(plan, self.common, &mut names))?;
        if changed.transformed { correlated_keys::renewed(changed.data) } else { Ok(changed.data) }
    }
}

/// A plan whose sub-queries are in other words where they need them.
fn settle(plan: LogicalPlan, common: Common, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Join(join) = plan {
        return lateral(join, common, names);
    }
    let inputs = plan.inputs();
    let [input] = inputs.as_slice() else { return Ok(Transformed::no(plan)) };
    if !has(&plan, is_dependent)? || reads_around(input)? {
        return Ok(Transformed::no(plan));
    }
    let mut subqueries = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            subqueries.extend(subquery_of(expr).filter(|of| is_refused(&of.subquery, false)).cloned());
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let outer = Outer::of(input, &subqueries, common, names)?;
    let shown: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let plan = plan.with_new_exprs(plan.expressions(), vec![outer.plan.clone()])?;
    let changed = change_named(plan, |expr| {
        expr.transform_up(|expr| {
            if !is_dependent(&expr) {
                return Ok(Transformed::no(expr));
            }
            let (is_scalar, is_exists) =
                (matches!(expr, Expr::ScalarSubquery(_)), matches!(expr, Expr::Exists(_)));
            change_subquery(expr, |subquery| {
                let any = if is_exists { any_rows(&subquery.subquery) } else { &subquery.subquery };
                let subquery = Subquery { subquery: Arc::clone(any), ..subquery };
                if !is_refused(&subquery.subquery, false) {
                    return Ok(subquery);
                }
                Ok(asked(&subquery, &outer, is_scalar, common, names)?.unwrap_or(subquery))
            })
        })
    })?;
    if changed.data.schema().fields().len() == shown.len() {
        return Ok(changed);
    }
    changed.map_data(|plan| LogicalPlanBuilder::from(plan).project(shown)?.build())
}

/// The query around sub-queries.
struct Outer {
    plan: LogicalPlan,
    /// The number of each of its rows, where values that the sub-queries read do not tell them.
    number: Option<Column>,
}

impl Outer {
    fn of(plan: &LogicalPlan, subqueries: &[Subquery], common: Common, names: &mut usize) -> Result<Self> {
        let plan = &without_laterals(plan)?;
        let mut is_told = true;
        for subquery in subqueries {
            for expr in around(&subquery.subquery)? {
                is_told &= is_exact(&expr, &subquery.subquery)?;
            }
        }
        if is_told {
            return Ok(Self { plan: same_each_time(plan, common)?, number: None });
        }
        *names += 1;
        let name = format!("__row_{names}");
        let number = row_number().call(Vec::new()).alias(&name);
        let plan = LogicalPlanBuilder::from(plan.clone()).window([number])?.build()?;
        Ok(Self { plan: common(plan), number: Some(Column::new_unqualified(name)) })
    }
}

/// A plan with joins in the place of its LATERAL queries: conditions on columns around the domain are told from those of
/// queries inside by that alone.
fn without_laterals(plan: &LogicalPlan) -> Result<LogicalPlan> {
    if !has_lateral(plan)? {
        return Ok(plan.clone());
    }
    let told_apart = Correlated.analyze(plan.clone(), &ConfigOptions::default())?;
    let (rule, context) = (DecorrelateLateralJoin::new(), OptimizerContext::new());
    Ok(told_apart.transform_down(|plan| rule.rewrite(plan, &context))?.data)
}

/// The rows of EXISTS: its list does not matter, and a LIMIT leaves one where there is one.
fn any_rows(plan: &Arc<LogicalPlan>) -> &Arc<LogicalPlan> {
    match plan.as_ref() {
        LogicalPlan::Sort(sort) => any_rows(&sort.input),
        LogicalPlan::Limit(limit) if leaves_one(limit) => any_rows(&limit.input),
        LogicalPlan::Projection(of) => any_rows(&of.input),
        _ => plan,
    }
}

fn leaves_one(limit: &Limit) -> bool {
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(fetch)) if fetch != Some(0))
}

/// LATERAL.
fn lateral(join: Join, common: Common, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let Some(subquery) = correlated_keys::lateral(&join.right) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    if !is_refused(&subquery.subquery, true) || reads_around(&join.left)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left = Outer::of(&join.left, std::slice::from_ref(subquery), common, names)?;
    let Some(made) = asked(subquery, &left, false, common, names)? else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let right = with_subquery(&join.right, made)?;
    if left.number.is_none() {
        let (left, right) = (Arc::new(left.plan), Arc::new(right));
        return Ok(Transformed::yes(LogicalPlan::Join(Join { left, right, ..join })));
    }
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined = Join::try_new(
        Arc::new(left.plan),
        Arc::new(right),
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()?))
}

fn with_subquery(plan: &LogicalPlan, made: Subquery) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let input = Arc::new(with_subquery(&alias.input, made)?);
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        _ => LogicalPlan::Subquery(made),
    })
}

/// A plan that is read twice, and gives the same rows both times.
pub(super) fn same_each_time(plan: &LogicalPlan, common: Common) -> Result<LogicalPlan> {
    let is_plain = |plan: &LogicalPlan| {
        matches!(
            plan,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Union(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::Distinct(Distinct::All(_))
        )
    };
    let is_same = !plan.exists(|plan| Ok(!is_plain(plan)))? && !varies(plan)?;
    Ok(if is_same { plan.clone() } else { common(plan.clone()) })
}

/// A sub-query over a plan in other words; `None` where it stays.
fn asked(
    subquery: &Subquery,
    outer: &Outer,
    is_scalar: bool,
    common: Common,
    names: &mut usize,
) -> Result<Option<Subquery>> {
    let plan = &subquery.subquery;
    if is_scalar && !is_one_at_most(plan) || varies(plan)? || has_lateral(plan)? || has_outer_aggregate(plan)?
    {
        return Ok(None);
    }
    let read = around(plan)?;
    let mut keys = Vec::with_capacity(read.len() + 1);
    for expr in &read {
        let Expr::OuterReferenceColumn(_, column) = expr else { return Ok(None) };
        if outer.plan.schema().maybe_index_of_column(column).is_none() {
            return Ok(None);
        }
        keys.push(column.clone());
    }
    if keys.is_empty() {
        return Ok(None);
    }
    keys.extend(outer.number.clone());
    let mut push = Push { outer, keys: &keys, names, is_free: true };
    let Some((found, values)) = push.pushed(plan)? else { return Ok(None) };
    let conditions: Vec<Expr> = match (&outer.number, values.last()) {
        (Some(number), Some(value)) => {
            let field = outer.plan.schema().field_from_column(number)?;
            let number = Expr::OuterReferenceColumn(Arc::clone(field), number.clone());
            vec![Expr::Column(value.clone()).eq(number)]
        }
        _ => {
            let each = read.iter().zip(&values);
            let each = each.map(|(outer, value)| same(outer.clone(), Expr::Column(value.clone()), &found));
            each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
    };
    let Some(condition) = conjunction(conditions) else { return Ok(None) };
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let picked = LogicalPlanBuilder::from(found).filter(condition)?;
    let picked = match (is_scalar, columns.as_slice()) {
        (true, [Expr::Column(column)]) => {
            // There is one row at most, and DataFusion asks for an aggregate.
            let name = column.clone();
            let first = first_value_udaf().call(vec![Expr::Column(column.clone())]);
            let first = first.alias_qualified(name.relation, name.name);
            picked.aggregate(Vec::<Expr>::new(), [first])?.build()?
        }
        (true, _) => return Ok(None),
        (false, _) => picked.project(columns)?.build()?,
    };
    // Those inside read columns of this one now.
    let picked = picked.transform_up_with_subqueries(|plan| settle(plan, common, names))?.data;
    let outer_ref_columns = picked.all_out_ref_exprs();
    let spans = subquery.spans.clone();
    Ok(Some(Subquery { subquery: Arc::new(picked), outer_ref_columns, spans }))
}

/// That a value of the domain is the one of an outer row.
fn same(outer: Expr, value: Expr, of: &LogicalPlan) -> Result<Vec<Expr>> {
    if !value.nullable(of.schema())? {
        return Ok(vec![value.eq(outer)]);
    }
    let default = lit(default_of(&value.get_type(of.schema())?)?);
    let or_default = |expr: Expr| coalesce(vec![expr, default.clone()]);
    let values = or_default(value.clone()).eq(or_default(outer.clone()));
    Ok(vec![values, value.is_null().eq(outer.is_null())])
}

/// Some value of a type.
fn default_of(data_type: &DataType) -> Result<ScalarValue> {
    match data_type {
        DataType::Dictionary(_, values) => ScalarValue::new_default(values),
        other => ScalarValue::new_default(other),
    }
}

/// Whether a plan gives one row at most for each row around it.
pub(super) fn is_one_at_most(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_at_most(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_at_most(&alias.input),
        LogicalPlan::Sort(sort) => is_one_at_most(&sort.input),
        LogicalPlan::Filter(filter) => is_one_at_most(&filter.input),
        LogicalPlan::Window(window) => is_one_at_most(&window.input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
                || is_one_at_most(&limit.input)
        }
        LogicalPlan::Aggregate(of) => of.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(of) => of.values.len() <= 1,
        _ => false,
    }
}
