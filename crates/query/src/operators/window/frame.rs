//! Which rows of its series a window function sees from each row.

use super::slices::Order;
use crate::functions::stride::interval_nanos;
use crate::scan::Reach;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};

/// Most rows of a frame that is folded anew for each row, which needs no state and no branches.
const SHORT_ROWS_MAX: i64 = 16;

/// A frame; an end of it that is `None` is open, as far as the series goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// From so many rows after the current one (negative: before it) to so many, both inside.
    Rows { from: Option<i64>, to: Option<i64> },
    /// From so many nanoseconds after the current row's time to so many, both inside; of rows that are not in order of
    /// time, whose numbers say which are peers, to those of the current row.
    Times { from: Option<i64>, to: Option<i64> },
}

/// What a function's result for a row hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    /// So many rows before it; `None`: all of its partition.
    pub(super) before: Option<usize>,
    /// So many rows after it; `None`: all of its partition.
    pub(super) after: Option<usize>,
    /// All rows that are equal in the order.
    pub(super) peers: bool,
}

impl From<Reach> for Sight {
    fn from(reach: Reach) -> Self {
        Self { before: Some(reach.before), after: Some(reach.after), peers: false }
    }
}

impl Sight {
    /// What hangs on either hangs on.
    pub(super) fn and(self, other: Self) -> Self {
        let both = |a: Option<usize>, b: Option<usize>| Some(a?.max(b?));
        Self {
            before: both(self.before, other.before),
            after: both(self.after, other.after),
            peers: self.peers || other.peers,
        }
    }
}

impl Frame {
    /// The frame of a window in this order; `None` where it is of another kind.
    pub(super) fn of(frame: &WindowFrame, order: &Order) -> Option<Self> {
        match frame.units {
            WindowFrameUnits::Rows => {
                let rows = |value: &ScalarValue| match value {
                    ScalarValue::UInt64(Some(rows)) => i64::try_from(*rows).ok(),
                    _ => None,
                };
                let (from, to) = (bound(&frame.start_bound, rows)?, bound(&frame.end_bound, rows)?);
                Some(Frame::Rows { from, to })
            }
            // Without an order all rows are peers.
            WindowFrameUnits::Range if matches!(order, Order::Any) => {
                let peers = |bound: &WindowFrameBound| {
                    bound.is_unbounded() || matches!(bound, WindowFrameBound::CurrentRow)
                };
                let all = peers(&frame.start_bound) && peers(&frame.end_bound);
                all.then_some(Frame::Rows { from: None, to: None })
            }
            WindowFrameUnits::Range => {
                let in_time = matches!(order, Order::Time(_));
                let nanos =
                    |value: &ScalarValue| interval_nanos(value).filter(|nanos| in_time && *nanos >= 0);
                let (from, to) = (bound(&frame.start_bound, nanos)?, bound(&frame.end_bound, nanos)?);
                Some(Frame::Times { from, to })
            }
            WindowFrameUnits::Groups => None,
        }
    }

    /// Whether the current row is always in it, so that it is never empty.
    pub(super) fn has_current(self) -> bool {
        let (Frame::Rows { from, to } | Frame::Times { from, to }) = self;
        from.is_none_or(|from| from <= 0) && to.is_none_or(|to| to >= 0)
    }

    /// How far it reaches from the current row; `None` where that has no end, or is not a number of rows.
    pub(super) fn reach(self) -> Option<Reach> {
        match self {
            Frame::Rows { from: Some(from), to: Some(to) } => Some(Reach {
                before: usize::try_from(from.saturating_neg()).unwrap_or(0),
                after: usize::try_from(to).unwrap_or(0),
            }),
            _ => None,
        }
    }

    /// What the fold of a row's frame hangs on.
    pub(super) fn sight(self) -> Sight {
        let rows = |away: i64| usize::try_from(away).unwrap_or(0);
        match self {
            Frame::Rows { from, to } => Sight {
                before: from.map(|from| rows(from.saturating_neg())),
                after: to.map(rows),
                peers: false,
            },
            // How many rows are so far ahead in time is not known.
            Frame::Times { to, .. } => {
                Sight { before: None, after: to.filter(|to| *to <= 0).map(|_| 0), peers: true }
            }
        }
    }

    /// The first and the last row, where there are few of them, counted from the current one.
    pub(super) fn short(self) -> Option<(i64, i64)> {
        match self {
            Frame::Rows { from: Some(from), to: Some(to) } => {
                (to.checked_sub(from)? < SHORT_ROWS_MAX).then_some((from, to))
            }
            _ => None,
        }
    }

    /// Where the frame of each row of a series begins and ends. Neither ever moves back.
    #[inline]
    pub(super) fn each(self, rows: usize, times: &[i64], mut visit: impl FnMut(usize, usize)) {
        match self {
            Frame::Rows { from, to } => {
                for row in 0..rows {
                    let start = from.map_or(0, |from| place(row, from, rows));
                    let end = to.map_or(rows, |to| place(row, to.saturating_add(1), rows));
                    visit(start, end);
                }
            }
            Frame::Times { from, to } => {
                let (mut start, mut end) = (0, if to.is_none() { rows } else { 0 });
                for time in &times[..rows] {
                    if let Some(from) = from {
                        let first = time.saturating_add(from);
                        while start < rows && times[start] < first {
                            start += 1;
                        }
                    }
                    if let Some(to) = to {
                        let last = time.saturating_add(to);
                        while end < rows && times[end] <= last {
                            end += 1;
                        }
                    }
                    visit(start, end);
                }
            }
        }
    }
}

/// The place `by` rows after `row`, within a series of `rows`.
#[inline]
pub(super) fn place(row: usize, by: i64, rows: usize) -> usize {
    let place = (row as i64).saturating_add(by);
    if place <= 0 { 0 } else { (place as usize).min(rows) }
}

/// How far a bound is from the current row; `Some(None)` where it is open, `None` where it is not known.
#[expect(clippy::option_option, reason = "not known and without end are two things")]
fn bound(of: &WindowFrameBound, size: impl Fn(&ScalarValue) -> Option<i64>) -> Option<Option<i64>> {
    Some(match of {
        WindowFrameBound::CurrentRow => Some(0),
        open if open.is_unbounded() => None,
        WindowFrameBound::Preceding(value) => Some(-size(value)?),
        WindowFrameBound::Following(value) => Some(size(value)?),
    })
}
