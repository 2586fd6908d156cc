//! Literals that stand where another type is wanted: text for a time, a UUID or bytes
//! (`ts >= '2024-08-08T09:30'`, `ts < '2024-09'`, `id = '67e55044-10b1-426f-9247-bb680e5fe0c8'`,
//! `raw = '\x00ff'`), a whole number for a SYMBOL (`symbol = 600519`).
//!
//! The rule runs before types are made to agree. It reads such text as files are read (one set of rules for
//! all input), so that a literal may leave out what a file's timestamp may, and besides the day and the
//! month: a year or a month is its first instant. Text in other places is left to DataFusion. After `IN` without
//! brackets it names an interval ([`crate::texts::interval`]). Numbers beside a DECIMAL keep their digits
//! ([`decimal`]).

use crate::error::dates::read_as;
use crate::functions::times_interval;
use crate::rules::texts;
use crate::texts::{UUID_BYTES, no_time_of_day, no_uuid, parse_bytes, parse_instant, parse_time_of_day};
use chrono::NaiveDate;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, InList, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast, lit};
use sqlparser::ast::BinaryOperator;
use tickstone_wire::parse_uuid;

mod decimal;
mod span;

/// See the file's header.
///
/// # Errors
/// Where a text is none of what is wanted.
pub(crate) fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let beside_decimal = decimal::compared(&expr, schema).or_else(|| decimal::calculated(&expr, schema));
    if let Some(read) = beside_decimal {
        return Ok(Transformed::yes(read));
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = match (wanted(&left, schema), wanted(&right, schema)) {
                (Some(wanted), _) => (left, Box::new(wanted.read(*right)?)),
                (_, Some(wanted)) => (Box::new(wanted.read(*left)?), right),
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let Some(wanted) = wanted(&expr, schema) else {
                return Ok(Transformed::no(Expr::Between(Between { expr, negated, low, high })));
            };
            let (low, high) = (Box::new(wanted.read(*low)?), Box::new(wanted.read(*high)?));
            Ok(Transformed::yes(Expr::Between(Between { expr, negated, low, high })))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let Some(wanted) = wanted(&expr, schema) else {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            let list = list.into_iter().map(|item| wanted.read(item)).collect::<Result<_>>()?;
            Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
        }
        Expr::Cast(Cast { expr, field })
            if matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano))
                && text_of(&expr).is_some_and(|text| span::parse_span(text).is_some()) =>
        {
            let span = text_of(&expr).and_then(span::parse_span);
            Ok(Transformed::yes(Expr::Literal(ScalarValue::IntervalMonthDayNano(span), None)))
        }
        Expr::Cast(Cast { expr, field }) => match Wanted::of(field.data_type()) {
            Some(wanted @ (Wanted::Time | Wanted::Uuid | Wanted::Bytes)) if text_of(&expr).is_some() => {
                Ok(Transformed::yes(wanted.read(*expr)?))
            }
            _ => Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
        },
        Expr::ScalarFunction(call) if ONE_OF.contains(&call.func.name()) => {
            let ScalarFunction { func, mut args } = call;
            let changed = decimal::of_one(&mut args.iter_mut().collect::<Vec<_>>(), schema)
                | read_beside(args.iter_mut().collect(), schema)?;
            Ok(Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed))
        }
        Expr::Case(mut case) => {
            let values = case.when_then_expr.iter_mut().map(|(_, then)| then);
            let mut values: Vec<&mut Expr> = values.chain(&mut case.else_expr).map(AsMut::as_mut).collect();
            let changed = decimal::of_one(&mut values, schema)
                | (numbers_beside(&mut values, schema) || read_beside(values, schema)?);
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut call) if call.func.name() == "make_array" => {
            let changed = decimal::of_one(&mut call.args.iter_mut().collect::<Vec<_>>(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
        }
        Expr::ScalarFunction(call) => Ok(places_as_wanted(call)),
        Expr::WindowFunction(mut window) if matches!(window.fun.name(), "lag" | "lead") => {
            let changed = match window.params.args.as_mut_slice() {
                [value, _, default] => decimal::of_one(&mut [value, default], schema),
                _ => false,
            };
            Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Functions that give one of their arguments.
const ONE_OF: [&str; 6] = ["coalesce", "nvl", "ifnull", "nullif", "greatest", "least"];

/// Reads texts that may be given in the place of a time, a time of day or a UUID; says whether there were any.
///
/// # Errors
/// Where a text is none of what is wanted.
pub(super) fn read_beside(mut values: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let Some(wanted @ (Wanted::Time | Wanted::TimeOfDay | Wanted::Uuid)) =
        values.iter().find_map(|value| wanted(value, schema))
    else {
        return Ok(false);
    };
    let mut changed = false;
    for value in values.iter_mut().filter(|value| text_of(value).is_some()) {
        **value = wanted.read(std::mem::take(*value))?;
        changed = true;
    }
    Ok(changed)
}

/// Reads texts that are numbers beside branches of numbers: `CASE WHEN b THEN n ELSE '100' END` would be a text, of which 9
/// is more than 100. Where one is no number all stay texts: a word, `'INF'`, or a fraction beside a DECIMAL, which a DOUBLE
/// would take digits from.
fn numbers_beside(values: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let number = |text: &str| -> Option<ScalarValue> {
        let text = text.trim();
        let whole = text.parse().ok().map(|number| ScalarValue::Int64(Some(number)));
        let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
        let double = || text.parse().ok().filter(|_| has_digits);
        whole.or_else(|| double().map(|number| ScalarValue::Float64(Some(number))))
    };
    let mut read = Vec::new();
    let (mut has_numbers, mut has_decimals) = (false, false);
    for value in values.iter() {
        match text_of(value) {
            Some(text) => match number(text) {
                Some(number) => read.push(Some(number)),
                None => return false,
            },
            None => {
                let Ok(of) = value.get_type(schema) else { return false };
                if !of.is_numeric() && !of.is_null() {
                    return false;
                }
                has_numbers |= of.is_numeric();
                has_decimals |= of.is_decimal();
                read.push(None);
            }
        }
    }
    let has_fractions = read.iter().any(|read| matches!(read, Some(ScalarValue::Float64(_))));
    if !has_numbers || has_decimals && has_fractions || read.iter().all(Option::is_none) {
        return false;
    }
    for (value, read) in values.iter_mut().zip(read) {
        if let Some(number) = read {
            **value = Expr::Literal(number, None);
        }
    }
    true
}

/// `round(x, 2)` with its places in the type that the function takes: the type of its result goes by them, and where they
/// are cast the planner knows them at one time and not at another.
fn places_as_wanted(mut call: ScalarFunction) -> Transformed<Expr> {
    let mut changed = false;
    if matches!(call.func.name(), "round" | "trunc")
        && let [_, Expr::Literal(places, _)] = call.args.as_mut_slice()
        && let ScalarValue::Int64(Some(number)) = places
        && let Ok(number) = i32::try_from(*number)
    {
        *places = ScalarValue::Int32(Some(number));
        changed = true;
    }
    let call = Expr::ScalarFunction(call);
    if changed { Transformed::yes(call) } else { Transformed::no(call) }
}

/// Reads texts that are compared with a UUID, and writes UUIDs that are put together with texts, and multiplies
/// intervals, while a statement is planned: the planner asks for the types of both sides then.
#[derive(Debug)]
pub(crate) struct UuidLiterals;

impl ExprPlanner for UuidLiterals {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let is_uuid = |expr: &Expr| matches!(wanted(expr, schema), Some(Wanted::Uuid));
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if matches!(op, BinaryOperator::Multiply | BinaryOperator::Divide) {
            let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
            match (is_interval(&left), is_interval(&right), &op) {
                (true, false, BinaryOperator::Multiply) => {
                    return Ok(PlannerResult::Planned(times_interval(left, right)));
                }
                (false, true, BinaryOperator::Multiply) => {
                    return Ok(PlannerResult::Planned(times_interval(right, left)));
                }
                (true, false, _) => {
                    let part = cast(lit(1.0), DataType::Float64) / cast(right, DataType::Float64);
                    return Ok(PlannerResult::Planned(times_interval(left, part)));
                }
                _ => {}
            }
        }
        if op == BinaryOperator::StringConcat {
            let type_of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
            let (types, utf8) = ((type_of(&left), type_of(&right)), DataType::Utf8);
            let is_text = |of: &DataType| match of {
                DataType::Dictionary(_, values) => values.is_string(),
                other => other.is_string(),
            };
            let text = |expr: Expr, of: &DataType, beside: &DataType| match of {
                _ if is_uuid(&expr) => texts::written(expr),
                // Beside what is no text DataFusion knows texts alone.
                DataType::Dictionary(..) if !is_text(of) || !is_text(beside) => cast(expr, utf8.clone()),
                DataType::Null if !beside.is_list() => cast(expr, utf8.clone()),
                // It may come to be a SYMBOL when the types of its branches are made to agree.
                _ if matches!(expr, Expr::Case(_)) && is_text(of) => cast(expr, utf8.clone()),
                _ => expr,
            };
            (left, right) = (text(left, &types.0, &types.1), text(right, &types.1, &types.0));
        } else if matches!(op, Eq | Gt | GtEq | Lt | LtEq | NotEq) {
            if is_uuid(&left) {
                right = Wanted::Uuid.read(right)?;
            } else if is_uuid(&right) {
                left = Wanted::Uuid.read(left)?;
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether an operator compares its sides.
pub(crate) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// What the other side of a comparison asks a text literal to be.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Time,
    TimeOfDay,
    Uuid,
    Symbol,
    Bytes,
}

impl Wanted {
    fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Some(Wanted::Time),
            DataType::Time64(TimeUnit::Nanosecond) => Some(Wanted::TimeOfDay),
            DataType::FixedSizeBinary(UUID_BYTES) => Some(Wanted::Uuid),
            DataType::Binary => Some(Wanted::Bytes),
            DataType::Dictionary(_, values) if **values == DataType::Utf8 => Some(Wanted::Symbol),
            _ => None,
        }
    }

    /// The literal as a value of this type; any other expression as it is.
    fn read(self, expr: Expr) -> Result<Expr> {
        if let (Wanted::Symbol, Expr::Literal(ScalarValue::Int64(Some(number)), _)) = (self, &expr) {
            return Ok(Expr::Literal(ScalarValue::Utf8(Some(number.to_string())), None));
        }
        let Some(text) = text_of(&expr) else { return Ok(expr) };
        let value = match self {
            Wanted::Symbol => return Ok(expr),
            Wanted::Time => {
                let nanos = parse_instant(text).ok_or_else(|| no_instant(text))?;
                ScalarValue::TimestampNanosecond(Some(nanos), None)
            }
            Wanted::TimeOfDay => {
                let nanos = parse_time_of_day(text).ok_or_else(|| no_time_of_day(text))?;
                ScalarValue::Time64Nanosecond(Some(nanos))
            }
            Wanted::Uuid => {
                let bytes = parse_uuid(text.trim().as_bytes()).ok_or_else(|| no_uuid(text))?;
                ScalarValue::FixedSizeBinary(UUID_BYTES, Some(bytes.to_vec()))
            }
            Wanted::Bytes => {
                let bytes = parse_bytes(text).ok_or_else(|| no_bytes(text))?;
                ScalarValue::Binary(Some(bytes.into_owned()))
            }
        };
        Ok(Expr::Literal(value, None))
    }
}

fn wanted(expr: &Expr, schema: &DFSchema) -> Option<Wanted> {
    if matches!(expr, Expr::Literal(..)) {
        return None;
    }
    Wanted::of(&expr.get_type(schema).ok()?)
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn no_bytes(text: &str) -> DataFusionError {
    plan_datafusion_err!("'{text}' is no BINARY: after \\x stand pairs of hexadecimal digits")
}

/// That a text is no TIMESTAMP.
pub(super) fn no_instant(text: &str) -> DataFusionError {
    let is_day = text.get(..10).is_some_and(|day| NaiveDate::parse_from_str(day, "%Y-%m-%d").is_ok());
    if is_day && !text.get(..4).is_some_and(|year| ("1678".."2262").contains(&year)) {
        return plan_datafusion_err!("'{text}' is outside the years 1677 to 2262 that a TIMESTAMP holds");
    }
    let message = format!("'{text}' is no timestamp");
    let hint = match read_as(text) {
        Some(call) => format!("write {call}"),
        None => {
            "write it as '2024-08-08', '2024-08-08T09:30' or '2024-08-08T09:30:00.123456789Z'".to_string()
        }
    };
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(&message, None).with_help(hint, None))
}
