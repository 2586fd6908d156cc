//! Statements that planning refused, in other words: what is in a text can say more than planning heeds. One that has
//! nothing of the kind is not planned again.

use super::marker::call;
use super::walks::{each_expr, has_expr};
use crate::functions::{NAMED_CAST, NAMED_TRY_CAST};
use sqlparser::ast::{CastKind, DataType, Expr, Statement, Value, ValueWithSpan};
use tickstone_model::ColumnType;
use tickstone_wire::parse_uuid;

/// Whether a statement has a cast, a literal that says its type, or a text that is a UUID.
pub(crate) fn has_casts_or_uuids(statement: &Statement) -> bool {
    let says = |expr: &Expr| matches!(expr, Expr::Cast { .. } | Expr::TypedString(_)) || is_uuid(expr);
    has_expr(statement, &says)
}

fn is_uuid(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })
        if parse_uuid(text.trim().as_bytes()).is_some())
}

/// Texts that are UUIDs as UUIDs; says whether there are any.
pub(crate) fn cast_uuids(statement: &mut Statement) -> bool {
    let mut changed = false;
    each_expr(statement, &mut |expr| {
        if is_uuid(expr) {
            let text = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(text),
                data_type: DataType::Uuid,
                array: false,
                format: None,
            };
            changed = true;
        }
    });
    changed
}

/// Casts to types of tables as calls that say the type ([`NAMED_CAST`]): planning leaves casts out of the names of what
/// holds them, and takes two sums, or two keys of a GROUP BY, for one.
pub(crate) fn name_casts(statement: &mut Statement) {
    each_expr(statement, &mut |expr| {
        let (function, value, data_type) = match &*expr {
            Expr::Cast { kind, expr, data_type, .. } => {
                let tries = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                (if tries { NAMED_TRY_CAST } else { NAMED_CAST }, expr.as_ref().clone(), data_type)
            }
            Expr::TypedString(typed) => (NAMED_CAST, Expr::Value(typed.value.clone()), &typed.data_type),
            _ => return,
        };
        if let Ok(column_type) = ColumnType::parse(&data_type.to_string())
            && !matches!(column_type, ColumnType::Symbol | ColumnType::Uuid | ColumnType::Array(_))
        {
            let name = Expr::value(Value::SingleQuotedString(column_type.edge_type().to_string()));
            *expr = call(function, vec![value, name]);
        }
    });
}
