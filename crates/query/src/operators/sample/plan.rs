//! Plans the marker of SAMPLE BY.
//!
//! DataFusion plans the SELECT as a GROUP BY, so that aliases, HAVING, window functions, ORDER BY and
//! LIMIT are its own; then the Aggregate in that plan gives way to [`SampleBy`], and [`Fill`] above it, or to
//! [`Bars`].

use super::bars::node::{BarSize, Bars};
use super::node::SampleBy;
use super::rewrite::{Item, TimeColumn, group_by_bucket};
use crate::designated::designated_timestamp;
use crate::dialect::marker::{SampleEvery, SampleMarker, call, planning_error};
use crate::dialect::zone::bound_in;
use crate::error::{Position, SqlError};
use crate::functions::bar_start::BAR;
use crate::functions::bucket::Bucketing;
use crate::operators::fill::node::{Fill, FillWith};
use crate::operators::fill::plan::{FillWord, Other, fill_words};
use crate::operators::relation::Relations;
use crate::settings::has_local_buckets;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ContextProvider, RelationPlannerContext};
use datafusion::logical_expr::{
    Aggregate, Expr, Extension, LogicalPlan, LogicalPlanBuilder, Volatility, cast,
};
use sqlparser::ast::{self, BinaryOperator, Ident, SetExpr, TableFactor};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The plan of a SELECT with SAMPLE BY.
pub(crate) fn plan_sample(
    marker: SampleMarker,
    relations: &Relations,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let position = marker.position;
    let error = |message: String| planning_error(SqlError::new(message, position));
    let local = has_local_buckets(context.context_provider().options());
    let cut = Cut::of(&marker, local)?;
    let mut query = marker.query;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(error("SAMPLE BY needs a SELECT".to_string()));
    };
    if select.from.is_empty() {
        return Err(error("SAMPLE BY needs a table to read FROM".to_string()));
    }
    let input = relations.plan_from(std::mem::take(&mut select.from), context)?;
    let time_ast = designated_column(input.schema(), position, "SAMPLE BY")?;
    select.from = relations.stash(input);
    let in_zone = |bound: ast::Expr| match marker.zone.as_deref().filter(|_| local) {
        Some(zone) => bound_in(bound, zone, &|name| is_constant(name, context.context_provider())),
        None => bound,
    };
    let (from, to) = (marker.from.map(in_zone), marker.to.map(in_zone));
    for (bound, operator) in [(&from, BinaryOperator::GtEq), (&to, BinaryOperator::Lt)] {
        if let Some(bound) = bound {
            let condition = binary(time_ast.clone(), operator, ast::Expr::Nested(Box::new(bound.clone())));
            select.selection = Some(match select.selection.take() {
                Some(other) => binary(ast::Expr::Nested(Box::new(other)), BinaryOperator::And, condition),
                None => condition,
            });
        }
    }
    let (zone, offset) = (marker.zone.as_deref(), marker.offset.as_deref());
    let time = time_column(time_ast, &marker.every, offset, zone, position);
    let items = group_by_bucket(&mut query, &time, context.context_provider()).map_err(planning_error)?;
    let aggregates = items.iter().filter(|item| **item == Item::Aggregate).count();
    let words = fill_words(&marker.fill, aggregates).map_err(planning_error)?;
    let mut bounds = [None, None];
    for (slot, bound) in bounds.iter_mut().zip([from, to]) {
        if let Some(bound) = bound {
            let bound = context.sql_to_expr(bound, &DFSchema::empty())?;
            *slot = Some(cast(bound, DataType::Timestamp(TimeUnit::Nanosecond, None)));
        }
    }
    let factor = TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None };
    let grouped = context.plan(factor);
    let swap = Swap { cut, items, words, bounds, position };
    match swap.place(grouped?)? {
        (plan, true) => Ok(plan),
        _ => Err(error("SAMPLE BY found nothing to group".to_string())),
    }
}

/// Whether a function gives the same at any time.
fn is_constant(name: &str, context: &dyn ContextProvider) -> bool {
    let function = context.get_function_meta(&name.to_lowercase());
    function.is_none_or(|function| function.signature().volatility == Volatility::Immutable)
}

/// The designated timestamp of a relation, fully qualified.
///
/// # Errors
/// [`SqlError`] where the relation has none.
pub(crate) fn designated_column(schema: &DFSchema, position: Position, clause: &str) -> Result<ast::Expr> {
    let Some(index) = designated_timestamp(schema) else {
        return Err(planning_error(
            SqlError::new(
                format!("{clause} needs a designated timestamp, and this relation has none"),
                position,
            )
            .hint("CREATE TABLE … TIMESTAMP(ts) names it; a sub-query must select it unchanged"),
        ));
    };
    let (qualifier, field) = schema.qualified_field(index);
    let mut parts: Vec<Ident> = Vec::new();
    if let Some(qualifier) = qualifier {
        parts.extend(qualifier.to_vec().into_iter().map(|part| Ident::with_quote('"', part)));
    }
    parts.push(Ident::with_quote('"', field.name()));
    Ok(match <[Ident; 1]>::try_from(parts) {
        Ok([only]) => ast::Expr::Identifier(only),
        Err(parts) => ast::Expr::CompoundIdentifier(parts),
    })
}

fn time_column(
    column: ast::Expr,
    every: &SampleEvery,
    offset: Option<&str>,
    zone: Option<&str>,
    position: Position,
) -> TimeColumn {
    let parts = match &column {
        ast::Expr::CompoundIdentifier(parts) => parts.as_slice(),
        ast::Expr::Identifier(only) => std::slice::from_ref(only),
        _ => &[],
    };
    let (name, qualifier) = match parts {
        [.., qualifier, name] => (name.value.clone(), Some(qualifier.value.clone())),
        [name] => (name.value.clone(), None),
        [] => (String::new(), None),
    };
    let text = |value: &str| {
        let span = crate::dialect::marker::span(position);
        ast::Expr::Value(ast::Value::SingleQuotedString(value.to_string()).with_span(span))
    };
    let bucket = match every {
        SampleEvery::Stride(stride) => {
            let mut args = vec![text(stride), column.clone()];
            args.extend(offset.map(text));
            args.extend(zone.map(text));
            call("time_bucket", args)
        }
        SampleEvery::Bar(bar) => {
            let one = || ast::Expr::value(ast::Value::Number("1".into(), false));
            call(BAR, vec![column.clone(), bar.of.clone().unwrap_or_else(one)])
        }
    };
    TimeColumn { qualifier, name, bucket }
}

fn binary(left: ast::Expr, op: BinaryOperator, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Where rows are cut.
enum Cut {
    /// By time.
    Time(Bucketing),
    /// By what they add up to.
    Bar(BarSize),
}

impl Cut {
    /// `local`: by the clocks of the marker's zone, also where buckets are shorter than a day.
    fn of(marker: &SampleMarker, local: bool) -> Result<Self> {
        let error = |message| planning_error(SqlError::new(message, marker.position));
        match &marker.every {
            SampleEvery::Bar(bar) => BarSize::of(bar).map(Cut::Bar).map_err(planning_error),
            SampleEvery::Stride(stride) => {
                let bucketing = Bucketing::parse(stride, marker.zone.as_deref(), marker.offset.as_deref());
                let bucketing = bucketing.map_err(error)?;
                let bucketing = if local { bucketing } else { bucketing.with_uniform_hours() };
                Ok(Cut::Time(if marker.from_first { bucketing.counted_from_first() } else { bucketing }))
            }
        }
    }
}

/// Puts our nodes in the place of the Aggregate.
struct Swap {
    cut: Cut,
    items: Vec<Item>,
    /// One for each aggregate item; empty: no FILL.
    words: Vec<FillWord>,
    bounds: [Option<Expr>; 2],
    position: Position,
}

/// What FILL does to the Aggregate's columns.
#[derive(Default)]
struct Filling {
    /// By index in the Aggregate's output; the others are filled with NULL.
    direct: HashMap<usize, FillWord>,
    /// Selected expressions over aggregates, each as a column of its own below the filling.
    extras: Vec<Extra>,
    /// What each is called that PREV(alias) can name.
    names: Vec<(String, Filled)>,
}

/// A column that is filled.
#[derive(Clone, Copy)]
enum Filled {
    /// By index in the Aggregate's output.
    Direct(usize),
    /// Among the extras.
    Extra(usize),
}

struct Extra {
    expr: Expr,
    name: String,
    word: FillWord,
}

impl Swap {
    /// Goes down single inputs to the Aggregate; says whether it was found.
    fn place(&self, plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
        if let LogicalPlan::Projection(projection) = &plan
            && !self.words.is_empty()
            && let Some(aggregate) = aggregate_below(&projection.input)
        {
            let (exprs, filling) = self.filling(&projection.expr, &aggregate)?;
            let input = self.replace(projection.input.as_ref().clone(), &filling)?;
            return Ok((LogicalPlanBuilder::from(input).project(exprs)?.build()?, true));
        }
        if let LogicalPlan::Aggregate(aggregate) = plan {
            return Ok((self.node(aggregate, &Filling::default())?, true));
        }
        let inputs = plan.inputs();
        let [input] = inputs.as_slice() else { return Ok((plan, false)) };
        let (input, found) = self.place((*input).clone())?;
        Ok((plan.with_new_exprs(plan.expressions(), vec![input])?, found))
    }

    /// The same below the projection: only HAVING and window functions stand in between.
    fn replace(&self, plan: LogicalPlan, filling: &Filling) -> Result<LogicalPlan> {
        if let LogicalPlan::Aggregate(aggregate) = plan {
            return self.node(aggregate, filling);
        }
        let inputs = plan.inputs();
        let [input] = inputs.as_slice() else { return Ok(plan) };
        let input = self.replace((*input).clone(), filling)?;
        plan.with_new_exprs(plan.expressions(), vec![input])
    }

    /// Says which column each word fills; expressions over aggregates leave the projection for a
    /// column of their own, since the fill of `sum(a) / sum(b)` is not the quotient of two fills.
    fn filling(&self, exprs: &[Expr], aggregate: &Aggregate) -> Result<(Vec<Expr>, Filling)> {
        let mut words = self.words.iter();
        let mut filling = Filling::default();
        let mut kept = exprs.to_vec();
        for (index, item) in self.items.iter().enumerate() {
            if *item != Item::Aggregate {
                continue;
            }
            let (Some(word), Some(expr)) = (words.next(), kept.get_mut(index)) else { continue };
            let (qualifier, field) = expr.qualified_name();
            let inner = expr.clone().unalias();
            if let Expr::Column(column) = &inner
                && let Some(at) = aggregate.schema.maybe_index_of_column(column)
                && let Entry::Vacant(slot) = filling.direct.entry(at)
            {
                slot.insert(word.clone());
                filling.names.push((field, Filled::Direct(at)));
                continue;
            }
            if !inner.column_refs().iter().all(|column| aggregate.schema.has_column(column)) {
                return Err(planning_error(
                    SqlError::new("FILL cannot fill a window function", self.position)
                        .hint("SAMPLE BY in a sub-query, the window function outside"),
                ));
            }
            let name = format!("__fill_{index}");
            filling.names.push((field.clone(), Filled::Extra(filling.extras.len())));
            *expr = Expr::Column(Column::new_unqualified(&name)).alias_qualified(qualifier, field);
            filling.extras.push(Extra { expr: inner, name, word: word.clone() });
        }
        Ok((kept, filling))
    }

    fn node(&self, aggregate: Aggregate, filling: &Filling) -> Result<LogicalPlan> {
        let Aggregate { input, mut group_expr, aggr_expr, schema, .. } = aggregate;
        let keys = group_expr.split_off(1.min(group_expr.len()));
        let arguments = group_expr.pop().map(bucket_arguments).unwrap_or_default();
        let lost = || planning_error(SqlError::new("SAMPLE BY lost its timestamp", self.position));
        let (qualifier, field) = schema.qualified_field(0);
        let bucket: (Option<TableReference>, _) = (qualifier.cloned(), Arc::clone(field));
        let input = Arc::unwrap_or_clone(input);
        let bucketing = match &self.cut {
            Cut::Time(bucketing) => *bucketing,
            Cut::Bar(size) => {
                let [time, of] = <[Expr; 2]>::try_from(arguments).map_err(|_| lost())?;
                let bars = Bars::try_new(input, time, of, keys, aggr_expr, *size, bucket)?;
                return Ok(LogicalPlan::Extension(Extension { node: Arc::new(bars) }));
            }
        };
        let time = arguments.into_iter().nth(1).ok_or_else(lost)?;
        let key_count = keys.len();
        let node = SampleBy::try_new(input, time, keys, aggr_expr, bucketing, bucket)?;
        let sample = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        if self.words.is_empty() { Ok(sample) } else { self.filled(sample, key_count, bucketing, filling) }
    }

    /// The rows of SAMPLE BY with those that are missing.
    fn filled(
        &self,
        sample: LogicalPlan,
        key_count: usize,
        bucketing: Bucketing,
        filling: &Filling,
    ) -> Result<LogicalPlan> {
        let sampled = sample.schema().fields().len();
        let mut wider = sample;
        if !filling.extras.is_empty() {
            let mut exprs: Vec<Expr> = wider.schema().columns().into_iter().map(Expr::Column).collect();
            exprs.extend(filling.extras.iter().map(|extra| extra.expr.clone().alias(&extra.name)));
            wider = LogicalPlanBuilder::from(wider).project(exprs)?.build()?;
        }
        let fields = wider.schema().fields();
        let other = |of: &Other| {
            let found = filling.names.iter().find(|(name, _)| of.is(name));
            let place = match found.map(|(_, filled)| *filled) {
                Some(Filled::Direct(at)) => at,
                Some(Filled::Extra(at)) => sampled + at,
                None => {
                    let message = format!("FILL(PREV({})) names no selected aggregate", of.name);
                    let names: Vec<&str> = filling.names.iter().map(|(name, _)| name.as_str()).collect();
                    return Err(
                        SqlError::new(message, of.position).hint(format!("there are {}", names.join(", ")))
                    );
                }
            };
            Ok((place, fields[place].data_type().clone()))
        };
        let fills = fields.iter().enumerate().skip(1 + key_count).map(|(at, field)| {
            let word = match at.checked_sub(sampled) {
                Some(extra) => Some(&filling.extras[extra].word),
                None => filling.direct.get(&at),
            };
            let Some(word) = word else { return Ok(FillWith::Null) };
            word.clone().into_fill(field.data_type().clone(), other).map_err(planning_error)
        });
        let fills = fills.collect::<Result<Vec<FillWith>>>()?;
        let [from, to] = self.bounds.clone();
        let fill = Fill::try_new(wider, key_count, bucketing, from, to, fills)?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(fill) }))
    }
}

fn aggregate_below(plan: &LogicalPlan) -> Option<Aggregate> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate.clone()),
        LogicalPlan::Filter(_) | LogicalPlan::Window(_) => aggregate_below(plan.inputs().first()?),
        _ => None,
    }
}

/// The arguments of the call that is the bucket.
fn bucket_arguments(expr: Expr) -> Vec<Expr> {
    match expr.unalias() {
        Expr::ScalarFunction(call) => call.args,
        _ => Vec::new(),
    }
}
