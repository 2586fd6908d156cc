//! Values for the placeholders of a statement: `$1`, `$2`, … by place, `:name` or `$name` by name.
//!
//! A value becomes a literal of the syntax tree, never text of the statement: it can hold anything, and
//! it is typed as the same literal would be, by what it is compared with or stored into. So placeholders
//! stand wherever a value can: in WHERE, BETWEEN, IN, LIMIT, VALUES and the arguments of functions; also for the length of
//! SAMPLE BY's buckets, a TOLERANCE, and the text of an interval, `ts IN $1`.

use crate::dialect::digits::size_to;
use crate::dialect::marker::{open_stride, placeholder_of, text};
use crate::dialect::walk_mut;
use crate::dialect::{AlterTable, CopySource, Partitions, Statement, inside_text, open_interval, searched};
use crate::error::{Position, QueryError, Result};
use crate::functions::stride::{STRIDE_HINT, Stride, Unit};
use datafusion::arrow::datatypes::DataType as ArrowType;
use sqlparser::ast::{
    Array, CastKind, DataType, ExactNumberInfo, Expr, ExprWithAlias, Interval, PivotValueSource, TableFactor,
    TimezoneInfo, TypedString, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use tickstone_model::format_nanos;

/// One value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// NULL.
    Null,
    /// NULL of this type: for a statement that is described.
    NullOf(ArrowType),
    /// None: the placeholder stays. For a statement that is described.
    Open,
    /// TRUE or FALSE.
    Boolean(bool),
    /// A whole number, -2^63 to 2^64 - 1.
    Integer(i128),
    /// A double, NaN and the infinities too.
    Float(f64),
    /// An exact decimal, as digits: "-12.50".
    Decimal(String),
    /// Text; compared with a timestamp, it is read as one.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nanoseconds since the Unix epoch, UTC.
    Timestamp(i64),
    /// Days since 1970-01-01.
    Date(i32),
    /// A time of day, in nanoseconds since midnight.
    Time(i64),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// Values of an IN list, `IN ($1)`; elsewhere an array.
    List(Vec<ParameterValue>),
}

/// The values a statement is run with.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Parameters {
    /// None: the statement has no placeholder.
    #[default]
    None,
    /// For `$1`, `$2`, … in this order.
    Positional(Vec<ParameterValue>),
    /// For `:name` and `$name`.
    Named(HashMap<String, ParameterValue>),
    /// None yet: every placeholder stays.
    Unbound,
}

impl Parameters {
    /// Puts the values in the place of the placeholders of a text's statements.
    ///
    /// # Errors
    /// Where a placeholder has no value, with its place; where a value cannot stand there; where a value is
    /// for no placeholder.
    pub fn bind(&self, statements: &mut [Statement]) -> Result<()> {
        let used = self.bind_some(statements)?;
        match self.names().into_iter().find(|name| !used.contains(name)) {
            Some(name) => {
                let sign = if matches!(self, Parameters::Named(_)) { ':' } else { '$' };
                Err(QueryError::request(format!("a value was given for {sign}{name}, which stands nowhere")))
            }
            None => Ok(()),
        }
    }

    /// As [`Self::bind`], where values that are for no placeholder are left; the names of those that are.
    ///
    /// # Errors
    /// As there, but for those.
    pub fn bind_some(&self, statements: &mut [Statement]) -> Result<HashSet<String>> {
        let mut binder = Binder { parameters: self, wide_floats: false, used: HashSet::new() };
        binder.bind_all(statements)?;
        Ok(binder.used)
    }

    /// The names that have values, in order.
    fn names(&self) -> Vec<String> {
        match self {
            Parameters::None => Vec::new(),
            Parameters::Positional(values) => (1..=values.len()).map(|place| place.to_string()).collect(),
            Parameters::Named(values) => {
                let mut names: Vec<String> = values.keys().cloned().collect();
                names.sort_unstable();
                names
            }
            Parameters::Unbound => Vec::new(),
        }
    }

    /// The value of a placeholder as it is written: "$1", ":name".
    fn value(&self, placeholder: &str, position: Position) -> Result<&ParameterValue> {
        let missing = |hint: String| {
            QueryError::request(format!("placeholder {placeholder} has no value")).at(position).hint(hint)
        };
        let name = placeholder.get(1..).unwrap_or_default();
        match self {
            Parameters::None => Err(missing("give the statement its parameters".to_string())),
            Parameters::Unbound => Ok(&ParameterValue::Open),
            Parameters::Named(values) => values
                .get(name)
                .ok_or_else(|| missing(format!("values were given for {}", self.names().join(", ")))),
            Parameters::Positional(values) => {
                let place = name.parse::<usize>().ok().filter(|place| *place > 0);
                let place = place.ok_or_else(|| missing("values were given by place: $1, $2, …".to_string()));
                values.get(place? - 1).ok_or_else(|| missing(format!("{} were given", values.len())))
            }
        }
    }
}

/// Reads FLOAT where a placeholder is cast to it, `$1::FLOAT`, as PostgreSQL does: in eight bytes. Its drivers write
/// that for values of DOUBLE columns.
pub fn widen_floats(statement: &mut Statement) {
    let mut binder = Binder { parameters: &Parameters::Unbound, wide_floats: true, used: HashSet::new() };
    // Nothing is bound, so nothing can be wrong.
    let _ = binder.bind_all(std::slice::from_mut(statement));
}

struct Binder<'a> {
    parameters: &'a Parameters,
    /// Whether FLOAT is DOUBLE where a placeholder is cast to it.
    wide_floats: bool,
    /// Names of the values that stood somewhere.
    used: HashSet<String>,
}

impl<'a> Binder<'a> {
    fn bind_all(&mut self, statements: &mut [Statement]) -> Result<()> {
        for statement in statements {
            match statement {
                Statement::Query(node) | Statement::Insert(node) => self.bind(node.as_mut())?,
                Statement::CreateTable(table) => {
                    if let Some(query) = &mut table.query {
                        self.bind(query.as_mut())?;
                    }
                }
                Statement::CopyTo { source: CopySource::Query(query), .. } => self.bind(query.as_mut())?,
                Statement::Change(change) => {
                    self.bind(change.query.as_mut())?;
                    self.bind(&mut change.returning)?;
                }
                Statement::Merge(merge) => self.bind(merge.query.as_mut())?,
                Statement::Subscribe(subscribe) => self.bind(subscribe.query.as_mut())?,
                Statement::Replay(replay) => self.bind(replay.query.as_mut())?,
                Statement::Inspect(inspect) => self.bind(inspect.query.as_mut())?,
                Statement::AlterTable {
                    change: AlterTable::DropPartitions(Partitions::Where(query)),
                    ..
                } => {
                    self.bind(query.as_mut())?;
                }
                Statement::Execute { values, .. } => self.bind(values)?,
                Statement::DeclareCursor { query, .. } => self.bind(query.as_mut())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn bind(&mut self, node: &mut impl VisitMut) -> Result<()> {
        match walk_mut(node, self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn value(&mut self, placeholder: &str, at: Position) -> Result<&'a ParameterValue> {
        self.used.insert(placeholder.get(1..).unwrap_or_default().to_string());
        self.parameters.value(placeholder, at)
    }

    fn literal(&mut self, value: &ValueWithSpan) -> Result<Option<Expr>> {
        let Value::Placeholder(name) = &value.value else { return Ok(None) };
        let at = position(value);
        match self.value(name, at)? {
            ParameterValue::Open => Ok(None),
            found => literal(found, value, at).map(Some),
        }
    }

    /// The items of an IN list, a value that is a list taken apart.
    fn items(&mut self, list: &[Expr]) -> Result<Vec<Expr>> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let Expr::Value(value) = item else {
                items.push(item.clone());
                continue;
            };
            let Value::Placeholder(name) = &value.value else {
                items.push(item.clone());
                continue;
            };
            let at = position(value);
            match self.value(name, at)? {
                ParameterValue::List(values) => {
                    for one in values {
                        items.push(literal(one, value, at)?);
                    }
                }
                ParameterValue::Open => items.push(item.clone()),
                one => items.push(literal(one, value, at)?),
            }
        }
        Ok(items)
    }

    /// The same for the values of a PIVOT, which may have names of their own.
    fn pivot_values(&mut self, values: &mut Vec<ExprWithAlias>) -> Result<()> {
        for value in std::mem::take(values) {
            match value.alias {
                Some(_) => values.push(value),
                None => {
                    let items = self.items(std::slice::from_ref(&value.expr))?;
                    values.extend(items.into_iter().map(|expr| ExprWithAlias { expr, alias: None }));
                }
            }
        }
        Ok(())
    }

    /// `SAMPLE BY $1`: the length as a text that is read.
    fn stride(&mut self, length: &mut Expr) -> Result<()> {
        let Some(value) = placeholder_of(length) else { return Ok(()) };
        let (Value::Placeholder(name), at) = (&value.value, position(value)) else { return Ok(()) };
        let stride = match self.value(name, at)? {
            ParameterValue::Open => return Ok(()),
            ParameterValue::Text(text) => Stride::parse(text),
            ParameterValue::Duration(nanos) => Stride::new(*nanos, Unit::Nanosecond),
            _ => None,
        };
        let wrong = || QueryError::request(format!("{name} is no length of time")).at(at).hint(STRIDE_HINT);
        *length = text(&stride.ok_or_else(wrong)?.to_string(), at);
        Ok(())
    }

    /// `ts IN $1`: of a text the intervals that it names, of a list its values.
    fn interval(&mut self, expr: &mut Expr) -> Result<()> {
        let Some((tested, value, negated)) = open_interval(expr) else { return Ok(()) };
        let (Value::Placeholder(name), at) = (&value.value, position(value)) else { return Ok(()) };
        *expr = match self.value(name, at)? {
            ParameterValue::Open => return Ok(()),
            ParameterValue::Text(text) => inside_text(tested, text, negated, at)?,
            _ => Expr::InList {
                expr: Box::new(tested.clone()),
                list: vec![Expr::Value(value.clone())],
                negated,
            },
        };
        Ok(())
    }

    fn replace(&mut self, expr: &mut Expr) -> Result<()> {
        self.interval(expr)?;
        // `x = ANY($1)` of a list is `x IN (…)`, which reads what it must and no more.
        if let Some((array, value)) = searched(expr)
            && let Value::Placeholder(name) = &array.value
            && let ParameterValue::List(_) = self.value(name, position(array))?
        {
            let list = vec![Expr::Value(array.clone())];
            *expr = Expr::InList { expr: Box::new(value.clone()), list, negated: false };
        }
        match expr {
            Expr::Value(value) => {
                if let Some(literal) = self.literal(value)? {
                    *expr = literal;
                }
            }
            Expr::Cast { expr, data_type: to @ DataType::Float(_), .. }
                if self.wide_floats && is_placeholder(expr) =>
            {
                *to = DataType::DoublePrecision;
            }
            Expr::Cast { expr, data_type, .. } => {
                if let Expr::Value(value) = expr.as_ref()
                    && let Value::Placeholder(name) = &value.value
                {
                    // `$1::numeric` has the digits of its value.
                    let value = self.value(name, position(value))?;
                    size_to(data_type, &digits(std::slice::from_ref(value)));
                }
            }
            Expr::InList { list, negated, .. } => {
                *list = self.items(list)?;
                // An empty list holds nothing, not even what is NULL.
                if list.is_empty() {
                    *expr = Expr::value(Value::Boolean(*negated));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl VisitorMut for Binder<'_> {
    type Break = QueryError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        let bound = match factor {
            TableFactor::Pivot { value_source: PivotValueSource::List(values), .. } => {
                self.pivot_values(values)
            }
            factor => open_stride(factor).map_or(Ok(()), |length| self.stride(length)),
        };
        match bound {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        match self.replace(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// The values that are digits, also those in lists.
fn digits(values: &[ParameterValue]) -> Vec<&str> {
    let mut found = Vec::new();
    for value in values {
        match value {
            ParameterValue::Decimal(text) | ParameterValue::Text(text) => found.push(text.as_str()),
            ParameterValue::List(values) => found.extend(digits(values)),
            _ => {}
        }
    }
    found
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

fn position(value: &ValueWithSpan) -> Position {
    Position { line: value.span.start.line, column: value.span.start.column }
}

/// A value as the literal somebody would have written at the place of `placeholder`.
fn literal(value: &ParameterValue, placeholder: &ValueWithSpan, at: Position) -> Result<Expr> {
    let plain = |value: Value| Expr::Value(ValueWithSpan { value, span: placeholder.span });
    let text = |text: String| plain(Value::SingleQuotedString(text));
    let cast = |data_type: DataType, text: String| {
        let value = ValueWithSpan { value: Value::SingleQuotedString(text), span: placeholder.span };
        Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })
    };
    Ok(match value {
        ParameterValue::Null | ParameterValue::Open => plain(Value::Null),
        ParameterValue::NullOf(of) => match sql_type(of) {
            Some(data_type) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(plain(Value::Null)),
                data_type,
                array: false,
                format: None,
            },
            None => plain(Value::Null),
        },
        ParameterValue::Boolean(truth) => plain(Value::Boolean(*truth)),
        ParameterValue::Integer(number) => signed(*number < 0, number.unsigned_abs().to_string(), &plain),
        ParameterValue::Float(number) if number.is_finite() => {
            signed(number.is_sign_negative(), format!("{:?}", number.abs()), &plain)
        }
        ParameterValue::Float(number) => cast(DataType::DoublePrecision, number.to_string()),
        ParameterValue::Decimal(digits) => cast(DataType::Decimal(decimal_of(digits, at)?), digits.clone()),
        ParameterValue::Text(value) => text(value.clone()),
        ParameterValue::Bytes(bytes) => {
            let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            plain(Value::HexStringLiteral(hex))
        }
        ParameterValue::Timestamp(nanos) => {
            cast(DataType::Timestamp(None, TimezoneInfo::None), format_nanos(*nanos))
        }
        ParameterValue::Date(days) => {
            let epoch = chrono::NaiveDate::default();
            let day = epoch.checked_add_signed(chrono::TimeDelta::days(i64::from(*days)));
            let day = day.ok_or_else(|| QueryError::request(format!("day {days} has no date")).at(at))?;
            cast(DataType::Date, day.to_string())
        }
        ParameterValue::Time(nanos) => {
            let text = format_nanos(*nanos);
            let time = text.split_once('T').map_or("", |(_, time)| time.trim_end_matches('Z'));
            cast(DataType::Time(None, TimezoneInfo::None), time.to_string())
        }
        ParameterValue::Duration(nanos) => interval(text(duration_text(*nanos))),
        ParameterValue::List(values) => {
            let elem = values.iter().map(|one| literal(one, placeholder, at)).collect::<Result<_>>()?;
            Expr::Array(Array { elem, named: true })
        }
    })
}

/// The places of the placeholders of a statement: 2 for `$2`.
pub(crate) fn placeholders(statement: &mut Statement) -> Vec<usize> {
    // Nothing is bound, so nothing can be wrong.
    let names = Parameters::Unbound.bind_some(std::slice::from_mut(statement)).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// What SQL calls a type that placeholders can have.
fn sql_type(of: &ArrowType) -> Option<DataType> {
    Some(match of {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 => DataType::TinyInt(None),
        ArrowType::Int16 => DataType::SmallInt(None),
        ArrowType::Int32 => DataType::Int(None),
        ArrowType::Int64 => DataType::BigInt(None),
        ArrowType::UInt64 => DataType::BigIntUnsigned(None),
        ArrowType::Float32 => DataType::Real,
        ArrowType::Float64 => DataType::DoublePrecision,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)))
        }
        ArrowType::Utf8 => DataType::Varchar(None),
        ArrowType::Binary => DataType::Bytea,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Time64(_) => DataType::Time(None, TimezoneInfo::None),
        ArrowType::Timestamp(..) => DataType::Timestamp(None, TimezoneInfo::None),
        _ => return None,
    })
}

/// A number with its sign as the parser would read it.
fn signed(negative: bool, digits: String, plain: &dyn Fn(Value) -> Expr) -> Expr {
    let number = plain(Value::Number(digits, false));
    match negative {
        false => number,
        true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) },
    }
}

/// The smallest type that holds these digits.
fn decimal_of(digits: &str, at: Position) -> Result<ExactNumberInfo> {
    let (whole, fraction) = digits.trim_start_matches(['-', '+']).split_once('.').unwrap_or((digits, ""));
    let count = |text: &str| text.bytes().filter(u8::is_ascii_digit).count() as u64;
    let (precision, scale) = (count(whole) + count(fraction), count(fraction));
    if precision > 38 || !digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.')) {
        let message = format!("{digits} is no decimal of up to 38 digits");
        return Err(QueryError::request(message).at(at));
    }
    Ok(ExactNumberInfo::PrecisionAndScale(precision.max(1), i64::try_from(scale).unwrap_or_default()))
}

fn interval(value: Expr) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(value),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:09} seconds", nanos / 1_000_000_000, nanos % 1_000_000_000)
}
