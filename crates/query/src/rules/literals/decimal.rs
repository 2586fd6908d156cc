//! Numbers beside a DECIMAL, or a whole number: compared digit by digit, as a value of that type.
//!
//! DataFusion compares a DECIMAL with a double as doubles, and with another DECIMAL as one of both their digits, which
//! may be more than there are. A number that the column's type cannot hold lies between two that it can, or past all:
//! `x < 0.125` is `x <= 0.12` of two digits after the point, and `x = 0.125` is never true.
//!
//! A whole number beside one with a point is compared as a double, in which 2^53 and 2^53 + 1 are one. In a list and in
//! `CASE n WHEN 0.5` that would reach the numbers beside it: there the number is a whole one, or equals nothing.

use crate::dialect::number_kept;
use crate::functions::{Floor, exact_units, nearest_units};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};
use std::sync::Arc;

/// A comparison with the numbers in it as what they are compared with; `None` where there is nothing to change.
pub(super) fn compared(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if super::is_comparison(*op) => {
            match (Type::beside(right, left, schema), Type::beside(left, right, schema)) {
                (Some(of), _) => of.comparison(left, *op, &digits(right)?),
                (_, Some(of)) => of.comparison(right, op.swap()?, &digits(left)?),
                _ => None,
            }
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let of = Type::beside(low, expr, schema).or_else(|| Type::beside(high, expr, schema))?;
            let (low, high) = (digits(low)?, digits(high)?);
            let inside =
                of.comparison(expr, Operator::GtEq, &low)?.and(of.comparison(expr, Operator::LtEq, &high)?);
            Some(if *negated { Expr::Not(Box::new(inside)) } else { inside })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let of = list.iter().find_map(|item| Type::equal_to(item, expr, schema))?;
            // What is no number, a NULL or a column, stays.
            let item = |item: &Expr| match digits(item).or_else(|| quoted(item)) {
                Some(text) => of.exact(&text),
                None => Some(item.clone()),
            };
            let list: Vec<Expr> = list.iter().filter_map(item).collect();
            Some(match list.is_empty() {
                true => unless_null(expr, *negated),
                false => Expr::InList(InList { expr: expr.clone(), list, negated: *negated }),
            })
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, else_expr }) => {
            let mut changed = false;
            let mut read = |(when, then): &(Box<Expr>, Box<Expr>)| {
                let number = Type::equal_to(when, of, schema).and_then(|of| of.exact_or_null(&digits(when)?));
                changed |= number.is_some();
                (number.map_or_else(|| when.clone(), Box::new), then.clone())
            };
            let when_then_expr = when_then_expr.iter().map(&mut read).collect();
            let case = Case { expr: Some(of.clone()), when_then_expr, else_expr: else_expr.clone() };
            changed.then_some(Expr::Case(case))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            let [of, number] = args.as_slice() else { return None };
            let number = Type::beside(number, of, schema)?.exact_or_null(&digits(number)?)?;
            let args = vec![of.clone(), number];
            Some(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(func), args }))
        }
        _ => None,
    }
}

/// A DECIMAL calculated with a fraction that the text says, as one with a DECIMAL: as a double it would be the nearest one,
/// and so would the result. Anything else is calculated with the nearest double.
pub(super) fn calculated(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Plus | Minus | Multiply | Divide | Modulo), right }) =
        expr
    else {
        return None;
    };
    let of_left = |number: Expr| (Box::new(number), right.clone());
    let of_right = |number: Expr| (left.clone(), Box::new(number));
    let (left, right) = match (is_decimal(left, schema), is_decimal(right, schema)) {
        (false, true) => of_left(fraction(left)?),
        (true, false) => of_right(fraction(right)?),
        (true, true) => return None,
        (false, false) => match (nearest_double(left), nearest_double(right)) {
            (Some(left), Some(right)) => (Box::new(left), Box::new(right)),
            (Some(left), None) => of_left(left),
            (None, right) => of_right(right?),
        },
    };
    Some(Expr::BinaryExpr(BinaryExpr { left, op: *op, right }))
}

/// Has numbers that the text says, of which and of other values one is given, be DECIMALs of their digits where one of
/// these is a DECIMAL and none a double, and the nearest doubles else; says whether there were any.
pub(super) fn of_one(values: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let is_double = |value: &Expr| {
        !matches!(value, Expr::Literal(..) | Expr::Negative(_))
            && value.get_type(schema).is_ok_and(|of| of.is_floating())
    };
    let is_exact =
        values.iter().any(|value| is_decimal(value, schema)) && !values.iter().any(|value| is_double(value));
    let is_cut = |value: &Expr| kept(value).is_some_and(|(text, ..)| is_long(text));
    let scales = values.iter().filter(|value| !is_cut(value)).filter_map(|value| {
        match value.get_type(schema).ok()? {
            DataType::Decimal128(_, scale) => Some(scale),
            _ => None,
        }
    });
    let scale = scales.max().unwrap_or(0);
    let mut changed = false;
    for value in values {
        let read = match is_exact {
            true => rounded(value, scale).or_else(|| fraction(value)),
            false => nearest_double(value),
        };
        if let Some(read) = read {
            **value = read;
            changed = true;
        }
    }
    changed
}

/// Whether an expression is a DECIMAL, and no number that the text says.
fn is_decimal(of: &Expr, schema: &DFSchema) -> bool {
    !matches!(of, Expr::Literal(..))
        && nearest_double(of).is_none()
        && of.get_type(schema).is_ok_and(|of| of.is_decimal())
}

/// The digits of a number that `dialect::digits` made a DECIMAL of just these, and its precision and scale.
fn kept(expr: &Expr) -> Option<(&str, u8, i8)> {
    let Expr::Cast(Cast { expr, field }) = expr else { return None };
    let (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) =
        *field.data_type()
    else {
        return None;
    };
    let Expr::Literal(text, _) = expr.as_ref() else { return None };
    Some((number_kept(text.try_as_str().flatten()?, precision, scale)?, precision, scale))
}

/// Whether a number has more digits than a DECIMAL.
fn is_long(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '0']).bytes().filter(u8::is_ascii_digit).count();
    digits > usize::from(DECIMAL128_MAX_PRECISION)
}

/// The nearest double of such a number.
fn nearest_double(expr: &Expr) -> Option<Expr> {
    let (text, ..) = kept(expr)?;
    Some(Expr::Literal(ScalarValue::Float64(Some(text.parse().ok()?)), None))
}

/// A double that the text says, or a number of many digits, as the DECIMAL of its digits; as the nearest double where they
/// are more than a DECIMAL has.
fn fraction(number: &Expr) -> Option<Expr> {
    if let Some((text, precision, scale)) = kept(number) {
        if is_long(text) {
            return nearest_double(number);
        }
        let value = Some(exact_units(text, scale)?);
        return Some(Expr::Literal(ScalarValue::Decimal128(value, precision, scale), None));
    }
    let double = match number {
        Expr::Literal(ScalarValue::Float64(Some(double)), _) => *double,
        Expr::Negative(of) => match of.as_ref() {
            Expr::Literal(ScalarValue::Float64(Some(double)), _) => -double,
            _ => return None,
        },
        _ => return None,
    };
    let text = double.is_finite().then(|| double.to_string())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let significant = format!("{whole}{fraction}");
    let significant = significant.trim_start_matches(['-', '0']).len();
    let scale = i8::try_from(fraction.len()).ok()?;
    let digits = whole.trim_start_matches('-').len() + fraction.len();
    // Beside 38 digits after the point there is no room for the zero before it.
    let precision = u8::try_from(if double.abs() < 1.0 { digits.min(38) } else { digits }).ok()?;
    if usize::from(precision) < fraction.len() {
        return None;
    }
    let value = Floor::of(&text, scale).filter(|floor| floor.exact)?.value;
    (significant <= DOUBLE_DIGITS && precision <= DECIMAL128_MAX_PRECISION)
        .then(|| Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), None))
}

/// A number of more digits than a DECIMAL has, rounded to so many after the point.
fn rounded(number: &Expr, scale: i8) -> Option<Expr> {
    let (text, ..) = kept(number).filter(|(text, ..)| is_long(text))?;
    let value = Some(nearest_units(text, scale)?);
    Some(Expr::Literal(ScalarValue::Decimal128(value, DECIMAL128_MAX_PRECISION, scale), None))
}

/// The digits of a number in quotes.
fn quoted(expr: &Expr) -> Option<String> {
    let text = expr.as_literal()?.try_as_str().flatten()?;
    Floor::of(text, 0).map(|_| text.to_string())
}

/// Every number of so many digits is told from its neighbours by a double.
const DOUBLE_DIGITS: usize = 15;

/// What a number is compared as.
#[derive(Debug, Clone, Copy)]
enum Type {
    Double,
    Decimal {
        precision: u8,
        scale: i8,
    },
    /// BIGINT, or BIGINT UNSIGNED.
    Whole {
        signed: bool,
    },
}

impl Type {
    /// What a number is compared as beside an expression; `None` where the planner does right by it. A double beside
    /// a double is one already.
    fn beside(number: &Expr, expr: &Expr, schema: &DFSchema) -> Option<Self> {
        if digits(number).is_none() || matches!(expr, Expr::Literal(..) | Expr::Placeholder(_)) {
            return None;
        }
        match expr.get_type(schema).ok()? {
            DataType::Decimal128(precision, scale) if digits(expr).is_none() => {
                Some(Self::Decimal { precision, scale })
            }
            DataType::Float64 | DataType::Float32 if !matches!(number, Expr::Literal(..)) => {
                Some(Self::Double)
            }
            // A type that holds both may be none.
            of if of.is_integer() && kept(number).is_some_and(|(text, ..)| is_long(text)) => {
                Some(Self::Whole { signed: of != DataType::UInt64 })
            }
            _ => None,
        }
    }

    /// As [`Self::beside`], where a number is asked for being equal and nothing else.
    fn equal_to(number: &Expr, expr: &Expr, schema: &DFSchema) -> Option<Self> {
        let beside = Self::beside(number, expr, schema);
        if beside.is_some() || digits(expr).is_some() {
            return beside;
        }
        let of = expr.get_type(schema).ok()?;
        let signed = of != DataType::UInt64;
        let fits = match number {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => signed || *value >= 0,
            Expr::Literal(ScalarValue::UInt64(_), _) => !signed,
            _ => digits(number).is_none(),
        };
        (of.is_integer() && !fits).then_some(Self::Whole { signed })
    }

    /// The number as a value of the type, where it is one.
    fn exact(self, text: &str) -> Option<Expr> {
        let value = match self {
            Self::Double => ScalarValue::Float64(Some(text.parse().ok()?)),
            Self::Decimal { precision, scale } => {
                let floor = Floor::of(text, scale)?;
                let holds = floor.exact && floor.value.unsigned_abs() < 10_u128.pow(precision.into());
                holds.then_some(ScalarValue::Decimal128(Some(floor.value), precision, scale))?
            }
            Self::Whole { signed } => match Floor::of(text, 0)? {
                Floor { exact: false, .. } => return None,
                Floor { value, .. } if signed => ScalarValue::Int64(Some(value.try_into().ok()?)),
                Floor { value, .. } => ScalarValue::UInt64(Some(value.try_into().ok()?)),
            },
        };
        Some(Expr::Literal(value, None))
    }

    /// As [`Self::exact`]; NULL, which equals nothing, where it is none.
    fn exact_or_null(self, text: &str) -> Option<Expr> {
        let null = match self {
            Self::Double => ScalarValue::Float64(None),
            Self::Decimal { precision, scale } => ScalarValue::Decimal128(None, precision, scale),
            Self::Whole { signed: true } => ScalarValue::Int64(None),
            Self::Whole { signed: false } => ScalarValue::UInt64(None),
        };
        Floor::of(text, 0).map(|_| self.exact(text).unwrap_or(Expr::Literal(null, None)))
    }

    fn comparison(self, expr: &Expr, op: Operator, text: &str) -> Option<Expr> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        if let Some(value) = self.exact(text) {
            return Some(binary(expr, op, value));
        }
        let (scale, least, most) = match self {
            Self::Decimal { precision, scale } => {
                let most = 10_i128.pow(precision.into()) - 1;
                (scale, -most, most)
            }
            Self::Whole { signed: true } => (0, i64::MIN.into(), i64::MAX.into()),
            Self::Whole { signed: false } => (0, 0, u64::MAX.into()),
            Self::Double => return None,
        };
        let of = |value: i128| {
            let value = match self {
                Self::Decimal { precision, scale } => ScalarValue::Decimal128(Some(value), precision, scale),
                Self::Whole { signed: false } => ScalarValue::UInt64(Some(value as u64)),
                Self::Whole { .. } | Self::Double => ScalarValue::Int64(Some(value as i64)),
            };
            Expr::Literal(value, None)
        };
        let floor = Floor::of(text, scale)?.value;
        Some(match op {
            Eq => unless_null(expr, false),
            NotEq => unless_null(expr, true),
            IsDistinctFrom => Expr::Literal(ScalarValue::Boolean(Some(true)), None),
            IsNotDistinctFrom => Expr::Literal(ScalarValue::Boolean(Some(false)), None),
            Lt | LtEq if floor < least => binary(expr, Lt, of(least)),
            Lt | LtEq => binary(expr, LtEq, of(floor.min(most))),
            Gt | GtEq if floor < least => binary(expr, GtEq, of(least)),
            Gt | GtEq => binary(expr, Gt, of(floor.min(most))),
            _ => return None,
        })
    }
}

fn binary(left: &Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left.clone()), op, right: Box::new(right) })
}

/// This truth value, NULL where the expression is.
fn unless_null(expr: &Expr, truth: bool) -> Expr {
    binary(expr, if truth { Operator::Eq } else { Operator::NotEq }, expr.clone())
}

/// The digits of a number as it was written: a literal, or what `dialect::digits` made of one.
fn digits(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if value.is_finite() => Some(value.to_string()),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(value.to_string()),
        Expr::Literal(ScalarValue::UInt64(Some(value)), _) => Some(value.to_string()),
        Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() => match expr.as_ref() {
            Expr::Literal(value, _) => value.try_as_str().flatten().map(|text| text.trim().to_string()),
            _ => None,
        },
        Expr::Negative(of) => {
            let digits = digits(of)?;
            Some(digits.strip_prefix('-').map_or_else(|| format!("-{digits}"), str::to_string))
        }
        Expr::Alias(alias) => digits(&alias.expr),
        _ => None,
    }
}
