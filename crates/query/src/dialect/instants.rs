//! Times in texts that are arguments of what stands for a table:
//! `generate_series('2024-01-01 09:30', '2024-01-01 16:00', INTERVAL '1 minute')`.
//!
//! Planning works such arguments out before any rule sees them, and its own casts read fewer forms than [`parse_instant`].
//! Here a text that is cast to a TIMESTAMP is written in full. A text beside a step that is an INTERVAL is cast.

use super::walks::each_expr;
use crate::texts::parse_instant;
use sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, TableFactor, TimezoneInfo, Value, ValueWithSpan,
    VisitorMut,
};
use std::ops::ControlFlow;
use tickstone_model::format_nanos;

/// See the file's header.
pub(super) struct InArguments;

impl VisitorMut for InArguments {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: Some(arguments), .. } = factor else {
            return ControlFlow::Continue(());
        };
        let name = name.0.last().and_then(|part| part.as_ident()).map_or("", |ident| &ident.value);
        let is_series = ["generate_series", "range"].iter().any(|of| name.eq_ignore_ascii_case(of));
        let values = arguments.args.iter_mut().filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
            _ => None,
        });
        let mut values: Vec<&mut Expr> = values.collect();
        if is_series
            && let [start, end, step] = values.as_mut_slice()
            && is_interval(step)
        {
            [start, end].into_iter().for_each(|value| cast(value));
        }
        values.into_iter().for_each(|value| each_expr(value, &mut in_full));
        ControlFlow::Continue(())
    }
}

fn is_interval(step: &Expr) -> bool {
    match step {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_interval(inner),
        _ => false,
    }
}

/// Casts a text.
fn cast(value: &mut Expr) {
    if matches!(value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })) {
        *value = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value.clone()),
            data_type: DataType::Timestamp(None, TimezoneInfo::None),
            array: false,
            format: None,
        };
    }
}

/// Writes the text of a cast to a TIMESTAMP in full.
fn in_full(expr: &mut Expr) {
    let (text, data_type) = match expr {
        Expr::Cast { expr: of, data_type, .. } => match of.as_mut() {
            Expr::Value(of) => (&mut of.value, data_type),
            _ => return,
        },
        Expr::TypedString(typed) => (&mut typed.value.value, &mut typed.data_type),
        _ => return,
    };
    if let (Value::SingleQuotedString(text), DataType::Timestamp(..) | DataType::Datetime(_)) =
        (text, data_type)
        && let Some(nanos) = parse_instant(text)
    {
        *text = format_nanos(nanos);
    }
}
