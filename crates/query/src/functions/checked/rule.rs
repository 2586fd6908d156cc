//! Puts the checked operations in the place of the operators, and of `||` the function that claims what it makes.

use super::decimal::{self, CheckedDecimal};
use super::{Checked, Operation};
use crate::functions::growth;
use crate::functions::joined::Joined;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Runs after types were made to agree.
#[derive(Debug)]
pub(crate) struct CheckOverflow;

impl AnalyzerRule for CheckOverflow {
    fn name(&self) -> &str {
        "check_overflow"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let schema = match plan.inputs().as_slice() {
                [] => DFSchema::clone(plan.schema()),
                inputs => merge_schema(inputs),
            };
            // The functions have the names of the operators; the FILTER of an aggregate is shown by another, though.
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| Ok(checked(expr, &schema)))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(changed.data)
    }
}

/// The checked operation in the place of an operator, whose sides have been looked at.
fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(expr) => binary(expr, schema),
        Expr::Negative(inner) => match type_of(&inner, schema).filter(|of| Operation::Negate.takes(of)) {
            Some(of) => Transformed::yes(call(Operation::Negate, of, vec![*inner])),
            None => Transformed::no(Expr::Negative(inner)),
        },
        other => match decimal::cast_of_all(&other) {
            Some(cast) => Transformed::yes(cast),
            None => Transformed::no(other),
        },
    }
}

/// The call in the place of an operator, where it has one.
fn binary(expr: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let stays = |expr| Transformed::no(Expr::BinaryExpr(expr));
    // The right side first: in a long sum it is what has no sides of its own.
    let Some(of) = type_of(&expr.right, schema) else { return stays(expr) };
    if expr.op == Operator::StringConcat && Joined::takes(&of) {
        return match type_of(&expr.left, schema) {
            Some(beside) if beside == of => Transformed::yes(growth::joined(*expr.left, *expr.right, of)),
            _ => stays(expr),
        };
    }
    let operation = Operation::of(expr.op).filter(|operation| operation.takes(&of));
    if operation.is_none() && !of.is_decimal() {
        return stays(expr);
    }
    let Some(beside) = type_of(&expr.left, schema) else { return stays(expr) };
    match operation {
        Some(operation) if beside == of => {
            Transformed::yes(call(operation, of, vec![*expr.left, *expr.right]))
        }
        None if beside.is_decimal() => {
            let result = BinaryTypeCoercer::new(&beside, &expr.op, &of).get_result_type();
            match result {
                Ok(result) => decimal::checked(expr, (&beside, &of), result),
                Err(_) => stays(expr),
            }
        }
        _ => stays(expr),
    }
}

impl Operation {
    /// Whether values of this type are checked.
    fn takes(self, of: &DataType) -> bool {
        match self {
            Operation::Add | Operation::Subtract => of.is_integer() || matches!(of, DataType::Duration(_)),
            Operation::Multiply | Operation::ShiftLeft | Operation::ShiftRight => of.is_integer(),
            Operation::Difference => *of == DataType::UInt64,
            Operation::Negate => of.is_signed_integer() || matches!(of, DataType::Duration(_)),
        }
    }
}

fn call(operation: Operation, of: DataType, args: Vec<Expr>) -> Expr {
    let function = ScalarUDF::new_from_impl(Checked::new(operation, of));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// Whether what an operator gives of whole numbers is of their type, and needs no check of ours.
fn is_of_left(op: Operator) -> bool {
    matches!(
        op,
        Operator::Divide
            | Operator::IntegerDivide
            | Operator::Modulo
            | Operator::BitwiseAnd
            | Operator::BitwiseOr
            | Operator::BitwiseXor
            | Operator::BitwiseShiftLeft
            | Operator::BitwiseShiftRight
    )
}

/// The type of an operand; `None` also for arithmetic that is still an operator and neither a difference of times nor
/// of DECIMALs: it is of no whole numbers. To find the type of every operator in a long sum anew would take the square of
/// its length; of DECIMALs there are few, since each has a digit more than its sides.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Expr::ScalarFunction(function) = expr {
        if let Some(checked) = function.func.inner().downcast_ref::<Checked>() {
            return Some(checked.result());
        }
        if let Some(of) = growth::type_of_joined(&function.func) {
            return Some(of.clone());
        }
        if let Some(checked) = function.func.inner().downcast_ref::<CheckedDecimal>() {
            return Some(checked.result.clone());
        }
    }
    if let Expr::BinaryExpr(binary) = expr {
        let (mut first, mut of_left) = (&binary.left, is_of_left(binary.op));
        while let Expr::BinaryExpr(binary) = first.as_ref() {
            first = &binary.left;
            of_left &= is_of_left(binary.op);
        }
        let first = first.get_type(schema).ok()?;
        if of_left && first.is_integer() {
            return Some(first);
        }
        if !first.is_temporal() && !first.is_decimal() {
            return None;
        }
    }
    expr.get_type(schema).ok()
}
