//! A DECIMAL beside a DOUBLE is compared and put together as a DOUBLE: what is exact beside what is approximate is
//! approximate, as in SQL and as `+` has it. So are a DECIMAL and a whole number beside a FLOAT.
//!
//! DataFusion 55.2 makes a DECIMAL and a DOUBLE a DECIMAL(30, 15), which takes 1e-20 for 0 and fails at 1e300, NaN and
//! infinity, and a whole number and a FLOAT a FLOAT, in whose 24 bits 16777217 is 16777216. The rule runs before types
//! are made to agree and casts the DECIMAL and the FLOAT. Numbers that are written in the text are no doubles yet:
//! beside a DECIMAL they keep their digits ([`crate::rules::literals`]), as long as they have 15 of them on either side
//! of the point. A whole number in the text that a FLOAT holds leaves the FLOAT as it is, other than in arithmetic.
//!
//! A cast that takes digits from a DECIMAL is hidden from the planner, which would compare the DECIMAL itself:
//! `CAST(m AS BIGINT) = 2` is true of 2.4.
//!
//! DECIMALs that are compared are both made one of at most 38 digits, which may have no room for the digits before the
//! point of one and after that of the other: then they are compared in 256 bits.

use crate::functions::named_cast;
use crate::rules::literals::is_comparison;
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Subquery, Union, cast,
};
use std::sync::Arc;

/// Functions that give one of their arguments, or compare them.
const ONE_OF: [&str; 8] =
    ["coalesce", "nvl", "ifnull", "nullif", "greatest", "least", "make_array", "make_list"];

/// A UNION whose columns have such types, and a JOIN whose keys do.
///
/// # Errors
/// Those of types that are not known.
pub(super) fn agreed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(union) => united(union),
        LogicalPlan::Join(join) => Ok(joined(join)),
        other => Ok(Transformed::no(other)),
    }
}

/// The type that holds all these values; `None` where there is none.
pub(super) fn common_type(values: &[Expr], schema: &DFSchema) -> Result<Option<DataType>> {
    if are_mixed(values.iter().map(|value| Kind::of(value, schema))) {
        return Ok(Some(DataType::Float64));
    }
    let types = values.iter().map(|value| value.get_type(schema)).collect::<Result<Vec<_>>>()?;
    Ok(type_union_resolution(&types))
}

/// The type that holds all values of these types, as UNION has it; `None` where there is none.
pub(crate) fn common_of(types: &[DataType]) -> Option<DataType> {
    match are_mixed(types.iter().map(Kind::of_type)) {
        true => Some(DataType::Float64),
        false => type_union_resolution(types),
    }
}

/// What a value is beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Decimal,
    Whole,
    Float,
    Double,
    Other,
}

impl Kind {
    fn of_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Decimal128(..) | DataType::Decimal256(..) => Self::Decimal,
            DataType::Float32 | DataType::Float16 => Self::Float,
            DataType::Float64 => Self::Double,
            whole if whole.is_integer() => Self::Whole,
            _ => Self::Other,
        }
    }

    fn of(expr: &Expr, schema: &DFSchema) -> Self {
        match expr {
            Expr::Literal(ScalarValue::Float64(Some(value)), _) if is_short(*value) => Self::Other,
            Expr::Literal(ScalarValue::Int64(Some(value)), _) if is_float(*value) => Self::Other,
            Expr::Negative(inner) => Self::of(inner, schema),
            Expr::Alias(alias) => Self::of(&alias.expr, schema),
            _ => expr.get_type(schema).map_or(Self::Other, |data_type| Self::of_type(&data_type)),
        }
    }

    /// Whether it becomes a DOUBLE where kinds are mixed; the planner casts whole numbers then.
    fn is_cast(self) -> bool {
        matches!(self, Self::Decimal | Self::Float)
    }
}

/// Whether a number has a place among those of fifteen digits before and after the point.
fn is_short(value: f64) -> bool {
    const MOST: f64 = 1e15;
    value == 0.0 || (value.abs() < MOST && value.abs() > 1.0 / MOST)
}

/// Whether a FLOAT holds a whole number.
fn is_float(value: i64) -> bool {
    const MOST: u64 = 1 << f32::MANTISSA_DIGITS;
    value.unsigned_abs() <= MOST
}

/// Whether some of these are exact, and others of too few bits for them.
fn are_mixed(kinds: impl Iterator<Item = Kind>) -> bool {
    let (mut decimal, mut whole, mut float, mut double) = (false, false, false, false);
    for kind in kinds {
        decimal |= kind == Kind::Decimal;
        whole |= kind == Kind::Whole;
        float |= kind == Kind::Float;
        double |= kind == Kind::Double;
    }
    decimal && (float || double) || whole && float
}

/// Casts DECIMALs and FLOATs where kinds are mixed; says whether it did.
fn cast_mixed<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut exprs: Vec<&mut Expr> = exprs.into_iter().collect();
    if !are_mixed(exprs.iter().map(|expr| Kind::of(expr, schema))) {
        return false;
    }
    for expr in exprs.iter_mut().filter(|expr| Kind::of(expr, schema).is_cast()) {
        **expr = cast(expr.clone(), DataType::Float64);
    }
    true
}

/// Casts a FLOAT that is added to a whole number or a DECIMAL, and the like; says whether it did.
fn calculated(left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let kinds = [Kind::of_type(&left.get_type(schema)?), Kind::of_type(&right.get_type(schema)?)];
    let float = match kinds {
        [Kind::Float, Kind::Whole | Kind::Decimal] => left,
        [Kind::Whole | Kind::Decimal, Kind::Float] => right,
        _ => return Ok(false),
    };
    *float = cast(std::mem::take(float), DataType::Float64);
    Ok(true)
}

/// Casts what is compared with each other where its values would not keep their digits; says whether it did.
fn compared_as_one(mut exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    cast_mixed(exprs.iter_mut().map(|expr| &mut **expr), schema) || cast_wide(exprs, schema)
}

/// Casts DECIMALs and whole numbers whose digits before and after the point are more than 38 together to a DECIMAL of 256
/// bits; says whether it did.
fn cast_wide(exprs: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    /// Digits of a BIGINT UNSIGNED.
    const WHOLE: i16 = 20;
    let digits = |expr: &Expr| match expr.get_type(schema).ok()? {
        DataType::Decimal128(precision, scale) => {
            Some((i16::from(precision) - i16::from(scale), i16::from(scale)))
        }
        of => of.is_integer().then_some((WHOLE, 0)),
    };
    let Some(all) = exprs.iter().map(|expr| digits(expr)).collect::<Option<Vec<_>>>() else { return false };
    let (whole, scale) = all.iter().fold((0, 0), |most, of| (most.0.max(of.0), most.1.max(of.1)));
    let Ok(to) = i8::try_from(scale) else { return false };
    if whole + scale <= i16::from(DECIMAL128_MAX_PRECISION) || scale == 0 {
        return false;
    }
    for expr in exprs {
        *expr = cast(std::mem::take(expr), DataType::Decimal256(DECIMAL256_MAX_PRECISION, to));
    }
    true
}

/// See the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn compared(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Cast(Cast { expr: value, field }) = &expr
        && takes_digits(&value.get_type(schema)?, field.data_type())
    {
        return Ok(Transformed::yes(named_cast(value.as_ref().clone(), field.data_type(), false)));
    }
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            compared_as_one(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.is_numerical_operators() => {
            calculated(left, right, schema)?
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            compared_as_one(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            compared_as_one(std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect(), schema)
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut compared, mut given) = (Vec::new(), Vec::new());
            for (when, then) in when_then_expr {
                compared.push(when.as_mut());
                given.push(then.as_mut());
            }
            let of_values = expr
                .as_mut()
                .is_some_and(|expr| cast_mixed(std::iter::once(expr.as_mut()).chain(compared), schema));
            let given = given.into_iter().chain(else_expr.as_mut().map(|expr| expr.as_mut()));
            cast_mixed(given, schema) || of_values
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if ONE_OF.contains(&func.name()) => {
            cast_mixed(args.iter_mut(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => cast_subquery(expr, subquery, schema)?,
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Whether a cast gives several values one.
fn takes_digits(from: &DataType, to: &DataType) -> bool {
    let (DataType::Decimal128(_, digits) | DataType::Decimal256(_, digits)) = from else { return false };
    match to {
        DataType::Decimal128(_, kept) | DataType::Decimal256(_, kept) => kept < digits,
        to => to.is_integer() && *digits > 0,
    }
}

fn cast_subquery(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let found = subquery.subquery.schema();
    let Some(field) = found.fields().first() else { return Ok(false) };
    let kinds = [Kind::of(expr, schema), Kind::of_type(field.data_type())];
    if !are_mixed(kinds.into_iter()) {
        return Ok(false);
    }
    if kinds[0].is_cast() {
        *expr = cast(std::mem::take(expr), DataType::Float64);
    }
    if kinds[1].is_cast() {
        subquery.subquery = Arc::new(with_doubles(subquery.subquery.as_ref().clone(), &[true])?);
    }
    Ok(true)
}

/// The same columns under their names, some of them as DOUBLEs.
fn with_doubles(plan: LogicalPlan, is_double: &[bool]) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().zip(is_double).map(|((qualifier, field), is_double)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match is_double {
            true => cast(column, DataType::Float64).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let kind = |input: &LogicalPlan, column: usize| {
        let fields = input.schema().fields();
        fields.get(column).map_or(Kind::Other, |field| Kind::of_type(field.data_type()))
    };
    let columns = 0..union.schema.fields().len();
    let mixed: Vec<bool> =
        columns.map(|column| are_mixed(union.inputs.iter().map(|input| kind(input, column)))).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let is_double: Vec<bool> =
            (0..).zip(&mixed).map(|(column, mixed)| *mixed && kind(&input, column).is_cast()).collect();
        match is_double.contains(&true) {
            true => Ok(Arc::new(with_doubles(Arc::unwrap_or_clone(input), &is_double)?)),
            false => Ok(input),
        }
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The keys of a join; its filter is an expression like any other.
fn joined(mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let kinds = [Kind::of(left, join.left.schema()), Kind::of(right, join.right.schema())];
        if !are_mixed(kinds.into_iter()) {
            continue;
        }
        for (key, _) in [left, right].into_iter().zip(kinds).filter(|(_, kind)| kind.is_cast()) {
            *key = cast(std::mem::take(key), DataType::Float64);
        }
        changed = true;
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}
