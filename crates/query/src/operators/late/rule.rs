//! Finds columns that need not be read before it is known which rows are kept.

use super::node::LateColumns;
use crate::dialect::change::ROW_NUMBER;
use crate::operators::latest::node::LatestOn;
use crate::provider::SnapshotTable;
use crate::settings::has_pipeline;
use datafusion::catalog::default_table_source::{DefaultTableSource, provider_as_source};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::logical_plan::builder::LogicalPlanBuilder;
use datafusion::logical_expr::{
    Expr, Extension, Filter, Limit, LogicalPlan, Projection, Sort, SubqueryAlias, TableScan, Window,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Must run after columns that nobody reads were cut off.
#[derive(Debug)]
pub(crate) struct ReadLate;

impl OptimizerRule for ReadLate {
    fn name(&self) -> &str {
        "read_late"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_pipeline(&config.options()) || !plan.exists(|node| Ok(keeps_few(node)))? {
            return Ok(Transformed::no(plan));
        }
        // Numbers of rows that the statement itself asks for are of one table, and may stand for rows that change.
        let numbered = |node: &LogicalPlan| match node {
            LogicalPlan::TableScan(scan) => scan.source.schema().field_with_name(ROW_NUMBER).is_ok(),
            _ => false,
        };
        if plan.exists(|node| Ok(numbered(node)))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down(|node| {
            if !keeps_few(&node) {
                return Ok(Transformed::no(node));
            }
            Ok(match late(&node)? {
                Some(late) => Transformed::new(late, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
    }
}

/// Whether a node keeps few of the rows it must have seen all of.
fn keeps_few(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Filter(filter) => is_over_window(&filter.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        LogicalPlan::Extension(extension) => extension.node.as_any().is::<LatestOn>(),
        _ => false,
    }
}

fn is_over_window(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Window(_) => true,
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Filter(Filter { input, .. }) => is_over_window(input),
        _ => false,
    }
}

/// The node with columns that are read last; `None` where none are.
fn late(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let Some(narrow) = narrowed(node, &BTreeSet::new())? else { return Ok(None) };
    if narrow.late.iter().all(Option::is_none) {
        return Ok(None);
    }
    let schema = Arc::clone(node.schema());
    let Some(number) = number_of(narrow.plan.schema()) else { return Ok(None) };
    let fields = schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    let late = fields.zip(&narrow.late).filter_map(|(field, late)| Some(((*late)?, field)));
    let node = LateColumns::try_new(narrow.plan, number, late.collect())?;
    let all = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    Projection::try_new_with_schema(columns, Arc::new(all), schema)
        .map(|all| Some(LogicalPlan::Projection(all)))
}

/// What the column of numbers is called.
fn number_of(schema: &DFSchema) -> Option<Column> {
    let mut numbers = schema.iter().filter(|(_, field)| field.name() == ROW_NUMBER);
    numbers.next().map(|(qualifier, field)| Column::new(qualifier.cloned(), field.name()))
}

/// A plan without the columns that can be read last, and with the numbers of rows.
struct Narrowed {
    plan: LogicalPlan,
    /// Of each column that the plan had: the column of the table that it is, where it is gone.
    late: Vec<Option<usize>>,
}

/// A plan that yields no more than the columns `wanted` and those that decide which rows there are; `None` where it is
/// not a chain of nodes over one scan.
fn narrowed(plan: &LogicalPlan, wanted: &BTreeSet<usize>) -> Result<Option<Narrowed>> {
    Ok(match plan {
        LogicalPlan::TableScan(scan) => of_scan(scan, wanted)?,
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(Narrowed { plan, late }) = narrowed(&alias.input, wanted)? else { return Ok(None) };
            let alias = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
            Some(Narrowed { plan: LogicalPlan::SubqueryAlias(alias), late })
        }
        LogicalPlan::Filter(filter) => {
            let wanted = with(wanted, [&filter.predicate], filter.input.schema());
            let Some(Narrowed { plan, late }) = narrowed(&filter.input, &wanted)? else { return Ok(None) };
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(plan))?;
            Some(Narrowed { plan: LogicalPlan::Filter(filter), late })
        }
        // In these orders a table yields its rows without a sort, and no more of them than are wanted.
        LogicalPlan::Sort(sort) if is_in_order(sort.expr.iter().map(|by| &by.expr), &sort.input, true) => {
            None
        }
        LogicalPlan::Sort(sort) => {
            let wanted = with(wanted, sort.expr.iter().map(|by| &by.expr), sort.input.schema());
            let Some(Narrowed { plan, late }) = narrowed(&sort.input, &wanted)? else { return Ok(None) };
            let sort = Sort { expr: sort.expr.clone(), input: Arc::new(plan), fetch: sort.fetch };
            Some(Narrowed { plan: LogicalPlan::Sort(sort), late })
        }
        LogicalPlan::Limit(limit) => {
            let Some(Narrowed { plan, late }) = narrowed(&limit.input, wanted)? else { return Ok(None) };
            let limit = Limit { skip: limit.skip.clone(), fetch: limit.fetch.clone(), input: Arc::new(plan) };
            Some(Narrowed { plan: LogicalPlan::Limit(limit), late })
        }
        LogicalPlan::Window(window) => of_window(window, wanted)?,
        LogicalPlan::Projection(projection) => of_projection(projection, wanted)?,
        LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<LatestOn>() {
            // By the series key no row is read but the newest.
            Some(latest) if !is_in_order(&latest.keys, &latest.input, false) => {
                let wanted =
                    with(wanted, std::iter::once(&latest.time).chain(&latest.keys), latest.input.schema());
                let Some(Narrowed { plan, late }) = narrowed(&latest.input, &wanted)? else {
                    return Ok(None);
                };
                let node = LatestOn { input: plan, time: latest.time.clone(), keys: latest.keys.clone() };
                Some(Narrowed { plan: LogicalPlan::Extension(Extension { node: Arc::new(node) }), late })
            }
            _ => None,
        },
        _ => None,
    })
}

/// Whether expressions are columns of the series key of the table that a plan reads, or its designated timestamp where
/// `timed`.
fn is_in_order<'a>(exprs: impl IntoIterator<Item = &'a Expr>, plan: &LogicalPlan, timed: bool) -> bool {
    let LogicalPlan::TableScan(scan) = plan else {
        return plan.inputs().first().is_some_and(|input| is_in_order(exprs, input, timed));
    };
    let Some(table) = table_of(scan) else { return false };
    let schema = table.table().schema();
    exprs.into_iter().all(|expr| match expr {
        Expr::Column(column) => schema.column_index(&column.name).is_some_and(|column| {
            schema.series().contains(&column) || timed && schema.timestamp() == Some(column)
        }),
        _ => false,
    })
}

/// The table that a scan reads, where it is one of ours.
pub(in crate::operators) fn table_of(scan: &TableScan) -> Option<&SnapshotTable> {
    scan.source.downcast_ref::<DefaultTableSource>()?.table_provider.downcast_ref::<SnapshotTable>()
}

/// The columns wanted, and those that expressions read.
fn with<'a>(
    wanted: &BTreeSet<usize>,
    exprs: impl IntoIterator<Item = &'a Expr>,
    input: &DFSchema,
) -> BTreeSet<usize> {
    let mut all = wanted.clone();
    for expr in exprs {
        all.extend(expr.column_refs().into_iter().filter_map(|column| input.maybe_index_of_column(column)));
        // A sub-query may read any of them.
        if expr.exists(|expr| Ok(is_subquery(expr))).unwrap_or(true) {
            all.extend(0..input.fields().len());
        }
    }
    all
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

fn of_scan(scan: &TableScan, wanted: &BTreeSet<usize>) -> Result<Option<Narrowed>> {
    let Some(table) = table_of(scan).filter(|_| scan.fetch.is_none()) else { return Ok(None) };
    let columns = table.table().schema().columns().len();
    let all: Vec<usize> = scan.projection.clone().unwrap_or_else(|| (0..columns).collect());
    let late = all.iter().enumerate().map(|(at, column)| (!wanted.contains(&at)).then_some(*column));
    let kept = all.iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, column)| *column);
    let projection: Vec<usize> = kept.chain([columns]).collect();
    let source = provider_as_source(Arc::new(table.with_numbers()));
    let filters = scan.filters.clone();
    let plan =
        LogicalPlanBuilder::scan_with_filters(scan.table_name.clone(), source, Some(projection), filters)?;
    Ok(Some(Narrowed { plan: plan.build()?, late: late.collect() }))
}

fn of_window(window: &Window, wanted: &BTreeSet<usize>) -> Result<Option<Narrowed>> {
    let input = window.input.schema();
    let below = wanted.iter().copied().filter(|at| *at < input.fields().len()).collect();
    let wanted = with(&below, &window.window_expr, input);
    let Some(Narrowed { plan, mut late }) = narrowed(&window.input, &wanted)? else { return Ok(None) };
    late.extend(window.window_expr.iter().map(|_| None));
    let window = Window::try_new(window.window_expr.clone(), Arc::new(plan))?;
    Ok(Some(Narrowed { plan: LogicalPlan::Window(window), late }))
}

fn of_projection(projection: &Projection, wanted: &BTreeSet<usize>) -> Result<Option<Narrowed>> {
    let input = projection.input.schema();
    // A column that nobody wants here may be read last, whatever its name becomes.
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => input.maybe_index_of_column(column),
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::Column(column) => input.maybe_index_of_column(column),
            _ => None,
        },
        _ => None,
    };
    let passed: Vec<Option<usize>> = projection
        .expr
        .iter()
        .enumerate()
        .map(|(at, expr)| column(expr).filter(|_| !wanted.contains(&at)))
        .collect();
    let read =
        projection.expr.iter().zip(&passed).filter(|(_, passed)| passed.is_none()).map(|(expr, _)| expr);
    let below = with(&BTreeSet::new(), read, input);
    let Some(narrow) = narrowed(&projection.input, &below)? else { return Ok(None) };
    let late: Vec<Option<usize>> = passed.iter().map(|passed| narrow.late[(*passed)?]).collect();
    let kept = projection.expr.iter().zip(&late).filter(|(_, late)| late.is_none());
    let mut exprs: Vec<Expr> = kept.map(|(expr, _)| expr.clone()).collect();
    let Some(number) = number_of(narrow.plan.schema()) else { return Ok(None) };
    exprs.push(Expr::Column(number));
    let projection = Projection::try_new(exprs, Arc::new(narrow.plan))?;
    Ok(Some(Narrowed { plan: LogicalPlan::Projection(projection), late }))
}
