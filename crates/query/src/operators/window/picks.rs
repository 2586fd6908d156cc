//! Functions whose value is an argument's at another row: first_value and last_value of a frame, lag and lead, with and
//! without IGNORE NULLS.
//!
//! What their expressions keep to themselves (how far lag looks, whether NULLs are passed over) is found out by asking
//! them about a few values.

use super::frame::{Frame, place};
use super::kernel::{Rows, each_series};
use crate::error::from_arrow;
use crate::scan::Reach;
use arrow_select::take::take;
use datafusion::arrow::array::{Array, ArrayRef, BooleanBufferBuilder, UInt32Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::window::StandardWindowFunctionExpr;
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::windows::{StandardWindowExpr, WindowUDFExpr};
use std::sync::Arc;

/// Values that lag and lead are asked about where their NULLs are passed over: those that look further are DataFusion's.
const ASKED_ROWS: usize = 128;

/// first_value(x) or last_value(x).
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    last: bool,
    over_nulls: bool,
}

impl Edge {
    /// What a function of values of this type is; `None` where it is another.
    pub(super) fn of(function: &Arc<dyn StandardWindowFunctionExpr>, of: &DataType) -> Option<Self> {
        let last = match function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name() {
            "first_value" => false,
            "last_value" => true,
            _ => return None,
        };
        // Of a NULL and a value (a value and a NULL) one gives the value that passes over NULLs.
        let probe = || -> Result<bool> {
            let mut values = [ScalarValue::try_from(of)?, ScalarValue::new_default(of)?];
            if last {
                values.reverse();
            }
            let values = ScalarValue::iter_to_array(values)?;
            Ok(!function.create_evaluator()?.evaluate(&[values], &(0..2))?.is_null())
        };
        Some(Self { last, over_nulls: probe().ok()? })
    }

    /// The value of each row.
    pub(super) fn pick(self, argument: &ArrayRef, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        let nulls = argument.logical_nulls().filter(|nulls| self.over_nulls && nulls.null_count() > 0);
        if let Some(nulls) = nulls {
            return self.pick_over(&nulls, argument, frame, rows);
        }
        let mut places = Vec::with_capacity(rows.batch.num_rows());
        let mut some = Vec::with_capacity(if frame.has_current() { 0 } else { rows.batch.num_rows() });
        each_series(rows, |from, rows, times| {
            frame.each(rows, times, |start, end| {
                let row = if self.last { end.saturating_sub(1) } else { start.min(rows - 1) };
                places.push((from + row) as u64);
                if !frame.has_current() {
                    some.push(start < end);
                }
            });
        });
        let nulls = (!frame.has_current()).then(|| NullBuffer::from(some));
        let places = UInt64Array::new(places.into(), nulls);
        take(argument, &places, None).map_err(from_arrow)
    }

    /// Of the values that are not NULL.
    fn pick_over(
        self,
        nulls: &NullBuffer,
        argument: &ArrayRef,
        frame: Frame,
        rows: &Rows<'_>,
    ) -> Result<ArrayRef> {
        let all = nulls.len();
        // The nearest value from each row on, back (last) or ahead (first); past all rows where there is none.
        let mut nearest = vec![all as u32; all];
        let mut found = all as u32;
        let mut note = |row: usize| {
            found = if nulls.is_valid(row) { row as u32 } else { found };
            nearest[row] = found;
        };
        match self.last {
            true => (0..all).for_each(&mut note),
            false => (0..all).rev().for_each(&mut note),
        }
        let (mut places, mut some) = (Vec::with_capacity(all), BooleanBufferBuilder::new(all));
        each_series(rows, |from, rows, times| {
            frame.each(rows, times, |start, end| {
                let asked = if self.last { end.saturating_sub(1) } else { start };
                let place = if start < end { nearest[from + asked] } else { all as u32 };
                let inside = (from + start..from + end).contains(&(place as usize));
                places.push(if inside { place } else { 0 });
                some.append(inside);
            });
        });
        let places = UInt32Array::new(places.into(), Some(NullBuffer::new(some.finish())));
        take(argument, &places, None).map_err(from_arrow)
    }
}

/// lead(x, n); lag(x, n) is that of `-n`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    by: i64,
    over_nulls: bool,
}

impl Shift {
    /// What a function of values of this type is, which is lag or lead; `None` where something else than NULL stands where
    /// no row is so far away.
    pub(super) fn of(
        expr: &Arc<dyn WindowExpr>,
        function: &Arc<dyn StandardWindowFunctionExpr>,
        of: &DataType,
    ) -> Option<Self> {
        let values = |values: Vec<ScalarValue>| {
            let rows = values.len();
            let values = ScalarValue::iter_to_array(values)?;
            function.create_evaluator()?.evaluate_all(&[values], rows)
        };
        let (null, value) = (ScalarValue::try_from(of).ok()?, ScalarValue::new_default(of).ok()?);
        let Some(reach) = reach_of_shift(expr) else {
            let shifted = values(vec![value; ASKED_ROWS]).ok()?;
            let there: Vec<usize> = (0..ASKED_ROWS).filter(|row| shifted.is_valid(*row)).collect();
            let (first, last) = (*there.first()?, *there.last()?);
            let far = ASKED_ROWS - there.len();
            let by = match (first, ASKED_ROWS - 1 - last) {
                (before, 0) if before == far && far > 0 => -i64::try_from(far).ok()?,
                (0, after) if after == far && far > 0 => i64::try_from(far).ok()?,
                _ => return None,
            };
            return Some(Self { by, over_nulls: true });
        };
        let by = match (reach.before, reach.after) {
            (0, after) => i64::try_from(after - 1).ok()?,
            (before, _) => -i64::try_from(before).ok()?,
        };
        // A row ahead is what is said of the row itself, too: NULL is ahead of a value.
        let stays = by == 1 && values(vec![null, value.clone()]).ok()?.is_null(0);
        let by = if stays { 0 } else { by };
        // What stands where no row is so far away.
        let is_null = || values(vec![value]).is_ok_and(|of| of.is_null(0));
        (by == 0 || is_null()).then_some(Self { by, over_nulls: false })
    }

    /// The value of each row.
    pub(super) fn pick(self, argument: &ArrayRef, rows: &Rows<'_>) -> Result<ArrayRef> {
        let nulls = argument.logical_nulls().filter(|nulls| self.over_nulls && nulls.null_count() > 0);
        if let Some(nulls) = nulls {
            return self.pick_over(&nulls, argument, rows);
        }
        let (by, all) = (self.by, rows.batch.num_rows());
        let mut places: Vec<u32> = Vec::with_capacity(all);
        let mut some = BooleanBufferBuilder::new(all);
        each_series(rows, |from, rows, _| {
            // The rows that have one so far away.
            let first = place(0, by.saturating_neg(), rows);
            let end = place(rows, by.saturating_neg(), rows).max(first);
            let shifted = (from + place(first, by, rows)) as u32;
            places.resize(places.len() + first, 0);
            places.extend(shifted..shifted + (end - first) as u32);
            places.resize(places.len() + rows - end, 0);
            some.append_n(first, false);
            some.append_n(end - first, true);
            some.append_n(rows - end, false);
        });
        let places = UInt32Array::new(places.into(), Some(NullBuffer::new(some.finish())));
        take(argument, &places, None).map_err(from_arrow)
    }

    /// Of the values that are not NULL, of which the row's own is none.
    fn pick_over(self, nulls: &NullBuffer, argument: &ArrayRef, rows: &Rows<'_>) -> Result<ArrayRef> {
        let all = nulls.len();
        let far = usize::try_from(self.by.unsigned_abs()).unwrap_or(usize::MAX);
        let mut places: Vec<Option<u32>> = vec![None; all];
        let mut passed: Vec<u32> = Vec::new();
        each_series(rows, |from, rows, _| {
            passed.clear();
            let mut pass = |row: usize| {
                places[row] = passed.len().checked_sub(far).map(|at| passed[at]);
                if nulls.is_valid(row) {
                    passed.push(row as u32);
                }
            };
            match self.by < 0 {
                true => (from..from + rows).for_each(&mut pass),
                false => (from..from + rows).rev().for_each(&mut pass),
            }
        });
        take(argument, &UInt32Array::from(places), None).map_err(from_arrow)
    }
}

/// How far lag and lead see, which tell it of a row far from both ends.
pub(super) fn reach_of_shift(expr: &Arc<dyn WindowExpr>) -> Option<Reach> {
    const ROW: usize = 1 << 40;
    let function = expr.as_any().downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
    let name = function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name();
    if !matches!(name, "lag" | "lead") {
        return None;
    }
    let seen = function.create_evaluator().ok()?.get_range(ROW, 2 * ROW).ok()?;
    let (before, after) = (ROW.checked_sub(seen.start)?, seen.end.checked_sub(ROW)?);
    // One that passes over NULLs may have to look through the whole series.
    (before.max(after) < ROW / 2).then_some(Reach { before, after: after + 1 })
}
