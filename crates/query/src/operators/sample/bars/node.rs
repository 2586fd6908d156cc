//! The logical node of SAMPLE BY with bars of a size.

use crate::dialect::marker::{BarClause, BarKind, place};
use crate::error::SqlError;
use crate::operators::fill::plan::constant;
use crate::operators::node::{Exprs, Node, columns_of, is_plain_key, node, write_list};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue, TableReference, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use std::fmt;
use std::sync::Arc;

/// When a bar is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BarSize {
    kind: BarKind,
    /// The bits of the size, a positive number.
    limit: u64,
}

impl BarSize {
    /// The size that a clause says.
    ///
    /// # Errors
    /// [`SqlError`] where it is no positive number; of TICKS, no whole one.
    pub(crate) fn of(clause: &BarClause) -> Result<Self, SqlError> {
        let limit = match constant(&clause.limit) {
            Some(ScalarValue::Int64(Some(limit))) => Some(limit as f64),
            Some(ScalarValue::Float64(limit)) => limit,
            _ => None,
        };
        let whole = |limit: &f64| clause.kind != BarKind::Ticks || limit.fract() == 0.0;
        match limit.filter(|limit| *limit > 0.0 && limit.is_finite()).filter(whole) {
            Some(limit) => Ok(Self { kind: clause.kind, limit: limit.to_bits() }),
            None => {
                let (word, at) = (clause.kind.word(), place(&clause.limit));
                let message = format!("{} is no size of a bar", clause.limit);
                let kind = if clause.kind == BarKind::Ticks { "a whole number of rows" } else { "a number" };
                Err(SqlError::new(message, at).hint(format!("SAMPLE BY {word} takes {kind} above 0")))
            }
        }
    }

    /// What a bar's rows must add up to.
    pub(super) fn limit(self) -> f64 {
        f64::from_bits(self.limit)
    }

    /// Whether each row adds 1.
    pub(super) fn is_ticks(self) -> bool {
        self.kind == BarKind::Ticks
    }

    /// The word that it is written with.
    pub(super) fn word(self) -> &'static str {
        self.kind.word()
    }
}

impl fmt::Display for BarSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word(), self.limit())
    }
}

/// Groups by (bar, keys).
///
/// Output: the time of the bar's first row, the keys, the aggregates; ordered by time, then keys, and bars of
/// one key that begin at the same time as they follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bars {
    /// What is grouped.
    pub(crate) input: LogicalPlan,
    /// The order of rows, `Timestamp(ns)`; rows where it is NULL are left out.
    pub(crate) time: Expr,
    /// What each row adds to its bar, a double.
    pub(crate) of: Expr,
    /// The keys.
    pub(crate) keys: Vec<Expr>,
    /// Aggregate functions, possibly with an alias.
    pub(crate) aggregates: Vec<Expr>,
    /// When a bar is full.
    pub(crate) size: BarSize,
    /// Qualifier and field of the time in the output.
    start: (Option<TableReference>, Arc<Field>),
    schema: DFSchemaRef,
}

impl Bars {
    pub(crate) fn try_new(
        input: LogicalPlan,
        time: Expr,
        of: Expr,
        keys: Vec<Expr>,
        aggregates: Vec<Expr>,
        size: BarSize,
        start: (Option<TableReference>, Arc<Field>),
    ) -> Result<Self> {
        let of = match of.get_type(input.schema())? {
            DataType::Float64 => of,
            found if found.is_numeric() => cast(of, DataType::Float64),
            found => return plan_err!("{} takes a number, not {found}", size.word()),
        };
        let mut fields = vec![start.clone()];
        fields.extend(exprlist_to_fields(keys.iter().chain(&aggregates), &input)?);
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, time, of, keys, aggregates, size, start, schema: Arc::new(schema) })
    }
}

node!(Bars);

impl Node<1> for Bars {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        [&self.time, &self.of].into_iter().chain(&self.keys).chain(&self.aggregates).cloned().collect()
    }

    /// A condition on a key that is a plain column picks rows as it picks bars.
    fn passes(&self, column: usize) -> bool {
        is_plain_key(&self.keys, column)
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bars: {} of {} by {}, keys=[", self.size, self.of, self.time)?;
        write_list(f, &self.keys)?;
        f.write_str("], aggregates=[")?;
        write_list(f, &self.aggregates)?;
        f.write_str("]")
    }

    fn over(&self, mut exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        let (time, of, keys) = (exprs.next(&self.time), exprs.next(&self.of), exprs.take(self.keys.len()));
        Self::try_new(input, time, of, keys, exprs.rest(), self.size, self.start.clone())
    }

    fn reads(&self, _output: &[usize]) -> [Vec<usize>; 1] {
        [columns_of(&self.exprs(), self.input.schema())]
    }
}
