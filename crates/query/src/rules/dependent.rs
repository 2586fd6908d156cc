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
//! ```
//!
//! NULLs of outer columns are values of the domain: two equalities find them, since a join by `IS NOT DISTINCT FROM` is
//! not what all sub-queries become. Columns of types whose equal values differ elsewhere (0.0 and -0.0, INTERVALs of one
//! length) may only be compared, and no sub-query may be inside; what else there is no word for here is refused
//! ([`super::correlated`], [`super::correlated_keys`]).

use super::correlated::{self, reads_outer};
use super::correlated_keys;
use super::literals::is_comparison;
use super::volatile::varies;
use crate::facts::takes_any_order;
use crate::functions::row_number;
use crate::named::{change_named, has};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, FetchType, GroupingSet, Join, Limit,
    LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Sort, Subquery, SubqueryAlias, Union, Window,
    binary_expr, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::coalesce;
use std::sync::Arc;

/// Most elements of a CUBE that is written out.
const CUBE_MAX: usize = 12;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Dependent {
    /// Has the rows of a plan made once, however often it is read.
    common: Common,
}

type Common = fn(LogicalPlan) -> LogicalPlan;

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
    let [outer] = inputs.as_slice() else { return Ok(Transformed::no(plan)) };
    if !has(&plan, is_dependent)? || reads_outer(outer)? {
        return Ok(Transformed::no(plan));
    }
    let outer = same_each_time(outer, common)?;
    let plan = plan.with_new_exprs(plan.expressions(), vec![outer.clone()])?;
    let mut of = |subquery: Subquery, is_scalar: bool| {
        let made = asked(&subquery, &outer, is_scalar, names)?;
        Ok::<_, DataFusionError>(made.unwrap_or(subquery))
    };
    change_named(plan, |expr| {
        expr.transform_up(|expr| {
            if !is_dependent(&expr) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(match expr {
                Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(of(subquery, true)?),
                Expr::Exists(Exists { subquery, negated }) => {
                    let any = Arc::clone(any_rows(&subquery.subquery));
                    let subquery = Subquery { subquery: any, ..subquery };
                    let is_asked = is_refused(&subquery.subquery, false);
                    let subquery = if is_asked { of(subquery, false)? } else { subquery };
                    Expr::Exists(Exists { subquery, negated })
                }
                Expr::InSubquery(within) => {
                    let subquery = of(within.subquery, false)?;
                    Expr::InSubquery(InSubquery { subquery, ..within })
                }
                Expr::SetComparison(compared) => {
                    let subquery = of(compared.subquery, false)?;
                    Expr::SetComparison(SetComparison { subquery, ..compared })
                }
                other => return Ok(Transformed::no(other)),
            }))
        })
    })
}

/// Whether an expression is a sub-query that this rule is about.
fn is_dependent(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(of)
        | Expr::Exists(Exists { subquery: of, .. })
        | Expr::InSubquery(InSubquery { subquery: of, .. })
        | Expr::SetComparison(SetComparison { subquery: of, .. }) => is_refused(&of.subquery, false),
        _ => false,
    }
}

/// Whether the joins that DataFusion makes of a sub-query would be wrong, or it makes none.
fn is_refused(plan: &LogicalPlan, is_lateral: bool) -> bool {
    reads_outer(plan).is_ok_and(|reads| reads)
        && (correlated::check(plan).is_err()
            || correlated_keys::check(plan).is_err()
            || correlated_keys::has_no_key(plan).is_ok_and(|has| has)
            || is_lateral && correlated_keys::check_distinct(plan).is_err())
}

/// The rows of EXISTS, of which a LIMIT leaves one where there is one.
fn any_rows(plan: &Arc<LogicalPlan>) -> &Arc<LogicalPlan> {
    match plan.as_ref() {
        LogicalPlan::Sort(sort) => any_rows(&sort.input),
        LogicalPlan::Limit(limit) if leaves_one(limit) => any_rows(&limit.input),
        LogicalPlan::Projection(of) if matches!(*of.input, LogicalPlan::Sort(_) | LogicalPlan::Limit(_)) => {
            any_rows(&of.input)
        }
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
    if !is_refused(&subquery.subquery, true) || reads_outer(&join.left)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let left = same_each_time(&join.left, common)?;
    let Some(made) = asked(subquery, &left, false, names)? else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let right = Arc::new(with_subquery(&join.right, made)?);
    Ok(Transformed::yes(LogicalPlan::Join(Join { left: Arc::new(left), right, ..join })))
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
fn same_each_time(plan: &LogicalPlan, common: Common) -> Result<LogicalPlan> {
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
    outer: &LogicalPlan,
    is_scalar: bool,
    names: &mut usize,
) -> Result<Option<Subquery>> {
    let plan = &subquery.subquery;
    if is_scalar && !is_one_at_most(plan) || varies(plan)? {
        return Ok(None);
    }
    let inside =
        plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Subquery(_)) || has(plan, is_subquery)?))?;
    let read = plan.all_out_ref_exprs();
    let mut keys = Vec::with_capacity(read.len());
    for expr in &read {
        let Some(key) = key(expr, outer, plan)? else { return Ok(None) };
        keys.push(key);
    }
    if inside || keys.is_empty() {
        return Ok(None);
    }
    let mut push = Push { outer, keys: &keys, names, is_free: true };
    let Some((found, values)) = push.pushed(plan)? else { return Ok(None) };
    let conditions = read.iter().zip(&values);
    let conditions =
        conditions.map(|(outer, value)| same(outer.clone(), Expr::Column(value.clone()), &found));
    let Some(condition) = conjunction(conditions.collect::<Result<Vec<_>>>()?.into_iter().flatten()) else {
        return Ok(None);
    };
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
    let outer_ref_columns = picked.all_out_ref_exprs();
    let spans = subquery.spans.clone();
    Ok(Some(Subquery { subquery: Arc::new(picked), outer_ref_columns, spans }))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

/// The column of a plan that an outer reference in a sub-query reads, where equal values are the same to the sub-query.
fn key(expr: &Expr, outer: &LogicalPlan, within: &LogicalPlan) -> Result<Option<Column>> {
    let Expr::OuterReferenceColumn(field, column) = expr else { return Ok(None) };
    let of = field.data_type();
    if of.is_nested() || of.is_null() || default_of(of).is_err() {
        return Ok(None);
    }
    let is_exact = !of.is_floating() && !matches!(of, DataType::Interval(_));
    let is_known = outer.schema().maybe_index_of_column(column).is_some();
    Ok((is_known && (is_exact || is_only_compared(expr, within)?)).then(|| column.clone()))
}

/// Whether a plan does nothing with an expression but compare it.
fn is_only_compared(wanted: &Expr, plan: &LogicalPlan) -> Result<bool> {
    let (mut all, mut compared) = (0_usize, 0_usize);
    plan.apply(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                all += usize::from(expr == wanted);
                let sides: Vec<&Expr> = match expr {
                    Expr::BinaryExpr(of) if is_comparison(of.op) => vec![&of.left, &of.right],
                    Expr::Between(of) => vec![&of.expr, &of.low, &of.high],
                    _ => Vec::new(),
                };
                compared += sides.into_iter().filter(|side| *side == wanted).count();
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all == compared)
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
fn is_one_at_most(plan: &LogicalPlan) -> bool {
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
        _ => false,
    }
}

/// The columns of a plan, then values of the domain beside each of its rows.
type Pushed = (LogicalPlan, Vec<Column>);

struct Push<'a> {
    outer: &'a LogicalPlan,
    /// The outer columns that the sub-query reads.
    keys: &'a [Column],
    /// How many names were given.
    names: &'a mut usize,
    /// Whether nothing above goes by the order of rows.
    is_free: bool,
}

impl Push<'_> {
    fn name(&mut self, what: &str) -> Column {
        *self.names += 1;
        Column::new_unqualified(format!("__{what}_{}", self.names))
    }

    /// The values of the outer columns, each once.
    fn domain(&mut self) -> Result<Pushed> {
        let keys = self.keys;
        let names: Vec<Column> = keys.iter().map(|_| self.name("outer")).collect();
        let values = keys.iter().zip(&names);
        let values = values.map(|(key, name)| Expr::Column(key.clone()).alias(&name.name));
        let domain = LogicalPlanBuilder::from(self.outer.clone()).project(values.collect::<Vec<_>>())?;
        Ok((domain.distinct()?.build()?, names))
    }

    /// The rows of a plan for each row of the domain; `None` where they cannot be told.
    fn pushed(&mut self, plan: &LogicalPlan) -> Result<Option<Pushed>> {
        if !reads_outer(plan)? {
            let (domain, values) = self.domain()?;
            let all = LogicalPlanBuilder::from(plan.clone()).cross_join(domain)?.build()?;
            return Ok(Some((all, values)));
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let Some((input, values)) = self.pushed(&filter.input)? else { return Ok(None) };
                let condition = self.bound(filter.predicate.clone(), &values)?;
                Ok(Some((LogicalPlanBuilder::from(input).filter(condition)?.build()?, values)))
            }
            LogicalPlan::Projection(projection) => {
                let Some((input, values)) = self.pushed(&projection.input)? else { return Ok(None) };
                let exprs = self.named(&projection.expr, &values)?;
                Ok(Some((with_values(input, exprs, &values)?, values)))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, values)) = self.pushed(&alias.input)? else { return Ok(None) };
                let columns = alias.input.schema().columns().into_iter().zip(alias.schema.columns());
                let renamed =
                    columns.map(|(from, to)| Expr::Column(from).alias_qualified(to.relation, to.name));
                Ok(Some((with_values(input, renamed.collect(), &values)?, values)))
            }
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) if self.is_free => self.pushed(input),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                self.is_free = false;
                let Some((input, values)) = self.pushed(input)? else { return Ok(None) };
                Ok(Some((LogicalPlanBuilder::from(input).distinct()?.build()?, values)))
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Aggregate(of) => self.aggregate(of),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            _ => Ok(None),
        }
    }

    /// An expression with values of the domain in the place of outer columns.
    fn bound(&self, expr: Expr, values: &[Column]) -> Result<Expr> {
        let bound = expr.transform_up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else { return Ok(Transformed::no(expr)) };
            let at = self.keys.iter().position(|key| key == column);
            Ok(at.map_or(Transformed::no(expr), |at| Transformed::yes(Expr::Column(values[at].clone()))))
        })?;
        Ok(bound.data)
    }

    /// The same of expressions that are columns, under their names.
    fn named(&self, exprs: &[Expr], values: &[Column]) -> Result<Vec<Expr>> {
        let one = |expr: &Expr| {
            let (table, name) = expr.qualified_name();
            let bound = self.bound(expr.clone(), values)?;
            let is_named = bound.qualified_name() == (table.clone(), name.clone());
            Ok(if is_named { bound } else { bound.unalias().alias_qualified(table, name) })
        };
        exprs.iter().map(one).collect()
    }

    fn limit(&mut self, limit: &Limit) -> Result<Option<Pushed>> {
        let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) =
            (limit.get_skip_type(), limit.get_fetch_type())
        else {
            return Ok(None);
        };
        let Some((input, values, place)) = self.placed(&limit.input)? else { return Ok(None) };
        let number = |count: usize| lit(i64::try_from(count).unwrap_or(i64::MAX));
        let place = Expr::Column(place);
        let after = place.clone().gt(number(skip));
        let condition = match fetch {
            Some(fetch) => after.and(place.lt_eq(number(skip.saturating_add(fetch)))),
            None => after,
        };
        let picked = LogicalPlanBuilder::from(input).filter(condition)?.build()?;
        let columns = limit.input.schema().columns().into_iter().map(Expr::Column).collect();
        Ok(Some((with_values(picked, columns, &values)?, values)))
    }

    /// The rows of a plan, with the place of each among those of one outer row in a last column.
    fn placed(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Column>, Column)>> {
        if let LogicalPlan::Projection(projection) = plan {
            let Some((input, values, place)) = self.placed(&projection.input)? else { return Ok(None) };
            let mut exprs = self.named(&projection.expr, &values)?;
            exprs.extend(values.iter().chain([&place]).cloned().map(Expr::Column));
            return Ok(Some((LogicalPlanBuilder::from(input).project(exprs)?.build()?, values, place)));
        }
        let (below, order) = match plan {
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (input.as_ref(), expr.as_slice()),
            other => (other, &[][..]),
        };
        let Some((input, values)) = self.pushed(below)? else { return Ok(None) };
        let order = order.iter().map(|key| Ok(key.with_expr(self.bound(key.expr.clone(), &values)?)));
        let order = order.collect::<Result<Vec<_>>>()?;
        let place = self.name("place");
        let number = row_number().call(Vec::new());
        let number = number.partition_by(values.iter().cloned().map(Expr::Column).collect());
        let number = match order.is_empty() {
            true => number.build()?,
            false => number.order_by(order).build()?,
        };
        let numbered = LogicalPlanBuilder::from(input).window([number.alias(&place.name)])?.build()?;
        Ok(Some((numbered, values, place)))
    }

    fn window(&mut self, window: &Window) -> Result<Option<Pushed>> {
        self.is_free = false;
        let Some((input, values)) = self.pushed(&window.input)? else { return Ok(None) };
        let by = |expr: Expr| {
            let by = expr.transform_up(|expr| {
                let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                call.params.partition_by.extend(values.iter().cloned().map(Expr::Column));
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            })?;
            Ok::<_, DataFusionError>(by.data)
        };
        let exprs = window.window_expr.iter().map(|expr| {
            let (table, name) = expr.qualified_name();
            let bound = by(self.bound(expr.clone(), &values)?)?;
            Ok(bound.unalias().alias_qualified(table, name))
        });
        let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        let made = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
        let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
        Ok(Some((with_values(made, columns, &values)?, values)))
    }

    fn aggregate(&mut self, of: &Aggregate) -> Result<Option<Pushed>> {
        let is_set = matches!(of.group_expr[..], [Expr::GroupingSet(_)]);
        let Some(sets) = sets_of(&of.group_expr) else { return Ok(None) };
        let (empty, full): (Vec<_>, Vec<_>) = sets.into_iter().partition(Vec::is_empty);
        let calls_grouping =
            |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "grouping");
        let tells_sets =
            of.aggr_expr.iter().any(|expr| expr.exists(|expr| Ok(calls_grouping(expr))).unwrap_or(true));
        if tells_sets && !empty.is_empty() {
            return Ok(None);
        }
        self.is_free = !of.aggr_expr.iter().any(goes_by_order);
        let Some((input, values)) = self.pushed(&of.input)? else { return Ok(None) };
        let mut parts: Vec<Pushed> = Vec::new();
        if !full.is_empty() {
            let by: Vec<Expr> = values.iter().cloned().map(Expr::Column).collect();
            let full = full.iter().map(|set| Ok([by.clone(), self.named(set, &values)?].concat()));
            let mut full = full.collect::<Result<Vec<Vec<Expr>>>>()?;
            let groups = match is_set {
                true => vec![Expr::GroupingSet(GroupingSet::GroupingSets(full))],
                false => full.pop().unwrap_or_default(),
            };
            let aggregates = self.named(&of.aggr_expr, &values)?;
            let made = Aggregate::try_new(Arc::new(input.clone()), groups, aggregates)?;
            let columns = of.schema.columns().into_iter().map(Expr::Column).collect();
            parts.push((with_values(LogicalPlan::Aggregate(made), columns, &values)?, values.clone()));
        }
        for _ in empty {
            parts.push(self.total(of, input.clone(), &values)?);
        }
        self.all(of.schema.columns(), parts).map(Some)
    }

    /// One row for each row of the domain, also where no row is found.
    fn total(&mut self, of: &Aggregate, input: LogicalPlan, values: &[Column]) -> Result<Pushed> {
        let (domain, all) = self.domain()?;
        let found = self.name("found");
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&found.name));
        let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        let keys = (all.clone(), values.to_vec());
        let rows = LogicalPlanBuilder::from(domain)
            .join_detailed(input, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
            .build()?;
        let is_found = Expr::Column(found).is_not_null();
        let aggregates = of.aggr_expr.iter().map(|expr| {
            let (table, name) = expr.qualified_name();
            let filtered = self.bound(expr.clone(), values)?.transform_up(|expr| {
                let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                let filter = call.params.filter.take().map(|filter| *filter);
                let filter = conjunction(filter.into_iter().chain([is_found.clone()]));
                call.params.filter = filter.map(Box::new);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            })?;
            Ok(filtered.data.unalias().alias_qualified(table, name))
        });
        let aggregates = aggregates.collect::<Result<Vec<Expr>>>()?;
        let groups: Vec<Expr> = all.iter().cloned().map(Expr::Column).collect();
        let made = Aggregate::try_new(Arc::new(rows), groups, aggregates)?;
        // Of no group, what it would be grouped by is NULL.
        let grouped = of.schema.fields().len() - of.aggr_expr.len();
        let columns = of.schema.iter().enumerate().map(|(at, (table, field))| {
            let column = Column::new(table.cloned(), field.name());
            match at < grouped {
                true => {
                    let none = cast(lit(ScalarValue::Null), field.data_type().clone());
                    none.alias_qualified(column.relation, column.name)
                }
                false => Expr::Column(column),
            }
        });
        Ok((with_values(LogicalPlan::Aggregate(made), columns.collect(), &all)?, all))
    }

    fn union(&mut self, union: &Union) -> Result<Option<Pushed>> {
        self.is_free = false;
        let mut parts = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(part) = self.pushed(input)? else { return Ok(None) };
            parts.push(part);
        }
        self.all(union.schema.columns(), parts).map(Some)
    }

    /// The rows of parts whose columns are these, in this order.
    fn all(&mut self, columns: Vec<Column>, parts: Vec<Pushed>) -> Result<Pushed> {
        let keys = self.keys;
        let values: Vec<Column> = keys.iter().map(|_| self.name("outer")).collect();
        let names: Vec<Column> = columns.into_iter().chain(values.iter().cloned()).collect();
        let renamed = |plan: LogicalPlan| {
            let columns = plan.schema().columns().into_iter().zip(&names);
            let columns: Vec<Expr> = columns
                .map(|(from, to)| Expr::Column(from).alias_qualified(to.relation.clone(), &to.name))
                .collect();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        };
        let mut parts = parts.into_iter().map(|(plan, _)| plan);
        let Some(first) = parts.next() else {
            return Ok((LogicalPlanBuilder::empty(false).build()?, values));
        };
        let all = parts.try_fold(first, |all, part| LogicalPlanBuilder::from(all).union(part)?.build())?;
        Ok((renamed(all)?, values))
    }

    fn join(&mut self, join: &Join) -> Result<Option<Pushed>> {
        self.is_free = false;
        if join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer()) {
            return Ok(None);
        }
        let (left, right) = (reads_outer(&join.left)?, reads_outer(&join.right)?);
        // Which sides are worked out for each row of the domain.
        let (of_left, of_right) = match join.join_type {
            JoinType::Inner if right && !left => (false, true),
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, right),
            JoinType::Right => (left, true),
            _ => return Ok(None),
        };
        let mut side = |plan: &Arc<LogicalPlan>, is_of: bool| match is_of {
            true => self.pushed(plan),
            false => Ok(Some((plan.as_ref().clone(), Vec::new()))),
        };
        let (Some((l, of_l)), Some((r, of_r))) = (side(&join.left, of_left)?, side(&join.right, of_right)?)
        else {
            return Ok(None);
        };
        let values =
            if join.join_type == JoinType::Right || of_l.is_empty() { of_r.clone() } else { of_l.clone() };
        let filter = join.filter.clone().map(|filter| self.bound(filter, &values)).transpose()?;
        // Both sides are of one row of the domain.
        let equal = of_l.iter().zip(&of_r).map(|(l, r)| {
            binary_expr(Expr::Column(l.clone()), Operator::IsNotDistinctFrom, Expr::Column(r.clone()))
        });
        let filter = conjunction(filter.into_iter().chain(equal));
        let joined = Join::try_new(
            Arc::new(l),
            Arc::new(r),
            join.on.clone(),
            filter,
            join.join_type,
            JoinConstraint::On,
            join.null_equality,
            join.null_aware,
        )?;
        let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
        Ok(Some((with_values(LogicalPlan::Join(joined), columns, &values)?, values)))
    }
}

/// Whether the value of an aggregate depends on the order of rows.
fn goes_by_order(expr: &Expr) -> bool {
    let goes =
        |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if !takes_any_order(call.func.name()));
    expr.exists(|expr| Ok(goes(expr))).unwrap_or(true)
}

/// A list, and the values of the domain after it.
fn with_values(input: LogicalPlan, mut exprs: Vec<Expr>, values: &[Column]) -> Result<LogicalPlan> {
    exprs.extend(values.iter().cloned().map(Expr::Column));
    LogicalPlanBuilder::from(input).project(exprs)?.build()
}

/// The sets that rows are grouped by; `None` where there are too many.
fn sets_of(groups: &[Expr]) -> Option<Vec<Vec<Expr>>> {
    let [Expr::GroupingSet(sets)] = groups else { return Some(vec![groups.to_vec()]) };
    Some(match sets {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|taken| keys[..taken].to_vec()).collect(),
        GroupingSet::Cube(keys) if keys.len() <= CUBE_MAX => {
            let set = |taken: usize| {
                let keys = keys.iter().enumerate().filter(|(at, _)| taken >> at & 1 == 1);
                keys.map(|(_, key)| key.clone()).collect()
            };
            (0..1_usize << keys.len()).rev().map(set).collect()
        }
        GroupingSet::Cube(_) => return None,
    })
}
