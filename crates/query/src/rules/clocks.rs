//! Which TIMESTAMPs are instants, and which are what the clocks of a zone showed: TIMESTAMP WITHOUT TIME ZONE, the result
//! of `ts AT TIME ZONE zone` and whatever is made of it. `AT TIME ZONE` of a clock goes back to the instant, as in
//! `date_trunc('day', ts AT TIME ZONE z) AT TIME ZONE z`. A clock that is compared with an instant, or may stand in its
//! place, is refused: one of the two is meant to be the other.
//!
//! Both are of one Arrow type, so that this goes by what expressions are made of. Columns of tables are instants; constants
//! are what they stand beside. Columns of a result that are clocks say so ([`as_clock`]).

use crate::dialect::materialized::view_of_stored;
use crate::functions::{AT_TIME_ZONE, OF_CLOCK, as_clock, of_clock};
use crate::named::{change_named, has};
use crate::rules::literals::is_comparison;
use crate::stack::on_enough_stack;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Diagnostic, TableReference, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Projection, Subquery, TryCast,
};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashMap;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Clocks;

impl AnalyzerRule for Clocks {
    fn name(&self) -> &str {
        "clocks"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|plan| {
            found = has(plan, |expr| is_call(expr, AT_TIME_ZONE))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(plan);
        }
        let (plan, kinds) = Reader::default().plan(plan)?;
        told(plan, &kinds)
    }
}

/// The plan with its clocks known as such by who reads its rows.
fn told(plan: LogicalPlan, kinds: &[Kind]) -> Result<LogicalPlan> {
    let is_clock = |at: usize, field: &Field| {
        kinds.get(at) == Some(&Kind::Clock) && matches!(field.data_type(), DataType::Timestamp(..))
    };
    if !plan.schema().fields().iter().enumerate().any(|(at, field)| is_clock(at, field)) {
        return Ok(plan);
    }
    let column = |(at, (qualifier, field)): (usize, (Option<&TableReference>, &FieldRef))| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match is_clock(at, field) {
            true => as_clock().call(vec![column]).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    };
    let columns: Vec<Expr> = plan.schema().iter().enumerate().map(column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == name)
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No time, or a constant.
    Any,
    Instant,
    Clock,
}

impl Kind {
    /// Of a value of which nothing but the type is known.
    fn of_type(data_type: &DataType) -> Self {
        if holds_time(data_type) { Self::Instant } else { Self::Any }
    }

    /// Of what is made of values of these kinds.
    fn of_parts(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::Any, |all, part| match (all, part) {
            (Self::Clock, _) | (_, Self::Clock) => Self::Clock,
            (Self::Instant, _) | (_, Self::Instant) => Self::Instant,
            _ => Self::Any,
        })
    }
}

/// Whether values are TIMESTAMPs, or lists or structs that have some.
fn holds_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(..) => true,
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            holds_time(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| holds_time(field.data_type())),
        _ => false,
    }
}

/// Columns and what each is.
#[derive(Debug, Clone)]
struct Scope {
    schema: DFSchemaRef,
    kinds: Vec<Kind>,
}

impl Scope {
    fn find(scopes: &[Self], column: &Column) -> Option<Kind> {
        scopes.iter().rev().find_map(|scope| {
            let at = scope.schema.maybe_index_of_column(column)?;
            scope.kinds.get(at).copied()
        })
    }
}

/// One reading of a plan, from its leaves up.
#[derive(Debug, Default)]
struct Reader {
    /// What sub-queries see of the queries around them, the innermost last.
    outer: Vec<Scope>,
    /// The columns of sub-queries that have been read, by the address of their plan.
    read: HashMap<usize, Vec<Kind>>,
    /// The columns of recursive queries, by name.
    recursive: HashMap<String, Vec<Kind>>,
}

impl Reader {
    fn plan(&mut self, plan: LogicalPlan) -> Result<(LogicalPlan, Vec<Kind>)> {
        on_enough_stack(|| {
            let mut scopes: Vec<Scope> = Vec::new();
            let recursive = match &plan {
                LogicalPlan::RecursiveQuery(query) => Some(query.name.clone()),
                _ => None,
            };
            let plan = plan.map_children(|input| {
                let outside = self.outer.len();
                // A LATERAL query reads columns of what stands before it.
                self.outer.extend(scopes.iter().cloned());
                let (input, kinds) = self.plan(input)?;
                self.outer.truncate(outside);
                if let Some(name) = &recursive {
                    self.recursive.entry(name.clone()).or_insert_with(|| kinds.clone());
                }
                scopes.push(Scope { schema: Arc::clone(input.schema()), kinds });
                Ok(Transformed::yes(input))
            })?;
            let mut plan = plan.data;
            if scopes.is_empty() {
                let kinds = self.leaf(&plan);
                scopes.push(Scope { schema: Arc::clone(plan.schema()), kinds });
            }
            let schema = match plan.inputs().as_slice() {
                [] => DFSchema::clone(plan.schema()),
                inputs => merge_schema(inputs),
            };
            let here = Here { scopes: &scopes, schema: &schema };
            plan = change_named(plan, |expr| expr.transform_up(|expr| self.expression(expr, &here)))?.data;
            if let LogicalPlan::Join(join) = &plan {
                join.on.iter().try_for_each(|(left, right)| self.agree([left, right], &here))?;
            }
            let kinds = self.columns(&plan, &here)?;
            Ok((plan, kinds))
        })
    }

    /// Of the columns of a plan without inputs.
    fn leaf(&self, plan: &LogicalPlan) -> Vec<Kind> {
        if let LogicalPlan::TableScan(scan) = plan {
            if let Some(known) = self.recursive.get(scan.table_name.table()) {
                return known.clone();
            }
            // What is stored of a view is what its query says, which stands beside.
            if view_of_stored(scan.table_name.table()).is_some() {
                return vec![Kind::Any; plan.schema().fields().len()];
            }
        }
        plan.schema().fields().iter().map(|field| Kind::of_type(field.data_type())).collect()
    }

    /// Of the columns that a plan gives.
    fn columns(&self, plan: &LogicalPlan, here: &Here<'_>) -> Result<Vec<Kind>> {
        let first = || here.scopes[0].kinds.clone();
        Ok(match plan {
            LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_) => {
                let column =
                    |at: usize| here.scopes.iter().filter_map(move |scope| scope.kinds.get(at).copied());
                let columns = (0..plan.schema().fields().len()).map(|at| {
                    refuse_both(column(at))?;
                    Ok(Kind::of_parts(column(at)))
                });
                columns.collect::<Result<_>>()?
            }
            LogicalPlan::Values(values) => {
                let columns = 0..plan.schema().fields().len();
                let column = |at: usize| values.values.iter().filter_map(move |row| row.get(at));
                columns.map(|at| Kind::of_parts(column(at).map(|of| self.kind(of, here)))).collect()
            }
            LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) | LogicalPlan::SubqueryAlias(_) => {
                first()
            }
            LogicalPlan::Unnest(unnest) => {
                let of = |at: &usize| here.scopes[0].kinds.get(*at).copied().unwrap_or(Kind::Any);
                unnest.dependency_indices.iter().map(of).collect()
            }
            _ => {
                let own = plan.expressions();
                let own = own.iter().flat_map(|expr| match expr {
                    Expr::GroupingSet(sets) => sets.distinct_expr(),
                    expr => vec![expr],
                });
                let own: HashMap<_, _> = own.map(|expr| (expr.qualified_name(), expr)).collect();
                let columns = plan.schema().iter().map(|(qualifier, field)| {
                    let name = (qualifier.cloned(), field.name().clone());
                    let column = || Column::new(qualifier.cloned(), field.name());
                    match own.get(&name) {
                        Some(expr) => self.kind(expr, here),
                        None => Scope::find(here.scopes, &column())
                            .unwrap_or_else(|| Kind::of_type(field.data_type())),
                    }
                });
                columns.collect()
            }
        })
    }

    /// An expression whose parts have been read.
    fn expression(&mut self, expr: Expr, here: &Here<'_>) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarSubquery(query) => {
                Ok(Transformed::yes(Expr::ScalarSubquery(self.subquery(query, here)?)))
            }
            Expr::Exists(mut exists) => {
                exists.subquery = self.subquery(exists.subquery, here)?;
                Ok(Transformed::yes(Expr::Exists(exists)))
            }
            Expr::InSubquery(mut within) => {
                within.subquery = self.subquery(within.subquery, here)?;
                let column = Expr::ScalarSubquery(within.subquery.clone());
                self.agree([within.expr.as_ref(), &column], here)?;
                Ok(Transformed::yes(Expr::InSubquery(within)))
            }
            Expr::SetComparison(mut compared) => {
                compared.subquery = self.subquery(compared.subquery, here)?;
                let column = Expr::ScalarSubquery(compared.subquery.clone());
                self.agree([compared.expr.as_ref(), &column], here)?;
                Ok(Transformed::yes(Expr::SetComparison(compared)))
            }
            Expr::ScalarFunction(call) if call.name() == AT_TIME_ZONE => match call.args.first() {
                Some(of) if self.kind(of, here) == Kind::Clock => {
                    if !of.get_type(here.schema).is_ok_and(|of| holds_time(&of)) {
                        let message = "AT TIME ZONE of a DATE by the clocks of a zone";
                        return Err(refused(
                            message,
                            "make it a TIMESTAMP first: day::TIMESTAMP AT TIME ZONE 'zone'",
                        ));
                    }
                    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(of_clock(), call.args))))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
            },
            expr => {
                self.agree(alternatives(&expr), here)?;
                Ok(Transformed::no(expr))
            }
        }
    }

    fn subquery(&mut self, query: Subquery, here: &Here<'_>) -> Result<Subquery> {
        let outside = self.outer.len();
        self.outer.extend(here.scopes.iter().cloned());
        let (plan, kinds) = self.plan(Arc::unwrap_or_clone(query.subquery))?;
        self.outer.truncate(outside);
        let subquery = Arc::new(plan);
        self.read.insert(Arc::as_ptr(&subquery).addr(), kinds);
        Ok(Subquery { subquery, ..query })
    }

    /// Refuses a clock and an instant among values that are compared with each other, or stand for each other.
    fn agree<'a>(&self, values: impl IntoIterator<Item = &'a Expr>, here: &Here<'_>) -> Result<()> {
        let times = values.into_iter().filter(|of| of.get_type(here.schema).is_ok_and(|of| holds_time(&of)));
        refuse_both(times.map(|of| self.kind(of, here)))
    }

    fn kind(&self, expr: &Expr, here: &Here<'_>) -> Kind {
        let of_type = || expr.get_type(here.schema).map_or(Kind::Any, |of| Kind::of_type(&of));
        match expr {
            Expr::Column(column) => Scope::find(here.scopes, column).unwrap_or_else(of_type),
            Expr::OuterReferenceColumn(_, column) => Scope::find(&self.outer, column).unwrap_or_else(of_type),
            Expr::Literal(..) | Expr::Placeholder(_) => Kind::Any,
            Expr::Alias(alias) => self.kind(&alias.expr, here),
            Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field }) => {
                match (field.data_type(), self.kind(of, here)) {
                    (DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64, Kind::Clock) => {
                        Kind::Clock
                    }
                    (_, Kind::Any) if matches!(**of, Expr::Literal(..) | Expr::Placeholder(_)) => Kind::Any,
                    (to, _) => Kind::of_type(to),
                }
            }
            Expr::ScalarFunction(call) if call.name() == AT_TIME_ZONE => Kind::Clock,
            Expr::ScalarFunction(call) if [OF_CLOCK, "to_utc"].contains(&call.name()) => Kind::Instant,
            Expr::ScalarSubquery(query) => {
                let read = self.read.get(&Arc::as_ptr(&query.subquery).addr());
                read.and_then(|kinds| kinds.first().copied()).unwrap_or_else(of_type)
            }
            _ if of_type() == Kind::Any => Kind::Any,
            // The first argument is the value, the others say which.
            Expr::AggregateFunction(call) => self.of_parts(call.params.args.first(), here),
            Expr::WindowFunction(call) => self.of_parts(call.params.args.first(), here),
            Expr::Case(case) => {
                let whens = case.when_then_expr.iter().map(|(_, then)| then);
                self.of_parts(whens.chain(&case.else_expr).map(Box::as_ref), here)
            }
            _ => {
                let (mut parts, mut has_parts) = (Kind::Any, false);
                // It never breaks off, and has no errors.
                let _ = expr.apply_children(|part| {
                    has_parts = true;
                    parts = Kind::of_parts([parts, self.kind(part, here)]);
                    Ok(TreeNodeRecursion::Continue)
                });
                if has_parts { parts } else { Kind::Instant }
            }
        }
    }

    fn of_parts<'a>(&self, parts: impl IntoIterator<Item = &'a Expr>, here: &Here<'_>) -> Kind {
        Kind::of_parts(parts.into_iter().map(|part| self.kind(part, here)))
    }
}

/// What the expressions of a node are over.
struct Here<'a> {
    scopes: &'a [Scope],
    schema: &'a DFSchema,
}

/// The parts of an expression that are compared with each other, or any of which may be its value.
fn alternatives(expr: &Expr) -> Vec<&Expr> {
    const CHOOSING: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            vec![left.as_ref(), right.as_ref()]
        }
        Expr::Between(of) => vec![of.expr.as_ref(), of.low.as_ref(), of.high.as_ref()],
        Expr::InList(of) => std::iter::once(of.expr.as_ref()).chain(&of.list).collect(),
        Expr::Case(case) => {
            let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            thens.chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(call) if CHOOSING.contains(&call.name()) => call.args.iter().collect(),
        _ => Vec::new(),
    }
}

fn refuse_both(kinds: impl IntoIterator<Item = Kind>) -> Result<()> {
    let (mut clock, mut instant) = (false, false);
    for kind in kinds {
        clock |= kind == Kind::Clock;
        instant |= kind == Kind::Instant;
    }
    if clock && instant {
        let message = "a TIMESTAMP WITHOUT TIME ZONE (the result of AT TIME ZONE) stands beside an instant";
        let hint = "make both the same: clock AT TIME ZONE 'zone' is the instant of a clock, ts AT TIME ZONE 'zone' \
                    the clock of an instant";
        return Err(refused(message, hint));
    }
    Ok(())
}

fn refused(message: &str, hint: &str) -> DataFusionError {
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(message, None).with_help(hint, None))
}
