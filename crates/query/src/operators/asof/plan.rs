//! Plans the marker of ASOF JOIN, in its three spellings, and of LT JOIN:
//!
//! ```text
//! l ASOF JOIN r [ON (k, …) | ON l.k = r.k AND … | USING (k, …)] [TOLERANCE 50T] [DIRECTION FORWARD]
//! l ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) [ON …]
//! l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts [AND a condition on l, or on r]
//! l ASOF {INNER | SEMI | ANTI | RIGHT | FULL} JOIN r …
//! l LT JOIN r [ON …]
//! ```

use super::kinds::Parts;
use super::node::AsOfOptions;
use crate::dialect::marker::{AsOfKind, AsOfMarker, Direction, NO_TIME, place, planning_error, text_of};
use crate::error::{Position, SqlError};
use crate::functions::order_key::{has_order_key, order_key};
use crate::functions::stride::interval_nanos;
use crate::functions::stride::{STRIDE_HINT, Stride};
use crate::operators::joins::node::Pairing;
use crate::operators::sample::plan::designated_column;
use crate::settings::has_pipeline;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::normalize_col_with_schemas_and_ambiguity_check;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, cast, lit, when,
};
use sqlparser::ast::{self, JoinConstraint};

/// Left and right side of each key.
pub(crate) type KeyPairs = Vec<(Expr, Expr)>;

/// The plan of `left ASOF JOIN right`.
pub(crate) fn plan_asof(
    left: LogicalPlan,
    right: LogicalPlan,
    mut marker: AsOfMarker,
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let mut sides = Sides::read((&left, &right), constraint, (marker.kind.word(), marker.position), context)?;
    if let Some(condition) = marker.condition.take() {
        let at = place(&condition);
        if sides.times.is_some() {
            return Err(fail("the times are compared twice, in ON and in MATCH_CONDITION", at));
        }
        let keys = sides.keys.len();
        sides.condition(condition, context)?;
        if sides.times.is_none() || sides.keys.len() != keys {
            return Err(fail("MATCH_CONDITION compares the time of both sides, such as (l.ts >= r.ts)", at));
        }
    }
    let (times, compared) = match sides.times.take() {
        Some((times, operator)) => (times, Some(operator)),
        None => (sides.designated(context)?, None),
    };
    if sides.keys.iter().any(|(left, right)| *left == times.0 && *right == times.1) {
        let word = marker.kind.word();
        return Err(planning_error(
            SqlError::new(format!("the time is no key of {word}, which compares it itself"), marker.position)
                .hint("leave the time out: ON (symbol)"),
        ));
    }
    let (direction, strict) = direction(&marker, compared)?;
    let kind = marker.kind;
    if direction == Direction::Nearest && matches!(kind, AsOfKind::Right | AsOfKind::Full) {
        return Err(planning_error(
            SqlError::new(format!("{} does not look both ways", kind.word()), marker.position)
                .hint("take DIRECTION BACKWARD or FORWARD, or an ASOF JOIN, which keeps the left rows"),
        ));
    }
    let needs_lengths = direction == Direction::Nearest || marker.tolerance.is_some();
    let times = match needs_lengths {
        true => sides.as_times(times)?,
        false => sides.as_ordered(times)?,
    };
    let tolerance = marker.tolerance.map(|tolerance| nanos(tolerance, context)).transpose()?;
    let conditions = std::mem::take(&mut sides.conditions);
    let (keys, merged) = sides.keys()?;
    let inner = matches!(kind, AsOfKind::Inner | AsOfKind::Semi | AsOfKind::Right);
    let options = AsOfOptions { inner, direction, strict, tolerance };
    let by_series = has_pipeline(context.context_provider().options());
    let mut pairing = Pairing { left, right, times, keys, merged };
    let keeps_left = matches!(kind, AsOfKind::Left | AsOfKind::Lt | AsOfKind::Anti | AsOfKind::Full);
    let keeps_right = matches!(kind, AsOfKind::Right | AsOfKind::Full);
    // Rows that do not fulfil a condition have no match; they are there all the same where their side is kept.
    let as_key = |condition| when(condition, lit(true)).end();
    if let Some(condition) = conjunction(conditions.0) {
        match keeps_left {
            true => pairing.keys.push((as_key(condition)?, lit(true))),
            false => pairing.left = LogicalPlanBuilder::from(pairing.left).filter(condition)?.build()?,
        }
    }
    if let Some(condition) = conjunction(conditions.1) {
        match keeps_right {
            true => pairing.keys.push((lit(true), as_key(condition)?)),
            false => pairing.right = LogicalPlanBuilder::from(pairing.right).filter(condition)?.build()?,
        }
    }
    Parts { pairing, options, by_series }.plan(kind)
}

/// Which way right rows are looked for, and whether equal times do not match: as the comparison of the times
/// says, where there is one, which DIRECTION must not contradict.
fn direction(marker: &AsOfMarker, compared: Option<Operator>) -> Result<(Direction, bool)> {
    let Some(operator) = compared else {
        return Ok((marker.direction.unwrap_or(Direction::Backward), marker.kind == AsOfKind::Lt));
    };
    let found = match operator {
        Operator::Gt | Operator::GtEq => Direction::Backward,
        _ => Direction::Forward,
    };
    if marker.kind == AsOfKind::Lt {
        return Err(planning_error(
            SqlError::new("LT JOIN compares the designated timestamps itself", marker.position)
                .hint("leave the comparison out, or write ASOF JOIN with it"),
        ));
    }
    match marker.direction {
        Some(written) if written != found => Err(planning_error(
            SqlError::new(
                format!("DIRECTION {} contradicts l.ts {operator} r.ts", written.word()),
                marker.position,
            )
            .hint("give one of them: l.ts >= r.ts looks BACKWARD, l.ts <= r.ts FORWARD"),
        )),
        _ => Ok((found, matches!(operator, Operator::Gt | Operator::Lt))),
    }
}

fn fail(message: impl Into<String>, position: Position) -> DataFusionError {
    planning_error(SqlError::new(message, position))
}

/// What ON, USING and MATCH_CONDITION say, collected.
pub(crate) struct Sides<'a> {
    /// What errors call the join.
    join: &'static str,
    position: Position,
    left: &'a LogicalPlan,
    right: &'a LogicalPlan,
    keys: Vec<(Expr, Expr)>,
    merged: Vec<Column>,
    /// Left and right time, and how they compare.
    times: Option<((Expr, Expr), Operator)>,
    /// What left rows, and right rows, must fulfil to have a match.
    conditions: (Vec<Expr>, Vec<Expr>),
}

/// `(k)`, `(k, …)` and `k`: names of columns of both sides.
fn key_names(on: &ast::Expr) -> Option<Vec<ast::Ident>> {
    match on {
        ast::Expr::Nested(inner) => key_names(inner),
        ast::Expr::Identifier(ident) => Some(vec![ident.clone()]),
        ast::Expr::Tuple(items) => items
            .iter()
            .map(|item| match item {
                ast::Expr::Identifier(ident) => Some(ident.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

impl<'a> Sides<'a> {
    /// What the constraint of a join of two sides says; `join` is its name and where it stands.
    ///
    /// # Errors
    /// [`SqlError`] for a column that a side lacks, and for a condition that is no equality of keys or, once,
    /// comparison of times.
    pub(crate) fn read(
        (left, right): (&'a LogicalPlan, &'a LogicalPlan),
        constraint: JoinConstraint,
        (join, position): (&'static str, Position),
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let (keys, merged, times, conditions) = (Vec::new(), Vec::new(), None, Default::default());
        let mut sides = Self { join, position, left, right, keys, merged, times, conditions };
        match constraint {
            JoinConstraint::Using(names) => {
                for name in names {
                    let ident = name.0.last().and_then(|part| part.as_ident()).cloned();
                    let ident = ident.ok_or_else(|| fail("USING takes names of columns", position))?;
                    sides.merge(&ident, position)?;
                }
            }
            JoinConstraint::On(on) => match key_names(&on) {
                Some(names) => {
                    for name in names {
                        sides.merge(&name, place(&ast::Expr::Identifier(name.clone())))?;
                    }
                }
                None => sides.condition(on, context)?,
            },
            JoinConstraint::Natural | JoinConstraint::None => {}
        }
        Ok(sides)
    }

    /// The designated timestamps of both sides.
    pub(crate) fn designated(&self, context: &mut dyn RelationPlannerContext) -> Result<(Expr, Expr)> {
        let mut designated = |plan: &LogicalPlan, side: &str| {
            let clause = format!("the {side} side of {}", self.join);
            let column = designated_column(plan.schema(), self.position, &clause)?;
            context.sql_to_expr(column, plan.schema())
        };
        Ok((designated(self.left, "left")?, designated(self.right, "right")?))
    }

    /// Whether the times may be compared in the constraint.
    fn takes_times(&self) -> bool {
        !matches!(self.join, "WINDOW JOIN" | "HORIZON JOIN" | "SPLICE JOIN")
    }

    /// A pair of times as timestamps in nanoseconds.
    pub(crate) fn as_times(&self, times: (Expr, Expr)) -> Result<(Expr, Expr)> {
        let as_time = |time, side: &LogicalPlan| as_time(time, side.schema(), (self.join, self.position));
        Ok((as_time(times.0, self.left)?, as_time(times.1, self.right)?))
    }

    /// A pair of what is compared as timestamps in nanoseconds, numbers as some in the same order.
    fn as_ordered(&self, (left, right): (Expr, Expr)) -> Result<(Expr, Expr)> {
        let (a, b) = (left.get_type(self.left.schema())?, right.get_type(self.right.schema())?);
        if !a.is_numeric() || !b.is_numeric() {
            return self.as_times((left, right));
        }
        match common_type(&a, &b).filter(has_order_key) {
            Some(common) => Ok((order_key(cast(left, common.clone())), order_key(cast(right, common)))),
            None => Err(planning_error(
                SqlError::new(
                    format!("{} cannot go by {left} ({a}) and {right} ({b})", self.join),
                    self.position,
                )
                .hint("cast one of them to the type of the other, such as x::BIGINT or x::DOUBLE"),
            )),
        }
    }

    /// The keys, of one type on both sides, and the right columns that are merged with left ones.
    pub(crate) fn keys(self) -> Result<(KeyPairs, Vec<Column>)> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let keys = self.keys.into_iter().map(|(l, r)| same_type(l, r, left, right));
        Ok((keys.collect::<Result<_>>()?, self.merged))
    }

    /// A key column that both sides have under one name.
    fn merge(&mut self, name: &ast::Ident, position: Position) -> Result<()> {
        let find = |schema: &DFSchema, side: &str| {
            let columns = schema.columns();
            let named = |c: &&Column| c.name == name.value;
            let folded = |c: &&Column| name.quote_style.is_none() && c.name.eq_ignore_ascii_case(&name.value);
            let found = columns.iter().find(named).or_else(|| columns.iter().find(folded)).cloned();
            found.ok_or_else(|| {
                fail(format!("the {side} side of {} has no column {name}", self.join), position)
            })
        };
        let left = find(self.left.schema(), "left")?;
        let right = find(self.right.schema(), "right")?;
        self.merged.push(right.clone());
        self.keys.push((Expr::Column(left), Expr::Column(right)));
        Ok(())
    }

    /// Equalities are keys, an inequality compares the times.
    fn condition(&mut self, condition: ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<()> {
        let position = place(&condition);
        let schema = self.left.schema().join(self.right.schema())?;
        let condition = context.sql_to_expr(condition, &schema)?;
        let schemas: [&DFSchema; 2] = [self.left.schema(), self.right.schema()];
        let condition = normalize_col_with_schemas_and_ambiguity_check(condition, &[&schemas], &[])?;
        for part in split_conjunction_owned(condition) {
            self.conjunct(part, position)?;
        }
        Ok(())
    }

    fn conjunct(&mut self, part: Expr, position: Position) -> Result<()> {
        if self.takes_times() && !part.is_volatile() {
            let columns = part.column_refs();
            let are_all = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
            let conditions = match (are_all(self.left), are_all(self.right)) {
                // Without a column it holds, or does not, for all.
                (_, true) => Some(&mut self.conditions.1),
                (true, false) => Some(&mut self.conditions.0),
                (false, false) => None,
            };
            if let Some(conditions) = conditions {
                conditions.push(part);
                return Ok(());
            }
        }
        let refuse = |part: &dyn std::fmt::Display| {
            let hint = match self.takes_times() {
                true => {
                    "it takes equalities l.k = r.k, one l.ts >= r.ts (or >, <=, <) and conditions on one side, joined by AND; what compares the sides otherwise stands in WHERE, where it is looked at once the rows are found"
                }
                false => {
                    "it takes equalities l.k = r.k, joined by AND, and goes by the designated timestamps itself"
                }
            };
            planning_error(
                SqlError::new(format!("{} cannot match on {part}", self.join), position).hint(hint),
            )
        };
        let shown = part.to_string();
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return Err(refuse(&shown)) };
        let (left, op, right) = if self.is_of(self.left, &left) && self.is_of(self.right, &right) {
            (*left, op, *right)
        } else if self.is_of(self.right, &left) && self.is_of(self.left, &right) {
            (*right, op.swap().unwrap_or(op), *left)
        } else {
            return Err(refuse(&shown));
        };
        match op {
            Operator::Eq => self.keys.push((left, right)),
            Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt
                if self.times.is_none() && self.takes_times() =>
            {
                self.times = Some(((left, right), op));
            }
            _ => return Err(refuse(&shown)),
        }
        Ok(())
    }

    /// Whether an expression reads columns, all of this side.
    fn is_of(&self, side: &LogicalPlan, expr: &Expr) -> bool {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| side.schema().has_column(column))
    }
}

fn as_time(expr: Expr, schema: &DFSchema, (join, position): (&str, Position)) -> Result<Expr> {
    let wanted = DataType::Timestamp(TimeUnit::Nanosecond, None);
    match expr.get_type(schema)? {
        found if found == wanted => Ok(expr),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Ok(cast(expr, wanted)),
        found => Err(planning_error(
            SqlError::new(format!("{join} compares timestamps, and {expr} is {found}"), position)
                .hint("numbers can be compared by ASOF JOIN without TOLERANCE and NEAREST, which are lengths of time"),
        )),
    }
}

/// The type that values of two types are compared as; a DOUBLE beside any number is one, as in other joins.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let is_double = a.is_numeric() && b.is_numeric() && (a.is_floating() || b.is_floating());
    if is_double { Some(DataType::Float64) } else { comparison_coercion(a, b) }
}

/// Brings a pair of keys to one type, where the key ids do not see through the difference.
fn same_type(
    left: Expr,
    right: Expr,
    left_schema: &DFSchema,
    right_schema: &DFSchema,
) -> Result<(Expr, Expr)> {
    let (a, b) = (left.get_type(left_schema)?, right.get_type(right_schema)?);
    if a == b || (is_text(&a) && is_text(&b)) {
        return Ok((left, right));
    }
    let Some(common) = common_type(&a, &b) else {
        return Err(datafusion::common::plan_datafusion_err!(
            "cannot compare {left} ({a}) with {right} ({b})"
        ));
    };
    Ok((cast(left, common.clone()), cast(right, common)))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

/// A fixed length of time in nanoseconds.
pub(crate) fn nanos(tolerance: ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let position = place(&tolerance);
    let refuse =
        || planning_error(SqlError::new("a tolerance is a fixed length of time", position).hint(STRIDE_HINT));
    if let Some(text) = text_of(&tolerance) {
        if text == NO_TIME {
            return Ok(0);
        }
        return Stride::parse(&text).and_then(Stride::nanos).ok_or_else(refuse);
    }
    let Expr::Literal(value, _) = context.sql_to_expr(tolerance, &DFSchema::empty())? else {
        return Err(refuse());
    };
    interval_nanos(&value).filter(|nanos| *nanos >= 0).ok_or_else(refuse)
}
