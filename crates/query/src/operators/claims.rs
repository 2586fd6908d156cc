//! What DataFusion believes of expressions, cut down to what is declared ([`crate::facts`]).
//!
//! DataFusion 55.2 takes any cast of a time to another type of times for one that keeps order: by `ts::TIME`, rows that are
//! sorted by `ts` were taken for sorted, so that groups, DISTINCT and windows parted them wrong
//! (<https://github.com/apache/datafusion/issues/25506>). And of a condition it concludes through casts and arithmetic
//! which values a column may have, as if these lost nothing: by `ts::DATE = '2024-08-08'`, or `price::BIGINT = 100`, the
//! column was taken for one value, and nothing was sorted by it any more
//! (<https://github.com/apache/datafusion/issues/25523>).
//!
//! What claims more than is declared is put into [`Hidden`], of which nothing is known, just before a plan becomes
//! physical: rules over logical plans see expressions as they are. In scans they stay so: those have rules of their own.

use crate::facts;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use std::sync::Arc;

/// The plan where no expression claims more than is declared of it.
///
/// # Errors
/// None of its own.
pub(super) fn declared(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let declared = plan.clone().transform_up_with_subqueries(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) || !may_claim(&node)? {
            return Ok(Transformed::no(node));
        }
        let schema = match node.inputs().as_slice() {
            [] => DFSchema::clone(node.schema()),
            inputs => merge_schema(inputs),
        };
        let is_condition = matches!(node, LogicalPlan::Filter(_));
        let calls = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
        let declared = node.map_expressions(|expr| match is_condition {
            true => in_condition(expr, &schema),
            false if calls => {
                // An order within a call is shown in its name, by which nodes above know it.
                let named = expr.schema_name().to_string();
                in_rows(expr, &schema)?.map_data(|expr| {
                    let keeps = expr.schema_name().to_string() == named;
                    Ok(if keeps { expr } else { expr.alias(named) })
                })
            }
            false => in_rows(expr, &schema),
        })?;
        Ok(declared.update_data(with_named_keys))
    })?;
    Ok(declared.data)
}

/// A join whose keys have names that say all of them. Those that are no columns become columns beside all others, by the
/// names that results have: that of a cast is the name of what it casts, and that of `f(x::DOUBLE)` is that of `f(x)`.
fn with_named_keys(plan: LogicalPlan) -> LogicalPlan {
    let LogicalPlan::Join(mut join) = plan else { return plan };
    for key in join.on.iter_mut().flat_map(|(left, right)| [left, right]) {
        if !matches!(key, Expr::Column(_)) {
            let bare = std::mem::take(key).unalias();
            let name = bare.to_string();
            *key = bare.alias(name);
        }
    }
    LogicalPlan::Join(join)
}

/// Whether expressions of a node are of the kinds that claim something.
fn may_claim(node: &LogicalPlan) -> Result<bool> {
    let mut may = false;
    node.apply_expressions(|expr| {
        may = may
            || expr
                .exists(|expr| Ok(!matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_))))?;
        Ok(if may { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(may)
}

/// An expression that is worked out for rows, of whose order DataFusion asks.
fn in_rows(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        Ok(match claim(&expr, schema) {
            Claim::TooMuch => Transformed::new(opaque(expr), true, TreeNodeRecursion::Jump),
            Claim::Declared => Transformed::no(expr),
            // A volatile call may be below it.
            Claim::Nothing if expr.is_volatile() => Transformed::no(expr),
            Claim::Nothing => Transformed::new(expr, false, TreeNodeRecursion::Jump),
        })
    })
}

/// What DataFusion says of the order of an expression's values.
enum Claim {
    /// Nothing, whatever it says of those below.
    Nothing,
    /// What is declared, or what it says of those below.
    Declared,
    TooMuch,
}

/// What DataFusion says of an expression over rows in any order.
fn claim(expr: &Expr, schema: &DFSchema) -> Claim {
    let type_of = |of: &Expr| of.get_type(schema).ok();
    match expr {
        Expr::Alias(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::GroupingSet(_) => {
            Claim::Declared
        }
        Expr::Cast(Cast { expr, field }) => {
            type_of(expr).map_or(Claim::Nothing, |from| claim_of_cast(&from, field.data_type()))
        }
        // NaN is the largest number, and its negative too.
        Expr::Negative(of) => match type_of(of).is_some_and(|of| of.is_decimal()) {
            true => Claim::Declared,
            false => Claim::TooMuch,
        },
        // `x > 5 OR NULL` is NULL where the other side is FALSE, and TRUE after it.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right })
            if [left, right].iter().any(|side| may_be_null_for_all(side)) =>
        {
            Claim::TooMuch
        }
        Expr::BinaryExpr(_) => Claim::Declared,
        // DataFusion takes a call of constants for a constant.
        Expr::ScalarFunction(call)
            if call.func.signature().volatility == Volatility::Volatile && !call.args.is_empty() =>
        {
            Claim::TooMuch
        }
        Expr::ScalarFunction(call) => {
            let types = call.args.iter().map(type_of).collect::<Option<Vec<DataType>>>();
            match types {
                Some(types) if facts::keeps_order(call.name(), types.iter()) => Claim::Declared,
                Some(types) if claims_order(call, &types) => Claim::TooMuch,
                _ => Claim::Nothing,
            }
        }
        _ => Claim::Nothing,
    }
}

fn claim_of_cast(from: &DataType, to: &DataType) -> Claim {
    let cast = CastExpr::new(Arc::new(Column::new("", 0)), to.clone(), None);
    let Ok(claimed) = rising(from).and_then(|of| cast.get_properties(&[of])) else { return Claim::Nothing };
    let ordered = claimed.sort_properties != SortProperties::Unordered;
    if ordered && !facts::cast_keeps_order(from, to)
        || claimed.strictly_order_preserving && !facts::cast_tells_apart(from, to)
    {
        return Claim::TooMuch;
    }
    if ordered { Claim::Declared } else { Claim::Nothing }
}

fn may_be_null_for_all(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_)) || matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// Whether a function says that it keeps the order of an argument, or of all.
fn claims_order(call: &ScalarFunction, types: &[DataType]) -> bool {
    let argument = |at: usize, rises: bool| match &call.args[at] {
        Expr::Literal(value, _) => constant(value.into()),
        _ if rises => rising(&types[at]).ok(),
        _ => constant(Interval::make_unbounded(&types[at]).ok()?),
    };
    let arguments = |of: Option<usize>| -> Option<Vec<ExprProperties>> {
        (0..types.len()).map(|at| argument(at, of.is_none_or(|of| of == at))).collect()
    };
    let claims = |arguments: Vec<ExprProperties>| {
        let ordered = call.func.output_ordering(&arguments);
        ordered.is_ok_and(|of| matches!(of, SortProperties::Ordered(_)))
            || call.func.preserves_lex_ordering(&arguments).unwrap_or(false)
            || call.func.inner().strictly_order_preserving(&arguments).unwrap_or(false)
    };
    std::iter::once(None).chain((0..types.len()).map(Some)).filter_map(arguments).any(claims)
}

/// What is known of values that ascend.
fn rising(of: &DataType) -> Result<ExprProperties> {
    Ok(ExprProperties {
        sort_properties: SortProperties::Ordered(SortOptions::default()),
        range: Interval::make_unbounded(of)?,
        preserves_lex_ordering: false,
        strictly_order_preserving: true,
    })
}

fn constant(range: Interval) -> Option<ExprProperties> {
    Some(ExprProperties {
        sort_properties: SortProperties::Singleton,
        range,
        preserves_lex_ordering: true,
        strictly_order_preserving: true,
    })
}

/// A condition, by which DataFusion concludes which values columns have: right where they are compared as they are.
fn in_condition(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq};
        Ok(match &expr {
            Expr::BinaryExpr(BinaryExpr { op: And | Eq | NotEq | Lt | LtEq | Gt | GtEq, .. }) => {
                Transformed::no(expr)
            }
            Expr::Between(_) => Transformed::no(expr),
            // What equals a call of constants would be taken for one value.
            _ if expr.is_volatile() => Transformed::new(opaque(expr), true, TreeNodeRecursion::Jump),
            Expr::Cast(_) | Expr::Negative(_) | Expr::BinaryExpr(_) if concludes(&expr, schema) => {
                Transformed::new(opaque(expr), true, TreeNodeRecursion::Jump)
            }
            _ => Transformed::new(expr, false, TreeNodeRecursion::Jump),
        })
    })
}

/// Whether DataFusion concludes from the values of an expression on those of columns in it, and should not.
fn concludes(expr: &Expr, schema: &DFSchema) -> bool {
    if let Expr::Cast(Cast { expr, field }) = expr {
        let Ok(from) = expr.get_type(schema) else { return false };
        let plain =
            matches!(expr.as_ref(), Expr::Column(_)) && facts::cast_tells_apart(&from, field.data_type());
        return !plain && (from.is_numeric() || from.is_temporal());
    }
    let lossy = match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
        }
        _ => true,
    };
    lossy && !expr.column_refs().is_empty()
}

/// An expression of which nothing is known: not that it is a constant either, where it is volatile.
fn opaque(expr: Expr) -> Expr {
    let call = |which, signature, args| ScalarUDF::from(Hidden { which, signature }).call(args);
    let varying = || call(Which::Varying, Signature::nullary(Volatility::Volatile), Vec::new());
    let varying = expr.is_volatile().then(varying);
    let arguments = std::iter::once(expr).chain(varying).collect();
    call(Which::Opaque, Signature::variadic_any(Volatility::Immutable), arguments)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    /// Its first argument, and that one's name: the node's columns have the names that they had.
    Opaque,
    /// NULL, which is no constant to DataFusion, and nothing that it is an argument of.
    Varying,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    which: Which,
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &'static str {
        match self.which {
            Which::Opaque => "opaque",
            Which::Varying => "varying",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|of| of.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first().cloned();
        Ok(field.unwrap_or_else(|| Arc::new(Field::new(self.name(), DataType::Null, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = args.args.into_iter().next();
        Ok(first.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}

#[cfg(test)]
mod tests;
