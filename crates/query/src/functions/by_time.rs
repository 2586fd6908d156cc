//! Aggregates over prices in order of time:
//!
//! - `twap(price, ts)`: Σ pᵢ(tᵢ₊₁ − tᵢ) / (tₙ − t₁), each price weighed by how long it stood; the mean where all times
//!   are equal;
//! - `realized_vol(x [, ts])`: √ Σ (ln xᵢ₊₁ − ln xᵢ)², over values that are positive; NULL for fewer than two.
//!
//! Rows where an argument is NULL do not count. Of equal times, rows go in the order in which they come. The time of
//! `realized_vol` is the designated timestamp where it is not written. Memory: 16 bytes a row.

use super::plain::{Plain, PlainState, doubles};
use datafusion::arrow::array::{ArrayRef, AsArray, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::sync::{Arc, LazyLock};

/// The lists of the state.
fn state() -> &'static [(&'static str, DataType)] {
    static STATE: LazyLock<[(&'static str, DataType); 2]> = LazyLock::new(|| {
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        [("times", list(DataType::Int64)), ("values", list(DataType::Float64))]
    });
    &*STATE
}

pub(super) fn twap() -> Plain {
    Plain {
        name: "twap",
        aliases: &[],
        columns: 2,
        state: state(),
        begin: || Box::new(ByTime::new(Measure::Twap)),
    }
}

pub(super) fn realized_vol() -> Plain {
    let begin: fn() -> Box<dyn PlainState> = || Box::new(ByTime::new(Measure::RealizedVol));
    Plain { name: "realized_vol", aliases: &["realized_volatility"], columns: 2, state: state(), begin }
}

#[derive(Debug, Clone, Copy)]
enum Measure {
    Twap,
    RealizedVol,
}

#[derive(Debug)]
struct ByTime {
    measure: Measure,
    rows: Vec<(i64, f64)>,
}

impl ByTime {
    fn new(measure: Measure) -> Self {
        Self { measure, rows: Vec::new() }
    }
}

impl PlainState for ByTime {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        let times = super::first_last::time_values(&values[1])?;
        let rows = doubles(values, 0)?.iter().zip(times.iter());
        self.rows.extend(rows.filter_map(|(value, time)| Some((time?, value?))));
        Ok(())
    }

    fn evaluate(&self) -> Result<ScalarValue> {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|(time, _)| *time);
        let value = match (self.measure, rows.first(), rows.last()) {
            (Measure::Twap, Some((first, _)), Some((last, _))) if first < last => {
                let stood =
                    rows.windows(2).map(|pair| pair[0].1 * (pair[1].0 as i128 - pair[0].0 as i128) as f64);
                Some(stood.sum::<f64>() / (*last as i128 - *first as i128) as f64)
            }
            (Measure::Twap, Some(_), Some(_)) => {
                Some(rows.iter().map(|(_, price)| price).sum::<f64>() / rows.len() as f64)
            }
            (Measure::Twap, ..) => None,
            (Measure::RealizedVol, ..) => {
                let logs: Vec<f64> = rows.iter().filter(|(_, x)| *x > 0.0).map(|(_, x)| x.ln()).collect();
                let squares = logs.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0]));
                (logs.len() > 1).then(|| squares.sum::<f64>().sqrt())
            }
        };
        Ok(ScalarValue::Float64(value))
    }

    fn state(&self) -> Result<Vec<ScalarValue>> {
        let times = self.rows.iter().map(|(time, _)| Some(*time));
        let values = self.rows.iter().map(|(_, value)| Some(*value));
        let times = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(times)]);
        let values = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(values)]);
        Ok(vec![ScalarValue::List(Arc::new(times)), ScalarValue::List(Arc::new(values))])
    }

    fn merge(&mut self, state: &[ScalarValue]) {
        if let [ScalarValue::List(times), ScalarValue::List(values)] = state {
            let (times, values) =
                (times.values().as_primitive::<Int64Type>(), values.values().as_primitive::<Float64Type>());
            self.rows.extend(times.values().iter().copied().zip(values.values().iter().copied()));
        }
    }

    fn size(&self) -> usize {
        self.rows.capacity() * size_of::<(i64, f64)>()
    }
}
