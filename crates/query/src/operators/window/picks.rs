//! Functions that go by places: first_value, last_value and nth_value of a frame, lag and lead, with and without IGNORE
//! NULLS, and ntile.
//!
//! What their expressions keep to themselves (how far lag looks, whether NULLs are passed over) is found out by asking
//! them about a few values.

use super::frame::{Frame, place};
use super::kernel::{Rows, each_series, valid_before};
use crate::error::from_arrow;
use crate::scan::Reach;
use arrow_select::take::take;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, Int64Array, UInt32Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::window::StandardWindowFunctionExpr;
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::windows::{StandardWindowExpr, WindowUDFExpr};
use std::sync::Arc;

/// Values that functions are asked about: those that look further are DataFusion's.
const ASKED_ROWS: usize = 128;

/// first_value(x), last_value(x) or nth_value(x, n).
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// Which value of the frame, from 1 on; from the end backwards where it is negative. Not 0.
    nth: i64,
    over_nulls: bool,
}

impl Edge {
    /// What a function is; `None` where it is another.
    pub(super) fn of(function: &Arc<dyn StandardWindowFunctionExpr>) -> Option<Self> {
        let name = function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name();
        if !matches!(name, "first_value" | "last_value" | "nth_value") {
            return None;
        }
        let value_of = |values: Int64Array| -> Option<i64> {
            let frame = 0..values.len();
            match function.create_evaluator().ok()?.evaluate(&[Arc::new(values)], &frame).ok()? {
                ScalarValue::Int64(value) => value,
                _ => None,
            }
        };
        // Counted from the beginning it is the same place in a shorter frame, from the end one before.
        let most = ASKED_ROWS as i64;
        let place = value_of(Int64Array::from_iter_values(0..most))?;
        let shorter = value_of(Int64Array::from_iter_values(0..most - 1))?;
        let nth = if place == shorter { place + 1 } else { place - most };
        // With a NULL before (or behind) so many values, the one that passes over it is the farthest.
        let values = (0..nth.abs()).map(Some);
        let (asked, farthest): (Int64Array, i64) = match nth > 0 {
            true => (std::iter::once(None).chain(values).collect(), nth - 1),
            false => (values.chain([None]).collect(), 0),
        };
        Some(Self { nth, over_nulls: value_of(asked) == Some(farthest) })
    }

    /// The place of its value among some, which stand from `start` to `end`.
    #[inline]
    fn place(self, start: usize, end: usize) -> Option<usize> {
        let away = usize::try_from(self.nth.unsigned_abs()).unwrap_or(usize::MAX);
        let place = if self.nth > 0 { start.checked_add(away - 1)? } else { end.checked_sub(away)? };
        (start..end).contains(&place).then_some(place)
    }

    /// The value of each row.
    pub(super) fn pick(self, argument: &ArrayRef, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        let nulls = argument.logical_nulls().filter(|nulls| self.over_nulls && nulls.null_count() > 0);
        let all = rows.batch.num_rows();
        let always = nulls.is_none() && self.nth.abs() == 1 && frame.has_current();
        let mut places: Vec<u32> = Vec::with_capacity(all);
        let mut some = BooleanBufferBuilder::new(if always { 0 } else { all });
        let mut note = |place: Option<usize>| {
            places.push(place.unwrap_or(0) as u32);
            if !always {
                some.append(place.is_some());
            }
        };
        match nulls {
            None => each_series(rows, |from, rows, times| {
                frame.each(rows, times, |start, end| note(self.place(from + start, from + end)));
            }),
            Some(nulls) => {
                // The rows that have a value, and how many of these are before each row.
                let there: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
                let before = valid_before(&nulls);
                each_series(rows, |from, rows, times| {
                    frame.each(rows, times, |start, end| {
                        let [start, end] = [start, end].map(|row| before[from + row] as usize);
                        note(self.place(start, end).map(|place| there[place] as usize));
                    });
                });
            }
        }
        let nulls = (!always).then(|| NullBuffer::new(some.finish()));
        take(argument, &UInt32Array::new(places.into(), nulls), None).map_err(from_arrow)
    }
}

/// ntile(n): rows in so many parts, the first ones a row longer where they cannot be equal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles(i64);

impl Tiles {
    /// What a function named ntile is; `None` where it makes more parts than are asked about.
    pub(super) fn of(function: &Arc<dyn StandardWindowFunctionExpr>) -> Option<Self> {
        const ROWS: i64 = 1 << 12;
        let parts = function.create_evaluator().ok()?.evaluate_all(&[], ROWS as usize).ok()?;
        let count = *parts.as_primitive_opt::<Int64Type>()?.values().last()?;
        (count < ROWS).then_some(Self(count))
    }

    /// The part of each row.
    pub(super) fn number(self, rows: &Rows<'_>) -> ArrayRef {
        let mut parts: Vec<i64> = Vec::with_capacity(rows.batch.num_rows());
        each_series(rows, |_, rows, _| {
            let (least, longer) = (rows as i64 / self.0, rows as i64 % self.0);
            for part in 0..self.0.min(rows as i64) {
                let of_part = least + i64::from(part < longer);
                parts.resize(parts.len() + of_part as usize, part + 1);
            }
        });
        Arc::new(Int64Array::from(parts))
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
