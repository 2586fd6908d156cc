//! DataFusion's messages in the words of our SQL: types by the names CREATE TABLE knows, and what to write instead
//! where the mistake is one that newcomers make.
//!
//! Reads messages, for that is all that planning gives; one that is not recognised stays as it is.

use super::dates::read_as;
use super::{ErrorKind, QueryError, SqlState};
use crate::facts::is_of_windows;
use arrow_array::temporal_conversions::date32_to_datetime;

/// Functions of other systems, and what does the same here.
const ELSEWHERE: [(&str, &str); 33] = [
    ("tostartofsecond", "time_bucket('1s', ts)"),
    ("tostartofminute", "time_bucket('1m', ts)"),
    ("tostartoffiveminutes", "time_bucket('5m', ts)"),
    ("tostartofhour", "time_bucket('1h', ts)"),
    ("tostartofday", "time_bucket('1d', ts)"),
    ("tostartofinterval", "time_bucket('5m', ts)"),
    ("xbar", "time_bucket('5m', ts)"),
    ("time_bucket_gapfill", "SELECT … FROM t SAMPLE BY 5m FILL(PREV)"),
    ("locf", "SAMPLE BY 5m FILL(PREV), or fills(x) OVER (ORDER BY ts)"),
    ("interpolate", "SAMPLE BY 5m FILL(LINEAR)"),
    ("wavg", "vwap(price, size)"),
    ("avgweighted", "vwap(price, size)"),
    ("std", "stddev(x)"),
    ("dev", "stddev_pop(x)"),
    ("stddevsamp", "stddev(x)"),
    ("quantile", "quantile_cont(x, 0.9)"),
    ("quantileexact", "quantile_cont(x, 0.9)"),
    ("percentile", "quantile_cont(x, 0.9)"),
    ("count_distinct", "count(DISTINCT x)"),
    ("uniq", "count(DISTINCT x)"),
    ("uniqexact", "count(DISTINCT x)"),
    ("nunique", "count(DISTINCT x)"),
    ("sumif", "sum(x) FILTER (WHERE condition)"),
    ("grouparray", "array_agg(x)"),
    ("lastvalue", "last(x)"),
    ("deltas", "delta(x) OVER (ORDER BY ts)"),
    ("mavg", "avg(x) OVER (ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"),
    ("shift", "lag(x) OVER (ORDER BY ts)"),
    ("diff", "delta(x) OVER (ORDER BY ts)"),
    ("pct_change", "simple_return(x) OVER (ORDER BY ts)"),
    ("pg_cancel_backend", "CANCEL QUERY 7, the number that SHOW QUERIES has"),
    ("pg_terminate_backend", "CANCEL QUERY 7, the number that SHOW QUERIES has"),
    ("query_activity", "SHOW QUERIES, or SELECT … FROM queries()"),
];

/// What Arrow calls its arrays and types in Rust, before `Array` or `Type`, and the types of their values.
const CLASSES: [(&str, &str); 19] = [
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Float32", "FLOAT"),
    ("Float64", "DOUBLE"),
    ("Boolean", "BOOLEAN"),
    ("String", "VARCHAR"),
    ("LargeString", "VARCHAR"),
    ("StringView", "VARCHAR"),
    ("GenericString", "VARCHAR"),
    ("Binary", "BINARY"),
    ("Date32", "DATE"),
    ("Decimal128", "DECIMAL"),
    ("TimestampNanosecond", "TIMESTAMP"),
];

/// Arrow's names of types and ours, longer ones before those they contain.
const TYPES: [(&str, &str); 37] = [
    ("Dictionary(UInt32, Utf8)", "SYMBOL"),
    ("FixedSizeBinary(16)", "UUID"),
    ("Timestamp(ns)", "TIMESTAMP"),
    ("Timestamp(µs)", "TIMESTAMP"),
    ("Timestamp(ms)", "TIMESTAMP"),
    ("Timestamp(s)", "TIMESTAMP"),
    ("Interval(MonthDayNano)", "INTERVAL"),
    ("Interval(DayTime)", "INTERVAL"),
    ("Interval(YearMonth)", "INTERVAL"),
    ("Duration(ns)", "INTERVAL"),
    ("Duration", "INTERVAL"),
    ("Interval", "INTERVAL"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("Int64", "BIGINT"),
    ("Int32", "INT"),
    ("Int16", "SMALLINT"),
    ("Int8", "TINYINT"),
    ("Float64", "DOUBLE"),
    ("Float32", "FLOAT"),
    ("LargeUtf8", "VARCHAR"),
    ("Utf8View", "VARCHAR"),
    ("Utf8", "VARCHAR"),
    ("Boolean", "BOOLEAN"),
    ("Date32", "DATE"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
    ("Decimal", "DECIMAL"),
    ("Date64", "DATE"),
    ("Time64(ns)", "TIME"),
    ("Time64(µs)", "TIME"),
    ("Time32(ms)", "TIME"),
    ("Time32(s)", "TIME"),
    ("LargeBinary", "BINARY"),
    ("BinaryView", "BINARY"),
];

/// The error that a message is, in our words.
pub(super) fn reworded(message: &str) -> QueryError {
    let known = [
        unknown_function,
        unknown_table_function,
        ungrouped,
        grouped_by_aggregate,
        wrong_arguments,
        incomparable,
        no_number,
        no_between,
        no_parameter,
        no_range,
        named_alike,
        other_count,
        no_moving_frame,
        correlated,
        several_rows,
        not_of_this_type,
        bad_pattern,
        past_numbers,
        past_decimals,
        past_offsets,
        past_time,
        past_dates,
        out_of_range,
        no_value,
    ];
    let found = known.iter().find_map(|reads| reads(message));
    found.unwrap_or_else(|| QueryError::request(message))
}

/// Texts or lists of one batch of rows that Arrow's offsets of 32 bits cannot count: some of its kernels return an error,
/// others panic with one of these.
pub(super) fn past_offsets(message: &str) -> Option<QueryError> {
    const PANICS: [&str; 3] = ["offset overflow", "byte array offset overflow", "overflow"];
    let is_it = PANICS.contains(&message)
        || message.starts_with("byte array offset overflow: ")
        || message.starts_with("Offset overflow error: ");
    is_it.then(|| {
        let what = "the texts or lists of a batch of rows hold more than 2 GiB";
        QueryError::new(ErrorKind::FreeSpace, what)
            .hint("make each shorter, or take fewer rows: LIMIT in a sub-query")
    })
}

fn between<'m>(message: &'m str, before: &str, after: &str) -> Option<&'m str> {
    let rest = &message[message.find(before)? + before.len()..];
    rest.find(after).map(|end| &rest[..end])
}

/// What to write instead of another database's function.
fn elsewhere(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}

fn unknown_function(message: &str) -> Option<QueryError> {
    let name = between(message.strip_prefix("Invalid function")?, "'", "'")?;
    let made = QueryError::request(format!("function '{name}' does not exist"));
    let made = made.state(SqlState::UndefinedFunction);
    if let Some(instead) = elsewhere(name) {
        return Some(made.hint(format!("write {instead}")));
    }
    if is_of_windows(name) {
        return Some(over_window(name));
    }
    // The session, which knows all functions, names the one that was meant.
    Some(made.hint("SHOW FUNCTIONS lists them"))
}

/// A window function was called as another.
pub(super) fn over_window(name: &str) -> QueryError {
    let made = QueryError::request(format!("{name} works over a window"));
    made.hint(format!("write {name}(…) OVER (PARTITION BY symbol ORDER BY ts)"))
}

fn unknown_table_function(message: &str) -> Option<QueryError> {
    let name = between(message, "table function '", "' not found")?;
    let made = QueryError::request(format!("table function '{name}' does not exist"));
    let made = made.state(SqlState::UndefinedFunction);
    Some(match elsewhere(name) {
        Some(instead) => made.hint(format!("write {instead}")),
        None => made,
    })
}

fn ungrouped(message: &str) -> Option<QueryError> {
    let column = between(message, "column \"", "\" must appear in the GROUP BY clause")?;
    let column = column.rsplit('.').next().filter(|_| !column.contains('(')).unwrap_or(column);
    let made = QueryError::request(format!("column '{column}' is neither grouped nor aggregated"));
    let made = made.state(SqlState::GroupingError);
    Some(made.hint(format!(
        "write GROUP BY {column}, or an aggregate such as last({column}); bars are SAMPLE BY 1m"
    )))
}

/// An aggregate, or a function over a window, among what is grouped by.
fn grouped_by_aggregate(message: &str) -> Option<QueryError> {
    let expr = message.strip_prefix("Physical plan does not support logical expression ")?;
    let what = match expr.split_once('(')?.0 {
        "AggregateFunction" => "aggregates",
        "WindowFunction" => "functions over windows",
        _ => return None,
    };
    let made = QueryError::request(format!("GROUP BY takes no {what}")).state(SqlState::GroupingError);
    Some(made.hint("a number in GROUP BY is the place of an item in the list: name those that are columns"))
}

/// Arguments of other number or types than a function takes.
fn wrong_arguments(message: &str) -> Option<QueryError> {
    let call = between(message, "given name and argument types '", "'")?;
    let (name, arguments) = call.split_once('(')?;
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let made = QueryError::request(match arguments {
        "" => format!("{name} takes arguments"),
        _ => format!("{name} does not take ({arguments})"),
    })
    .state(SqlState::UndefinedFunction);
    let candidates: Vec<&str> = message
        .split_once("Candidate functions:")
        .map(|(_, list)| list.lines().map(str::trim).filter(|line| !line.is_empty()).collect())
        .unwrap_or_default();
    if !candidates.is_empty() && !message.contains("UserDefined") {
        return Some(made.hint(format!("it takes {}", candidates.join(" or "))));
    }
    let said = message.split("Error during planning: ").last()?.split(". No function matches").next()?;
    Some(made.hint(said))
}

fn incomparable(message: &str) -> Option<QueryError> {
    let types = message.strip_prefix("Cannot infer common argument type for comparison operation ")?;
    let types = our_types(types.lines().next()?);
    let operators = [" >= ", " <= ", " <> ", " != ", " = ", " > ", " < "];
    let (left, right) = operators.iter().find_map(|operator| types.split_once(operator))?;
    let made = QueryError::request(format!("{left} and {right} cannot be compared"));
    let made = made.state(SqlState::DatatypeMismatch);
    Some(if left == "TIMESTAMP" || right == "TIMESTAMP" {
        made.hint(
            "write the time as text, '2024-08-08T09:30', or say the unit of the number: timestamp_ms(…)",
        )
    } else {
        made
    })
}

/// A placeholder that nobody gave a value for.
fn no_parameter(message: &str) -> Option<QueryError> {
    let name = between(message, "Placeholder '", "' was not provided a value for execution")?;
    let made = QueryError::request(format!("placeholder {name} has no value"));
    Some(made.state(SqlState::UndefinedParameter).hint("give the statement its parameters"))
}

fn no_between(message: &str) -> Option<QueryError> {
    let types = between(message, "Failed to coerce types ", " in BETWEEN expression")?;
    let (left, right) = types.split_once(" and ")?;
    let made =
        QueryError::request(format!("{} and {} cannot be compared", our_types(left), our_types(right)));
    Some(made.hint("cast one of them"))
}

/// A frame by RANGE over what has no distances.
fn no_range(message: &str) -> Option<QueryError> {
    let of = message.strip_prefix("Cannot run range queries on datatype: ")?;
    let made = QueryError::request(format!("a window by RANGE has no order by {}", our_types(of)));
    Some(made.hint("the frame of ROWS goes by any order: OVER (ORDER BY x ROWS UNBOUNDED PRECEDING)"))
}

fn no_number(message: &str) -> Option<QueryError> {
    let text = between(message, "Cannot cast string '", "' to value of ")?;
    let wanted = our_types(between(message, "' to value of ", " type")?);
    let made = QueryError::request(format!("'{text}' is no {wanted}")).state(SqlState::InvalidText);
    Some(made.hint(match (wanted.as_str(), read_as(text)) {
        ("DATE", Some(call)) => format!("write {call}::DATE"),
        ("DATE", None) => "write it as '2024-08-08'; TRY_CAST gives NULL instead".to_string(),
        _ => "TRY_CAST gives NULL instead; to compare texts put the number in quotes".to_string(),
    }))
}

/// A number in a text that is past the largest of its type.
fn past_numbers(message: &str) -> Option<QueryError> {
    let (_, of) = message.split_once("' is out of range for a ")?;
    let made = QueryError::request(message).state(SqlState::OutOfRange);
    Some(
        made.hint(format!(
            "TRY_CAST gives NULL instead; 'Infinity' is the {} past all numbers",
            our_types(of)
        )),
    )
}

/// A number with more digits than a DECIMAL has; Arrow tells them without the point.
fn past_decimals(message: &str) -> Option<QueryError> {
    let (digits, of) = [" is too large to store in a ", " is too small to store in a "]
        .iter()
        .find_map(|words| message.split_once(words))?;
    let precision = between(of, " of precision ", ".")?;
    let what = format!("the digits {digits} are more than the {precision} of a DECIMAL({precision}, …)");
    let made = QueryError::request(what).state(SqlState::OutOfRange);
    Some(made.hint("cast to a DECIMAL of more digits, up to 38; TRY_CAST gives NULL instead"))
}

/// A DATE that no TIMESTAMP is.
fn past_time(message: &str) -> Option<QueryError> {
    let of = between(message, "Cannot cast ", ": converted value exceeds the representable i64 range")?;
    let days = of.strip_prefix("Date32 value ").or_else(|| of.strip_prefix("DATE value "))?;
    let days: i32 = days.split(' ').next()?.parse().ok()?;
    let date = date32_to_datetime(days)?.date();
    let made =
        QueryError::request(format!("DATE '{date}' is no TIMESTAMP: they go from 1677-09-22 to 2262-04-11"));
    Some(made.hint("compare the two as they are, or CAST the timestamp to DATE"))
}

/// A DATE, or a TIMESTAMP, that an INTERVAL takes beyond what there is.
fn past_dates(message: &str) -> Option<QueryError> {
    let outside = |what: String| QueryError::request(format!("{what} lies outside the years 1677 to 2262"));
    let made = if let Some(sum) = message.strip_prefix("Date arithmetic overflow: ") {
        let (days, rest) = sum.split_once(' ')?;
        let (sign, length) = rest.split_once(' ')?;
        let date = date32_to_datetime(days.parse().ok()?)?.date();
        let part = |unit: &str| {
            let count =
                between(length, &format!("{unit}: "), if unit == "nanoseconds" { " }" } else { "," })?;
            (count != "0").then(|| format!("{count} {unit}"))
        };
        let length: Vec<String> =
            ["months", "days", "nanoseconds"].iter().filter_map(|of| part(of)).collect();
        let length = length.join(" ");
        QueryError::request(format!("DATE '{date}' {sign} INTERVAL '{length}' is past all DATEs"))
    } else if message == "Timestamp out of range" {
        outside("a TIMESTAMP plus or less an INTERVAL".into())
    } else if let Some(unit) = message.split_once(" out of range after truncating to ").map(|(_, unit)| unit)
    {
        outside(format!("the start of the {unit}"))
    } else {
        let of = between(message, "Cannot cast ", ": converted value exceeds the representable i64 range")?;
        if !of.to_lowercase().starts_with("timestamp") {
            return None;
        }
        outside("the instant".into())
    };
    Some(made.state(SqlState::OutOfRange))
}

fn named_alike(message: &str) -> Option<QueryError> {
    let one = between(message, "unique expression names but the expression \"", "\" at position")?;
    let other = between(message, " and \"", "\" at position")?;
    let made = QueryError::request(format!("two columns of the result have one name: {one} and {other}"));
    Some(made.hint("rename one of them with AS"))
}

/// A row or a list of names beside a query with other columns.
fn other_count(message: &str) -> Option<QueryError> {
    let columns = between(message, "Source table contains ", " columns but only ")?;
    let names = between(message, " columns but only ", " names given as column alias")?;
    Some(QueryError::request(format!("a query gives {columns} columns where {names} are named or compared")))
}

fn no_moving_frame(message: &str) -> Option<QueryError> {
    let name = between(message, "`retract_batch` is not implemented: ", "(")?;
    let made = QueryError::request(format!("{name} has no moving frame"));
    Some(made.hint(
        "sum, avg, count, min, max, vwap, first_value and last_value have; any aggregate may run from UNBOUNDED PRECEDING",
    ))
}

/// What is said where a sub-query that stands for a value gives several rows.
pub(crate) const SEVERAL_ROWS: &str = "a sub-query used as a value gives more than one row";

/// More rows than one of a sub-query that stands for a value.
fn several_rows(message: &str) -> Option<QueryError> {
    if !message.contains(SEVERAL_ROWS) && !message.contains("Scalar subquery returned more than one row") {
        return None;
    }
    Some(
        QueryError::request(SEVERAL_ROWS)
            .hint("ORDER BY … LIMIT 1 takes one of them, an aggregate such as max all of them"),
    )
}

/// A sub-query that would have to run for each row.
fn correlated(message: &str) -> Option<QueryError> {
    let leaks = [
        "undecorrelated Subquery",
        "'__always_true'",
        "'__key_",
        "OuterReferenceColumn(Field",
        "Accessing outer reference columns is not allowed",
        "subquery can only be used in",
    ];
    let unplanned = match message.strip_prefix("Physical plan does not support logical expression ") {
        Some(unplanned) => unplanned,
        None if leaks.iter().any(|words| message.contains(words)) => "Exists(",
        None => return None,
    };
    let made = QueryError::request(match unplanned.strip_prefix("OuterReferenceColumn(") {
        Some(outer) => {
            let name = outer.rsplit("name: \"").next().and_then(|rest| rest.split('"').next()).unwrap_or("?");
            format!(
                "this sub-query reads '{name}' of the query around it, for each row anew, which is not supported"
            )
        }
        None if ["Exists(", "InSubquery(", "ScalarSubquery(", "SetComparison("]
            .iter()
            .any(|kind| unplanned.starts_with(kind)) =>
        {
            "this sub-query reads columns of the query around it, for each row anew, which is not supported"
                .into()
        }
        None => return None,
    });
    Some(
        made.hint(
            "the row before each: ASOF JOIN; what lies around each: WINDOW JOIN; else write it as a join",
        ),
    )
}

/// An aggregate of DataFusion's that lacks a type.
fn not_of_this_type(message: &str) -> Option<QueryError> {
    let name = between(message, "Support for '", "' for data type ")?;
    let data_type = between(message, "' for data type ", " is not implemented")?;
    let made = QueryError::request(format!("{name} does not take ({data_type})"));
    Some(match name {
        "approx_distinct" => {
            made.hint("count(DISTINCT x) counts exactly; or cast it: approx_distinct(x::VARCHAR)")
        }
        _ => made.hint("cast the argument to another type"),
    })
}

/// A number that a type does not hold.
fn out_of_range(message: &str) -> Option<QueryError> {
    let is_past =
        ["does not fit", "outside the years 1677 to 2262"].iter().any(|words| message.contains(words));
    is_past.then(|| QueryError::request(message).state(SqlState::OutOfRange))
}

/// A text that is no value of a type.
fn no_value(message: &str) -> Option<QueryError> {
    let (_, rest) = message.strip_prefix('\'')?.split_once("' is no ")?;
    let known = ["UUID", "BINARY", "TIME", "timestamp", "date", "number", "array"]
        .iter()
        .any(|of| rest.starts_with(of));
    known.then(|| QueryError::request(message).state(SqlState::InvalidText))
}

/// A regular expression that is none.
fn bad_pattern(message: &str) -> Option<QueryError> {
    let (_, said) = message.split_once("regex parse error:")?;
    let reason = said.rsplit("error:").next().map(str::trim).filter(|reason| !reason.is_empty())?;
    let pattern = said.lines().map(str::trim).find(|line| !line.is_empty())?;
    let made = QueryError::request(format!("'{pattern}' is no regular expression: {reason}"));
    Some(made.hint("a character that means something in patterns stands after a backslash"))
}

/// A text with Arrow's names of types as ours, and literals as they are written. What stands in quotes stays; an
/// apostrophe within a word is none.
pub(super) fn our_types(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let (mut rest, mut quoted) = (text, false);
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(next) = rest.chars().next() {
        let is_apostrophe =
            !quoted && made.ends_with(in_word) && rest[next.len_utf8()..].starts_with(char::is_alphabetic);
        quoted ^= next == '\'' && !is_apostrophe;
        let starts = !quoted && !made.ends_with(in_word);
        let is = |arrow: &str| rest.strip_prefix(arrow).is_some_and(|after| !after.starts_with(in_word));
        let named = TYPES.iter().find(|(arrow, _)| starts && is(arrow));
        let class = if starts { array_class(rest) } else { None };
        if let Some((length, ours)) = class {
            made.push_str(ours);
            rest = &rest[length..];
            continue;
        }
        let Some((arrow, ours)) = named else {
            made.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        rest = &rest[arrow.len()..];
        match rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            Some((value, after)) if !ours.starts_with("DECIMAL") && !arrow.ends_with(')') => {
                made.push_str(&value.replace('"', "'"));
                rest = after;
            }
            _ => made.push_str(ours),
        }
    }
    made
}

/// The type whose values a class of Arrow's holds, `Int64Array`, `arrow_array::types::Int64Type` or
/// `PrimitiveArray<Int64Type>`, at the start of a text, and how long its name is.
fn array_class(text: &str) -> Option<(usize, &'static str)> {
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = &text[..text.find(|c: char| !in_path(c)).unwrap_or(text.len())];
    let name = path.rsplit("::").next()?;
    let after = &text[path.len()..];
    if name == "PrimitiveArray" || name == "GenericByteArray" {
        let (inside, _) = after.strip_prefix('<')?.split_once('>')?;
        let (_, ours) = array_class(inside)?;
        return Some((path.len() + inside.len() + 2, ours));
    }
    let stem = name.strip_suffix("Array").or_else(|| name.strip_suffix("Type"))?;
    let known = CLASSES.iter().find(|(class, _)| *class == stem)?;
    Some((path.len(), known.1))
}

#[cfg(test)]
mod tests;
