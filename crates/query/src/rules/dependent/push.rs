//! The domain, pushed down a sub-query.

use super::Outer;
use super::reads::{change_subquery, reads_around};
use crate::facts::takes_any_order;
use crate::functions::row_number;
use crate::named::change_named;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, GroupingSet, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, SkipType, Sort, Subquery, Union, Window, binary_expr, cast, lit,
};
use datafusion::prelude::coalesce;
use std::sync::Arc;

/// Most elements of a CUBE that is written out.
const CUBE_MAX: usize = 12;

/// The columns of a plan, then values of the domain beside each of its rows.
pub(super) type Pushed = (LogicalPlan, Vec<Column>);

pub(super) struct Push<'a> {
    pub(super) outer: &'a Outer,
    /// The outer columns that the sub-query reads, the number of a row last where there is one.
    pub(super) keys: &'a [Column],
    /// How many names were given.
    pub(super) names: &'a mut usize,
    /// Whether nothing above goes by the order of rows.
    pub(super) is_free: bool,
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
        let domain = LogicalPlanBuilder::from(self.outer.plan.clone()).project(values.collect::<Vec<_>>())?;
        let domain = if self.outer.number.is_some() { domain } else { domain.distinct()? };
        Ok((domain.build()?, names))
    }

    /// Those of the values that tell rows of the domain apart.
    fn telling<'v>(&self, values: &'v [Column]) -> &'v [Column] {
        if self.outer.number.is_some() { &values[values.len().saturating_sub(1)..] } else { values }
    }

    /// The rows of a plan for each row of the domain; `None` where they cannot be told.
    pub(super) fn pushed(&mut self, plan: &LogicalPlan) -> Result<Option<Pushed>> {
        if !reads_around(plan)? {
            let (domain, values) = self.domain()?;
            let all = LogicalPlanBuilder::from(plan.clone()).cross_join(domain)?.build()?;
            return Ok(Some((all, values)));
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let Some((input, values)) = self.pushed(&filter.input)? else { return Ok(None) };
                let condition = self.bound(filter.predicate.clone(), &values, plan)?;
                Ok(Some((LogicalPlanBuilder::from(input).filter(condition)?.build()?, values)))
            }
            LogicalPlan::Projection(projection) => {
                let Some((input, values)) = self.pushed(&projection.input)? else { return Ok(None) };
                let exprs = self.named(&projection.expr, &values, plan)?;
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
            LogicalPlan::Window(window) => self.window(plan, window),
            LogicalPlan::Aggregate(of) => self.aggregate(plan, of),
            LogicalPlan::Join(join) => self.join(plan, join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => {
                self.is_free = false;
                let Some((input, values)) = self.pushed(&unnest.input)? else { return Ok(None) };
                let (lists, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let rows =
                    LogicalPlanBuilder::from(input).unnest_columns_with_options(lists, options)?.build()?;
                let columns = unnest.schema.columns().into_iter().map(Expr::Column).collect();
                Ok(Some((with_values(rows, columns, &values)?, values)))
            }
            _ => Ok(None),
        }
    }

    /// An expression of a plan with values of the domain in the place of outer columns.
    fn bound(&self, expr: Expr, values: &[Column], of: &LogicalPlan) -> Result<Expr> {
        let own = [merge_schema(&of.inputs())];
        let bound = expr.transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(_, ref column) => Ok(match self.value_of(column, values) {
                Some(value) => Transformed::yes(Expr::Column(value)),
                None => Transformed::no(expr),
            }),
            other => change_subquery(other, |of| self.bound_inside(of, values, &own)),
        })?;
        Ok(bound.data)
    }

    fn value_of(&self, column: &Column, values: &[Column]) -> Option<Column> {
        self.keys.iter().position(|key| key == column).map(|at| values[at].clone())
    }

    /// A sub-query inside, which reads values of the domain as columns of the query around it; columns of `between` are of
    /// queries between it and the domain.
    fn bound_inside(&self, of: Subquery, values: &[Column], between: &[DFSchema]) -> Result<Subquery> {
        let plan = Arc::unwrap_or_clone(of.subquery).transform_up(|plan| {
            let own = merge_schema(&plan.inputs());
            let deeper: Vec<DFSchema> = between.iter().cloned().chain([own]).collect();
            change_named(plan, |expr| {
                expr.transform_up(|expr| match expr {
                    Expr::OuterReferenceColumn(ref field, ref column) => {
                        let is_between =
                            between.iter().any(|schema| schema.maybe_index_of_column(column).is_some());
                        Ok(match self.value_of(column, values).filter(|_| !is_between) {
                            Some(value) => {
                                Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), value))
                            }
                            None => Transformed::no(expr),
                        })
                    }
                    other => change_subquery(other, |of| self.bound_inside(of, values, &deeper)),
                })
            })
        })?;
        let outer_ref_columns = plan.data.all_out_ref_exprs();
        Ok(Subquery { subquery: Arc::new(plan.data), outer_ref_columns, spans: of.spans })
    }

    /// The same of expressions that are columns, under their names.
    fn named(&self, exprs: &[Expr], values: &[Column], of: &LogicalPlan) -> Result<Vec<Expr>> {
        let one = |expr: &Expr| {
            let (table, name) = expr.qualified_name();
            let bound = self.bound(expr.clone(), values, of)?;
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
            let mut exprs = self.named(&projection.expr, &values, plan)?;
            exprs.extend(values.iter().chain([&place]).cloned().map(Expr::Column));
            return Ok(Some((LogicalPlanBuilder::from(input).project(exprs)?.build()?, values, place)));
        }
        let (below, order) = match plan {
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (input.as_ref(), expr.as_slice()),
            other => (other, &[][..]),
        };
        let Some((input, values)) = self.pushed(below)? else { return Ok(None) };
        let order = order.iter().map(|key| Ok(key.with_expr(self.bound(key.expr.clone(), &values, plan)?)));
        let order = order.collect::<Result<Vec<_>>>()?;
        let place = self.name("place");
        let number = row_number().call(Vec::new());
        let number = number.partition_by(self.telling(&values).iter().cloned().map(Expr::Column).collect());
        let number = match order.is_empty() {
            true => number.build()?,
            false => number.order_by(order).build()?,
        };
        let numbered = LogicalPlanBuilder::from(input).window([number.alias(&place.name)])?.build()?;
        Ok(Some((numbered, values, place)))
    }

    fn window(&mut self, plan: &LogicalPlan, window: &Window) -> Result<Option<Pushed>> {
        self.is_free = false;
        let Some((input, values)) = self.pushed(&window.input)? else { return Ok(None) };
        let by = |expr: Expr| {
            let by = expr.transform_up(|expr| {
                let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
                call.params.partition_by.extend(self.telling(&values).iter().cloned().map(Expr::Column));
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            })?;
            Ok::<_, DataFusionError>(by.data)
        };
        let exprs = window.window_expr.iter().map(|expr| {
            let (table, name) = expr.qualified_name();
            let bound = by(self.bound(expr.clone(), &values, plan)?)?;
            Ok(bound.unalias().alias_qualified(table, name))
        });
        let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        let made = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
        let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
        Ok(Some((with_values(made, columns, &values)?, values)))
    }

    fn aggregate(&mut self, plan: &LogicalPlan, of: &Aggregate) -> Result<Option<Pushed>> {
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
            let full = full.iter().map(|set| Ok([by.clone(), self.named(set, &values, plan)?].concat()));
            let mut full = full.collect::<Result<Vec<Vec<Expr>>>>()?;
            let groups = match is_set {
                true => vec![Expr::GroupingSet(GroupingSet::GroupingSets(full))],
                false => full.pop().unwrap_or_default(),
            };
            let aggregates = self.named(&of.aggr_expr, &values, plan)?;
            let made = Aggregate::try_new(Arc::new(input.clone()), groups, aggregates)?;
            let columns = of.schema.columns().into_iter().map(Expr::Column).collect();
            parts.push((with_values(LogicalPlan::Aggregate(made), columns, &values)?, values.clone()));
        }
        for _ in empty {
            parts.push(self.total(plan, of, input.clone(), &values)?);
        }
        self.all(of.schema.columns(), parts).map(Some)
    }

    /// One row for each row of the domain, also where no row is found.
    fn total(
        &mut self,
        plan: &LogicalPlan,
        of: &Aggregate,
        input: LogicalPlan,
        values: &[Column],
    ) -> Result<Pushed> {
        let (domain, all) = self.domain()?;
        let found = self.name("found");
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&found.name));
        let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        let keys = (self.telling(&all).to_vec(), self.telling(values).to_vec());
        let rows = LogicalPlanBuilder::from(domain)
            .join_detailed(input, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
            .build()?;
        let is_found = Expr::Column(found).is_not_null();
        let aggregates = of.aggr_expr.iter().map(|expr| {
            let (table, name) = expr.qualified_name();
            let filtered = self.bound(expr.clone(), values, plan)?.transform_up(|expr| {
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

    fn join(&mut self, plan: &LogicalPlan, join: &Join) -> Result<Option<Pushed>> {
        self.is_free = false;
        if join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer()) {
            return Ok(None);
        }
        let (left, right) = (reads_around(&join.left)?, reads_around(&join.right)?);
        // Which sides are worked out for each row of the domain.
        let (of_left, of_right) = match join.join_type {
            JoinType::Inner if right && !left => (false, true),
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, right),
            JoinType::Right => (left, true),
            JoinType::Full => (true, true),
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
        let filter = join.filter.clone().map(|filter| self.bound(filter, &values, plan)).transpose()?;
        // Both sides are of one row of the domain.
        let equal = self.telling(&of_l).iter().zip(self.telling(&of_r)).map(|(l, r)| {
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
        let joined = LogicalPlan::Join(joined);
        let mut columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
        if join.join_type != JoinType::Full {
            return Ok(Some((with_values(joined, columns, &values)?, values)));
        }
        // Of a row that found none, those of the other side are NULL.
        let either: Vec<Column> = values.iter().map(|_| self.name("outer")).collect();
        columns.extend(
            of_l.into_iter()
                .zip(of_r)
                .zip(&either)
                .map(|((l, r), name)| coalesce(vec![Expr::Column(l), Expr::Column(r)]).alias(&name.name)),
        );
        Ok(Some((LogicalPlanBuilder::from(joined).project(columns)?.build()?, either)))
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
