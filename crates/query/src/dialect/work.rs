//! How much work planning a statement will be, before it is done.
//!
//! Planning goes through an expression at each of its nodes again, plans a query of WITH at each place that reads it,
//! a sub-query of an expression twice, and carries conditions down through all queries below. A short text can ask for
//! any amount of it. What it will take is counted here in steps, in one walk; a step is 1 to 5 µs of one core.
//!
//! Values, and expressions of at most [`PLAIN_DEPTH`] nodes in depth, count nothing: they take time by the length of the
//! text, as INSERT … VALUES does.

use super::calls::{CallableKind, Callables};
use super::cursor::Result;
use super::marker::{place, simple_name};
use super::syntax::DEPTH_MAX;
use super::{Position, SqlError};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SetExpr, SetOperator,
    TableFactor,
};
use std::collections::HashMap;

/// Most steps that planning a statement may take (`planning_steps_max`): a second or a few.
pub(crate) const STEPS_MAX: f64 = 2e6;

/// Depth up to which an expression counts nothing.
const PLAIN_DEPTH: usize = 3;

/// Steps of a SELECT.
const SELECT_STEPS: f64 = 200.0;

/// Steps of a table that is read.
const TABLE_STEPS: f64 = 100.0;

/// Steps of a join for each pair of others of its SELECT, and of EXCEPT or INTERSECT for each pair of others around it.
const JOIN_STEPS: f64 = 0.3;

/// Steps of an aggregate or window function for each other one of its SELECT.
const AGGREGATE_STEPS: f64 = 1.0 / 9.0;

/// Steps of a condition for each pair of queries that it is carried down through.
const CONDITION_STEPS: f64 = 80.0;

/// Steps of an item of a SELECT for each other one, whose names are compared: 10,000 items are planned.
const ITEM_STEPS: f64 = 0.02;

/// Steps of a WHEN for each other one of its CASE.
const WHEN_STEPS: f64 = 0.002;

/// Steps of an argument for each other one of its call.
const ARGUMENT_STEPS: f64 = 0.000_3;

/// How many copies `coalesce(x, …)` makes of x.
const COPIES: f64 = 3.0;

/// How many copies a condition of CASE becomes, and x in `x BETWEEN 1 AND 2`.
const CONDITION_COPIES: f64 = 2.0;

/// The count of a statement.
pub(super) struct Work<'a> {
    callables: &'a Callables<'a>,
    /// The queries that the walk is in; the first stands for the statement.
    queries: Vec<Frame>,
    /// How often what the walk is in is planned, for each expression around it.
    weights: Vec<f64>,
    weight: f64,
    /// Nodes of the expression around, down to the next query.
    depth: usize,
    /// Expressions below those around that are not copied as the others are, and how often they are planned.
    uncopied: HashMap<*const Expr, f64>,
    /// The last place that was known.
    near: Position,
}

/// A query that the walk is in.
#[derive(Default)]
struct Frame {
    steps: f64,
    /// Queries and joins of the deepest SELECT so far, one in another.
    levels: usize,
    /// Those below the SELECT that the walk is in.
    below: usize,
    /// Set operations and operators after |> that stand on each other.
    stacked: usize,
    /// Joins in brackets of that SELECT.
    nested_joins: usize,
    /// The depth of the expression around it.
    depth: usize,
    aggregates: f64,
    /// What its WITH declares, by the address of the query.
    declares: HashMap<*const Query, String>,
    declared: HashMap<String, Known>,
}

/// A query of WITH.
#[derive(Debug, Clone, Copy)]
struct Known {
    steps: f64,
    levels: usize,
}

impl<'a> Work<'a> {
    pub(super) fn new(callables: &'a Callables<'a>) -> Self {
        Self {
            callables,
            queries: vec![Frame::default()],
            weights: Vec::new(),
            weight: 1.0,
            depth: 0,
            uncopied: HashMap::new(),
            near: Position::default(),
        }
    }

    /// Says what the statement takes, when the walk is done.
    ///
    /// # Errors
    /// [`SqlError`] where that is too much.
    pub(super) fn done(&self) -> Result<()> {
        let Some(Frame { steps, below: levels, .. }) = self.queries.first() else { return Ok(()) };
        if *levels > DEPTH_MAX {
            let message = format!(
                "the statement reads through {levels} queries and joins, one in another, of at most {DEPTH_MAX} (statement_depth_max)"
            );
            return Err(SqlError::new(message, self.near)
                .hint("keep what one of them gives: CREATE TABLE … AS (SELECT …)"));
        }
        if *steps > STEPS_MAX {
            let message = format!(
                "planning this statement would take {steps:.0} steps, of at most {STEPS_MAX} (planning_steps_max)"
            );
            return Err(SqlError::new(message, self.near)
                .hint("expressions of little depth, few joins and queries that are read once take few; keep what a part gives: CREATE TABLE … AS (SELECT …)"));
        }
        Ok(())
    }

    fn frame(&mut self) -> &mut Frame {
        self.queries.last_mut().expect("the first stands for the statement and stays")
    }

    fn add(&mut self, steps: f64) {
        let steps = steps * self.weight;
        self.frame().steps += steps;
    }

    pub(super) fn enter_query(&mut self, query: &Query) {
        let cte_tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let declares = cte_tables
            .map(|cte| (std::ptr::from_ref(cte.query.as_ref()), cte.alias.name.value.to_lowercase()));
        let chain = chain_length(&query.body);
        // Each stands on what the one before gives.
        let stacked = chain + query.pipe_operators.len();
        let frame = Frame { depth: self.depth, declares: declares.collect(), stacked, ..Frame::default() };
        self.queries.push(frame);
        self.depth = 0;
        self.add(JOIN_STEPS * (chain as f64).powi(3));
    }

    pub(super) fn leave_query(&mut self, query: &Query) {
        let Some(Frame { steps, levels, below, stacked, depth, .. }) = self.queries.pop() else { return };
        self.depth = depth;
        let levels = levels.max(below) + stacked + 1;
        let outer = self.frame();
        match outer.declares.remove(&std::ptr::from_ref(query)) {
            // Counted where it is read; it is planned once all the same.
            Some(name) => {
                outer.declared.insert(name, Known { steps, levels });
                outer.steps += SELECT_STEPS;
            }
            None => {
                outer.steps += steps;
                outer.below = outer.below.max(levels);
            }
        }
    }

    pub(super) fn leave_select(&mut self, select: &Select) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1).sum::<usize>().saturating_sub(1);
        let conditions = [&select.selection, &select.having, &select.qualify].into_iter().flatten().count();
        let frame = self.frame();
        let joins = joins + std::mem::take(&mut frame.nested_joins);
        let levels = std::mem::take(&mut frame.below) + joins;
        frame.levels = frame.levels.max(levels);
        let (levels, aggregates) = (levels as f64, std::mem::take(&mut frame.aggregates));
        self.add(SELECT_STEPS);
        self.add(ITEM_STEPS * squared(select.projection.len()));
        self.add(JOIN_STEPS * (joins as f64).powi(3));
        self.add(AGGREGATE_STEPS * aggregates * aggregates);
        self.add(CONDITION_STEPS * levels * levels * conditions as f64);
    }

    pub(super) fn enter_factor(&mut self, factor: &TableFactor) {
        self.add(TABLE_STEPS);
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.frame().nested_joins += table_with_joins.joins.len();
        }
        let TableFactor::Table { name, args: None, .. } = factor else { return };
        self.near = place(name);
        let Some(name) = simple_name(name).map(str::to_lowercase) else { return };
        let known = self.queries.iter().rev().find_map(|frame| frame.declared.get(&name)).copied();
        if let Some(Known { steps, levels }) = known {
            let frame = self.frame();
            frame.steps += steps;
            frame.below = frame.below.max(levels);
        }
    }

    pub(super) fn enter_expr(&mut self, expr: &Expr) {
        self.weights.push(self.weight);
        self.depth += 1;
        if let Some(weight) = self.uncopied.remove(&std::ptr::from_ref(expr)) {
            self.weight = weight;
        }
        match expr {
            Expr::Value(_) => return,
            Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => self.weight *= 2.0,
            Expr::Between { low, high, .. } => self.copy([low, high].map(Box::as_ref), CONDITION_COPIES),
            Expr::Case { conditions, else_result, .. } => {
                self.add(WHEN_STEPS * squared(conditions.len()));
                let results = conditions.iter().map(|when| &when.result);
                self.copy(results.chain(else_result.as_deref()), CONDITION_COPIES);
            }
            Expr::Function(function) => {
                self.enter_call(function);
                self.add((self.depth * self.depth.saturating_sub(PLAIN_DEPTH)) as f64);
            }
            _ => {}
        }
        self.add(self.depth.saturating_sub(PLAIN_DEPTH) as f64);
    }

    /// What stands below the expression is planned so many times, but for these.
    fn copy<'e>(&mut self, uncopied: impl IntoIterator<Item = &'e Expr>, copies: f64) {
        self.uncopied.extend(uncopied.into_iter().map(|expr| (std::ptr::from_ref(expr), self.weight)));
        self.weight *= copies;
    }

    pub(super) fn leave_expr(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.weight = self.weights.pop().unwrap_or(1.0);
    }

    fn enter_call(&mut self, function: &Function) {
        if let FunctionArguments::List(list) = &function.args {
            self.add(ARGUMENT_STEPS * squared(list.args.len()));
        }
        if let Some(last) = last_of_coalesce(function) {
            self.copy([last], COPIES);
        }
        let callable = simple_name(&function.name).and_then(|name| (self.callables)(&name.to_lowercase()));
        if callable.is_some_and(|callable| callable.kind != CallableKind::Scalar) {
            self.frame().aggregates += 1.0;
        }
    }
}

fn squared(count: usize) -> f64 {
    (count as f64).powi(2)
}

/// How many set operations but UNION, whose chains are balanced, stand on each other.
fn chain_length(body: &SetExpr) -> usize {
    let (mut length, mut left) = (0, body);
    while let SetExpr::SetOperation { left: next, op, .. } = left {
        length += usize::from(*op != SetOperator::Union);
        left = next;
    }
    length
}

/// The last argument of a call that becomes a CASE, which has the others twice or more.
fn last_of_coalesce(function: &Function) -> Option<&Expr> {
    let name = simple_name(&function.name)?;
    let named = ["coalesce", "nvl", "ifnull", "nvl2"].iter().any(|of| name.eq_ignore_ascii_case(of));
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.last() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(last))) if named => Some(last),
        _ => None,
    }
}
