//! Rows of VALUES that can be planned together.
//!
//! The planner gives all rows of VALUES one type a column: beside a value whose type is stated, as in
//! `1.5::DECIMAL(2,1)`, others would be changed to that type before they are cast to the table's, and lose digits.

use sqlparser::ast::{CastKind, DataType, Expr, Parens, Query, SetExpr, SetOperator, SetQuantifier, Value};

type Rows = Vec<Parens<Vec<Expr>>>;

/// What a value is, where another beside it may be given its type.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text,
    Number,
    /// Another literal, or a negative one.
    Literal(std::mem::Discriminant<Value>),
    Of(DataType),
    /// Something whose type only planning tells.
    Other(String),
}

impl Kind {
    /// `None` for NULL, which has any type.
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Value(of) => match &of.value {
                Value::Null => None,
                Value::SingleQuotedString(_) => Some(Kind::Text),
                Value::Number(..) => Some(Kind::Number),
                other => Some(Kind::Literal(std::mem::discriminant(other))),
            },
            Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => Self::of(expr),
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, .. } => {
                Some(Kind::Of(data_type.clone()))
            }
            Expr::TypedString(typed) => Some(Kind::Of(typed.data_type.clone())),
            other => Some(Kind::Other(other.to_string())),
        }
    }

    fn is_plain(&self) -> bool {
        matches!(self, Kind::Text | Kind::Number | Kind::Literal(_))
    }
}

/// The rows of a query that is VALUES, as queries of rows that have the same kind of value in each place; the query
/// itself where all of them are literals, or it is more than VALUES.
pub(super) fn alike(mut query: Query) -> Vec<Query> {
    let is_more = query.with.is_some() || query.order_by.is_some() || query.limit_clause.is_some();
    if !is_more && matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        return one_by_one(query);
    }
    let SetExpr::Values(values) = query.body.as_mut() else { return vec![query] };
    let stated =
        |row: &Parens<Vec<Expr>>| row.content.iter().filter_map(Kind::of).any(|kind| !kind.is_plain());
    if is_more || values.rows.len() < 2 || !values.rows.iter().any(stated) {
        return vec![query];
    }
    let mut runs: Vec<(Vec<Option<Kind>>, Rows)> = Vec::new();
    for row in std::mem::take(&mut values.rows) {
        let kinds: Vec<Option<Kind>> = row.content.iter().map(Kind::of).collect();
        match runs.last_mut().filter(|(known, _)| fit(known, &kinds)) {
            Some((known, rows)) => {
                known
                    .iter_mut()
                    .zip(kinds)
                    .filter(|(known, _)| known.is_none())
                    .for_each(|(known, kind)| *known = kind);
                rows.push(row);
            }
            None => runs.push((kinds, vec![row])),
        }
    }
    let with_rows = |(_, rows): (_, Rows)| {
        let mut one = query.clone();
        if let SetExpr::Values(values) = one.body.as_mut() {
            values.rows = rows;
        }
        one
    };
    runs.into_iter().map(with_rows).collect()
}

/// Rows of VALUES with sub-queries, which are a UNION ALL of SELECTs without FROM by now, as a query each: they are
/// inserted in their order.
fn one_by_one(query: Query) -> Vec<Query> {
    fn rows(body: &SetExpr, found: &mut Vec<SetExpr>) -> bool {
        match body {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left,
                right,
            } => rows(left, found) && rows(right, found),
            SetExpr::Select(select) if select.from.is_empty() => {
                found.push(body.clone());
                true
            }
            _ => false,
        }
    }
    let mut found = Vec::new();
    if !rows(&query.body, &mut found) {
        return vec![query];
    }
    let with_body = |body| {
        let mut one = query.clone();
        one.body = Box::new(body);
        one
    };
    found.into_iter().map(with_body).collect()
}

fn fit(known: &[Option<Kind>], kinds: &[Option<Kind>]) -> bool {
    let mut pairs = known.iter().zip(kinds);
    known.len() == kinds.len() && pairs.all(|(a, b)| a.is_none() || b.is_none() || a == b)
}
