//! Frames of windows whose bounds are past what a row's number or a key can be.
//!
//! DataFusion adds a number of rows in 64 bits and wraps around, refuses an offset that the key's type cannot hold, and
//! lets a frame that begins past the end of the type begin at the first row. A frame over integers is therefore one over
//! decimals, in which such sums fit, and a number of rows is no more than there can be. Times have intervals as bounds,
//! whose sums are checked; a number is one of days over a DATE, where DataFusion takes months, and refused over a
//! TIMESTAMP. A number with more digits after the point than a key has reaches as far as one that is cut: 0.5 as far as
//! 0 over integers. DataFusion rounds it. Over keys that have an order and no distances that it knows (TIME, differences
//! of times, UUID) it takes no RANGE: one that ends at the current row and at no offset from it is one of GROUPS.

use crate::named::change_named;
use crate::texts::without_exponent;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::borrow::Cow;

/// Most rows that a frame is asked to reach: more than a partition has.
const ROWS_MAX: u64 = i64::MAX.cast_unsigned();
/// Every integer of 64 bits, and any bound added to it that is written with up to 37 digits.
const KEY: DataType = DataType::Decimal128(38, 0);

/// See the file's header.
#[derive(Debug)]
pub(crate) struct WideFrames;

impl AnalyzerRule for WideFrames {
    fn name(&self) -> &str {
        "wide_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Window(window) = &plan else { return Ok(Transformed::no(plan)) };
            let schema = merge_schema(&plan.inputs());
            // The functions of a node have one order: where one of them needs a wider key, all get it.
            let is_wide = window.window_expr.iter().any(|expr| is_over_integers(expr, &schema));
            change_named(plan, |expr| expr.transform_up(|expr| widened(expr, is_wide, &schema)))
        })?;
        Ok(changed.data)
    }
}

/// Whether a window function has a frame of keys that are integers, and a bound that is added to them.
fn is_over_integers(expr: &Expr, schema: &DFSchema) -> bool {
    let call = match expr {
        Expr::Alias(alias) => return is_over_integers(&alias.expr, schema),
        Expr::WindowFunction(call) => call,
        _ => return false,
    };
    let WindowFunctionParams { order_by, window_frame, .. } = &call.params;
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => !value.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let has_offset = is_offset(&window_frame.start_bound) || is_offset(&window_frame.end_bound);
    let is_integer = |key: &SortExpr| key.expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
    window_frame.units == WindowFrameUnits::Range
        && has_offset
        && matches!(order_by.as_slice(), [key] if is_integer(key))
}

fn widened(expr: Expr, is_wide: bool, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let WindowFunctionParams { order_by, window_frame, .. } = &mut call.params;
    let is_range = window_frame.units == WindowFrameUnits::Range;
    let changed = match order_by.as_slice() {
        [key] if is_range && count_days(window_frame, &key.expr, schema)? => true,
        [key] if is_range && cut_fractions(window_frame, &key.expr, schema)? => true,
        [key, ..] if is_range => count_groups(window_frame, &key.expr, schema)?,
        [] if is_range => false,
        _ => limit_rows(window_frame),
    };
    if is_wide {
        for key in order_by {
            key.expr = cast(key.expr.clone(), KEY);
        }
    }
    let call = Expr::WindowFunction(call);
    Ok(if changed || is_wide { Transformed::yes(call) } else { Transformed::no(call) })
}

/// A bound as the text has it.
fn written(bound: &mut WindowFrameBound) -> Option<&mut String> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(Some(text)))
        | WindowFrameBound::Following(ScalarValue::Utf8(Some(text))) => Some(text),
        _ => None,
    }
}

/// Bounds that are numbers as days, over dates.
fn count_days(frame: &mut WindowFrame, key: &Expr, schema: &DFSchema) -> Result<bool> {
    let data_type = key.get_type(schema)?;
    let is_date = matches!(data_type, DataType::Date32 | DataType::Date64);
    if !is_date && !matches!(data_type, DataType::Timestamp(..)) {
        return Ok(false);
    }
    let mut changed = false;
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let Some(text) = written(bound) else { continue };
        if text.trim().parse::<f64>().is_err() {
            continue;
        }
        if !is_date || text.trim().parse::<u64>().is_err() {
            let message = format!("a RANGE over times has a length as its bound, and {text} is a number");
            let hint = "write INTERVAL '5 minutes' PRECEDING";
            return Err(plan_datafusion_err!("{message}")
                .with_diagnostic(Diagnostic::new_error(&message, None).with_help(hint, None)));
        }
        *text = format!("{} days", text.trim());
        changed = true;
    }
    Ok(changed)
}

/// Bounds that are numbers with as many digits after the point as the key has: no two keys lie between that and the number.
fn cut_fractions(frame: &mut WindowFrame, key: &Expr, schema: &DFSchema) -> Result<bool> {
    let places = match key.get_type(schema)? {
        DataType::Decimal128(_, scale) => usize::try_from(scale).unwrap_or(0),
        of if of.is_integer() => 0,
        _ => return Ok(false),
    };
    let mut changed = false;
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let Some(text) = written(bound) else { continue };
        let plain = without_exponent(text.trim()).map_or_else(|| text.trim().to_string(), Cow::into_owned);
        if let Some((whole, fraction)) = plain.split_once('.')
            && fraction.len() > places
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        {
            let whole = if whole.is_empty() { "0" } else { whole };
            let point = if places == 0 { "" } else { "." };
            *text = format!("{whole}{point}{}", &fraction[..places]);
            changed = true;
        }
    }
    Ok(changed)
}

/// A frame without offsets by the groups of equal keys, where their type has no distances.
fn count_groups(frame: &mut WindowFrame, key: &Expr, schema: &DFSchema) -> Result<bool> {
    let is_without = matches!(
        key.get_type(schema)?,
        DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::FixedSizeBinary(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::Struct(_)
    );
    let bounds = [&mut frame.start_bound, &mut frame.end_bound];
    let is_open = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => value.is_null(),
        WindowFrameBound::CurrentRow => true,
    };
    if !is_without || !bounds.iter().all(|bound| is_open(bound)) {
        return Ok(false);
    }
    for bound in bounds {
        if let WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) = bound {
            *value = ScalarValue::UInt64(None);
        }
    }
    frame.units = WindowFrameUnits::Groups;
    Ok(true)
}

fn limit_rows(frame: &mut WindowFrame) -> bool {
    let mut changed = false;
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let (WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows)))
        | WindowFrameBound::Following(ScalarValue::UInt64(Some(rows)))) = bound
        else {
            continue;
        };
        changed |= *rows > ROWS_MAX;
        *rows = ROWS_MAX.min(*rows);
    }
    changed
}
