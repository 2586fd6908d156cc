//! Arrays: their bounds, their places, and texts of them.

use super::super::value::{Kind, Value};
use super::{Function, Gives, function};

pub(super) fn all() -> Vec<Function> {
    vec![
        function("array_lower", 2..=2, Kind::Int4, |_, values| length(values).map(|_| 1_i64).into()),
        function("array_upper", 2..=2, Kind::Int4, |_, values| length(values).into()),
        function("array_subscripts", 2..=3, Kind::Int4s, |_, values| {
            length(values).map(|length| (1..=length).collect::<Vec<i64>>()).into()
        }),
        Function {
            name: "array_places",
            arguments: 1..=1,
            gives: Gives::One(Kind::Places),
            names: None,
            call: |_, values| values.first().cloned().unwrap_or(Value::Null),
        },
    ]
}

/// How long an array is that has elements, in its first dimension.
fn length(values: &[Value]) -> Option<i64> {
    let length = match values.first()? {
        Value::Ints(items) => items.len(),
        Value::Texts(items) => items.len(),
        _ => return None,
    };
    let is_first = values.get(1).and_then(Value::int) == Some(1);
    (is_first && length > 0).then(|| i64::try_from(length).unwrap_or(i64::MAX))
}
