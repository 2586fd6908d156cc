//! What two columns of doubles make, summed without being written down: spreads, notionals.

use super::fold;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use std::sync::Arc;

/// Least part of the size of both sides that a sum must be to be taken from theirs.
const LEAST_SHARE: f64 = 1.0 / 65_536.0;

/// An operation on two doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Pair {
    Sum,
    Difference,
    Product,
}

impl Pair {
    /// The operation that an expression is, and its two sides.
    pub(in super::super) fn of(
        expr: &Arc<dyn PhysicalExpr>,
        input: &Schema,
    ) -> Option<(Self, [Arc<dyn PhysicalExpr>; 2])> {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let operation = match binary.op() {
            Operator::Plus => Self::Sum,
            Operator::Minus => Self::Difference,
            Operator::Multiply => Self::Product,
            _ => return None,
        };
        // A constant side would have to be spread out first.
        let column = |side: &Arc<dyn PhysicalExpr>| {
            super::column(side).is_some()
                && side.data_type(input).is_ok_and(|data_type| data_type == DataType::Float64)
        };
        let (left, right) = (binary.left(), binary.right());
        (column(left) && column(right)).then(|| (operation, [Arc::clone(left), Arc::clone(right)]))
    }

    /// What it makes of two doubles.
    pub(super) fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Sum => left + right,
            Self::Difference => left - right,
            Self::Product => left * right,
        }
    }

    /// The sum of what it makes of each two rows of a block, from the sums of both sides; `size` is no less than the
    /// values of both sides added up without their signs.
    ///
    /// A difference of sums loses the digits that both sides have in common. A sum of 1,024 values is off by less than
    /// 2^-43 of their size, so what [`LEAST_SHARE`] lets pass is right to 2^-27 at worst, and to eleven digits where
    /// roundings go up as often as down. `None` where it would not be, and where a sum has overflowed.
    pub(super) fn of_sums(self, left: f64, right: f64, size: f64) -> Option<f64> {
        let sum = match self {
            Self::Sum => left + right,
            Self::Difference => left - right,
            Self::Product => return None,
        };
        (sum.is_finite() && sum.abs() >= size * LEAST_SHARE).then_some(sum)
    }

    /// The sum of what it makes of each two of some rows.
    pub(super) fn total(self, left: &[f64], right: &[f64]) -> f64 {
        // Told apart outside the loop, so that each has its own.
        match self {
            Self::Sum => fold::sum_of(left, right, |a, b| a + b),
            Self::Difference => fold::sum_of(left, right, |a, b| a - b),
            Self::Product => fold::sum_of(left, right, |a, b| a * b),
        }
    }
}
