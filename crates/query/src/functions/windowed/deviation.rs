//! Variances and deviations over frames that move: folded from the values that are in the frame and no others.
//!
//! DataFusion 55.2 takes a value that leaves out of the sum of squares again. After an outlier rounding errors are left,
//! whose root may be NaN, and a NaN or an infinity never leaves. Here the values before some row are folded from each of
//! them up to there, those after it into one; when the frame has left the former behind, the latter become them: constant
//! time a row, no subtraction. Two folds are one by the formula of Chan, Golub and LeVeque (1979).

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::mem::size_of_val;

/// The accumulator of a function over values of a type; `moves` where values leave the frame, which only grows otherwise
/// and keeps none of them.
pub(super) fn deviation(name: &str, of: &DataType, moves: bool) -> Option<Box<dyn Accumulator>> {
    let (sample, root) = match name {
        "var" => (true, false),
        "var_pop" => (false, false),
        "stddev" => (true, true),
        "stddev_pop" => (false, true),
        _ => return None,
    };
    let front = Moments::default();
    let made = || Deviation { sample, root, moves, backs: Vec::new(), front, after: Vec::new() };
    (*of == DataType::Float64).then(|| Box::new(made()) as _)
}

/// How many values there are, their mean, and the sum of the squares of their distances from it.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(value: f64) -> Self {
        // The distance of a NaN or an infinity from itself is none.
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn join(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + apart * (other.count / count),
            squares: self.squares + other.squares + apart * apart * (self.count * other.count / count),
        }
    }
}

/// See the file's header.
#[derive(Debug)]
struct Deviation {
    sample: bool,
    root: bool,
    moves: bool,
    /// From the last value before the middle back: the folds of the values from there up to it.
    backs: Vec<Moments>,
    /// The fold of the values after the middle.
    front: Moments,
    /// These values, where the frame moves.
    after: Vec<f64>,
}

impl Accumulator for Deviation {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.front = self.front.join(Moments::of(value));
            if self.moves {
                self.after.push(value);
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].null_count();
        for _ in 0..gone {
            if self.backs.is_empty() {
                let mut held = Moments::default();
                for value in self.after.drain(..).rev() {
                    held = Moments::of(value).join(held);
                    self.backs.push(held);
                }
                self.front = Moments::default();
            }
            self.backs.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.moves
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.backs.last().copied().unwrap_or_default().join(self.front);
        let among = if self.sample { all.count - 1.0 } else { all.count };
        let variance = (among > 0.0).then(|| all.squares / among);
        Ok(ScalarValue::Float64(if self.root { variance.map(f64::sqrt) } else { variance }))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.backs.capacity() * size_of::<Moments>()
            + self.after.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        super::no_state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        super::no_state().map(drop)
    }
}
