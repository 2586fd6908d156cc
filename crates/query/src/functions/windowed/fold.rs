//! Sums, means, variances, correlations and regressions of doubles over frames that move: folded from the rows that are
//! in the frame and no others.
//!
//! DataFusion 55.2 takes a row that leaves out of its sums again. After an outlier rounding errors are left, of a sum of
//! squares such that its root may be NaN, and a NaN or an infinity never leaves. Here the rows before some row are folded
//! from each of them up to there, those after it into one; when the frame has left the former behind, the latter become
//! them: constant time a row, no subtraction.
//!
//! Windows by series fold the frames of all rows at once ([`Foldable::over`]).

use crate::functions::moments::{self, Powers};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Float64Builder};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::fmt::{self, Debug};
use std::mem::size_of_val;
use std::ops::Range;
use std::sync::Arc;

/// The accumulator of a function over arguments of these types; `moves` where rows leave the frame, which only grows
/// otherwise and keeps none of them. `None` where the function's own is as good.
pub(super) fn folding(name: &str, of: &[&DataType], moves: bool) -> Option<Box<dyn Accumulator>> {
    let function = foldable(name, of)?;
    (moves || !function.is_as_good_growing()).then(|| function.accumulator(moves))
}

/// A function over arguments of these types as folds of frames; `None` where it has none.
pub(super) fn foldable(name: &str, of: &[&DataType]) -> Option<Arc<dyn Foldable>> {
    if of.iter().any(|of| **of != DataType::Float64) {
        return None;
    }
    match of.len() {
        1 => of_values(name),
        2 => of_pairs(name),
        _ => None,
    }
}

fn of_values(name: &str) -> Option<Arc<dyn Foldable>> {
    Some(match name {
        "sum" => Finish::growing(Total::sum),
        "avg" => Finish::growing(|all: Total| all.part(all.count)),
        "var" => Finish::of(|all: Moments| all.variance(1.0)),
        "var_pop" => Finish::of(|all: Moments| all.variance(0.0)),
        "stddev" => Finish::of(|all: Moments| all.variance(1.0).map(f64::sqrt)),
        "stddev_pop" => Finish::of(|all: Moments| all.variance(0.0).map(f64::sqrt)),
        "skewness" => Finish::growing(moments::skewness),
        "kurtosis" => Finish::growing(moments::kurtosis),
        _ => return None,
    })
}

fn of_pairs(name: &str) -> Option<Arc<dyn Foldable>> {
    let finish: fn(Spread) -> Option<f64> = match name {
        "vwap" => return Some(Finish::growing(Weighted::mean)),
        "covar_samp" => |all| all.covariance(true),
        "covar_pop" => |all| all.covariance(false),
        "corr" => Spread::correlation,
        "regr_slope" => Spread::slope,
        "regr_intercept" => |all| Some(all.means[0] - all.slope()? * all.means[1]),
        "regr_r2" => |all| {
            let [y, x] = all.squares;
            let r2 = if y == 0.0 { 1.0 } else { all.joint * all.joint / (x * y) };
            (all.count > 1.0 && x != 0.0).then_some(r2)
        },
        "regr_avgy" => |all| all.some(all.means[0]),
        "regr_avgx" => |all| all.some(all.means[1]),
        "regr_syy" => |all| all.some(all.squares[0]),
        "regr_sxx" => |all| all.some(all.squares[1]),
        "regr_sxy" => |all| all.some(all.joint),
        _ => return None,
    };
    Some(Finish::of(finish))
}

/// A function of what the rows of a frame are folded into.
pub(super) trait Foldable: Send + Sync {
    /// Whether the function's own accumulator is as good for frames that only grow.
    fn is_as_good_growing(&self) -> bool;

    fn accumulator(&self, moves: bool) -> Box<dyn Accumulator>;

    /// See [`super::Framed::over`].
    fn over(&self, values: &[ArrayRef], frames: super::Frames<'_>) -> Result<ArrayRef>;
}

struct Finish<F> {
    finish: fn(F) -> Option<f64>,
    as_good_growing: bool,
}

impl<F: Fold> Finish<F> {
    fn of(finish: fn(F) -> Option<f64>) -> Arc<dyn Foldable> {
        Arc::new(Self { finish, as_good_growing: false })
    }

    fn growing(finish: fn(F) -> Option<f64>) -> Arc<dyn Foldable> {
        Arc::new(Self { finish, as_good_growing: true })
    }
}

impl<F: Fold> Foldable for Finish<F> {
    fn is_as_good_growing(&self) -> bool {
        self.as_good_growing
    }

    fn accumulator(&self, moves: bool) -> Box<dyn Accumulator> {
        Folding::boxed(moves, self.finish)
    }

    fn over(&self, values: &[ArrayRef], frames: super::Frames<'_>) -> Result<ArrayRef> {
        let mut rows: Vec<F> = Vec::with_capacity(values.first().map_or(0, |values| values.len()));
        F::each(values, |row| rows.push(row.map(F::of).unwrap_or_default()))?;
        let mut found = Float64Builder::with_capacity(rows.len());
        // As in `Folding`: the folds back from the row before `middle`, and that of the rows from there to `end`.
        let (mut backs, mut front): (Vec<F>, F) = (Vec::new(), F::default());
        let (mut middle, mut end) = (0, 0);
        frames(&mut |frame: Range<usize>| {
            if frame.start >= end {
                // A frame that has nothing of the one before.
                backs.clear();
                front = F::default();
                (middle, end) = (frame.start, frame.start);
            }
            for row in &rows[end..frame.end.max(end)] {
                front = front.join(*row);
            }
            end = end.max(frame.end);
            if frame.start > middle {
                backs.clear();
                let mut held = F::default();
                for row in rows[frame.start..end].iter().rev() {
                    held = row.join(held);
                    backs.push(held);
                }
                (middle, front) = (end, F::default());
            }
            let back = (middle - frame.start).checked_sub(1).map(|at| backs[at]);
            let all = back.map_or(front, |back| back.join(front));
            found.append_option(if frame.is_empty() {
                (self.finish)(F::default())
            } else {
                (self.finish)(all)
            });
        });
        Ok(Arc::new(found.finish()))
    }
}

/// What rows are folded into; the default is the fold of none.
pub(in crate::functions) trait Fold:
    Debug + Clone + Copy + Default + Send + Sync + 'static
{
    /// The arguments of a row.
    type Row: Debug + Clone + Copy + Send + Sync;

    fn of(row: Self::Row) -> Self;

    fn join(self, later: Self) -> Self;

    /// The rows, `None` where an argument is not there.
    fn each(values: &[ArrayRef], each: impl FnMut(Option<Self::Row>)) -> Result<()>;
}

fn doubles(values: &[ArrayRef], at: usize) -> Result<&Float64Array> {
    match values.get(at).and_then(|values| values.as_primitive_opt::<Float64Type>()) {
        Some(values) => Ok(values),
        None => internal_err!("argument {at} of a window function is no double"),
    }
}

fn each_value(values: &[ArrayRef], each: impl FnMut(Option<f64>)) -> Result<()> {
    doubles(values, 0)?.iter().for_each(each);
    Ok(())
}

fn each_pair(values: &[ArrayRef], each: impl FnMut(Option<[f64; 2]>)) -> Result<()> {
    let pairs = doubles(values, 0)?.iter().zip(doubles(values, 1)?);
    pairs.map(|(first, second)| Some([first?, second?])).for_each(each);
    Ok(())
}

/// The sum of values, and how many they are.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: f64,
    sum: f64,
}

impl Total {
    fn sum(self) -> Option<f64> {
        self.part(1.0)
    }

    fn part(self, of: f64) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / of)
    }
}

impl Fold for Total {
    type Row = f64;

    fn of(value: f64) -> Self {
        Self { count: 1.0, sum: value }
    }

    fn join(self, later: Self) -> Self {
        Self { count: self.count + later.count, sum: self.sum + later.sum }
    }

    fn each(values: &[ArrayRef], each: impl FnMut(Option<f64>)) -> Result<()> {
        each_value(values, each)
    }
}

/// Σ x·w and Σ w.
#[derive(Debug, Clone, Copy, Default)]
struct Weighted {
    products: f64,
    weights: f64,
}

impl Weighted {
    fn mean(self) -> Option<f64> {
        (self.weights != 0.0).then(|| self.products / self.weights)
    }
}

impl Fold for Weighted {
    type Row = [f64; 2];

    fn of([value, weight]: [f64; 2]) -> Self {
        Self { products: value * weight, weights: weight }
    }

    fn join(self, later: Self) -> Self {
        Self { products: self.products + later.products, weights: self.weights + later.weights }
    }

    fn each(values: &[ArrayRef], each: impl FnMut(Option<[f64; 2]>)) -> Result<()> {
        each_pair(values, each)
    }
}

/// What a value is away from itself: a NaN or an infinity is no distance from anything.
fn apart_from_itself(value: f64) -> f64 {
    if value.is_finite() { 0.0 } else { f64::NAN }
}

/// How many values there are, their mean, and the sum of the squares of their distances from it. Two of them are one by
/// the formula of Chan, Golub and LeVeque (1979).
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The variance; `less` is how many degrees of freedom are gone.
    fn variance(self, less: f64) -> Option<f64> {
        let among = self.count - less;
        (among > 0.0).then(|| self.squares / among)
    }
}

impl Fold for Moments {
    type Row = f64;

    fn of(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: apart_from_itself(value) }
    }

    fn join(self, later: Self) -> Self {
        if self.count == 0.0 || later.count == 0.0 {
            return if self.count == 0.0 { later } else { self };
        }
        let count = self.count + later.count;
        let apart = later.mean - self.mean;
        Self {
            count,
            mean: self.mean + apart * (later.count / count),
            squares: self.squares + later.squares + apart * apart * (self.count * later.count / count),
        }
    }

    fn each(values: &[ArrayRef], each: impl FnMut(Option<f64>)) -> Result<()> {
        each_value(values, each)
    }
}

impl Fold for Powers {
    type Row = f64;

    fn of(value: f64) -> Self {
        Powers::one(value)
    }

    fn join(self, later: Self) -> Self {
        Powers::join(self, later)
    }

    fn each(values: &[ArrayRef], each: impl FnMut(Option<f64>)) -> Result<()> {
        each_value(values, each)
    }
}

/// [`Moments`] of two arguments, and the sum of the products of their distances.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::functions) struct Spread {
    count: f64,
    means: [f64; 2],
    squares: [f64; 2],
    joint: f64,
}

impl Spread {
    fn some(self, value: f64) -> Option<f64> {
        (self.count > 0.0).then_some(value)
    }

    /// A sum by the count, of which so many degrees of freedom are gone.
    fn among(self, sum: f64, less: f64) -> Option<f64> {
        let among = self.count - less;
        (among > 0.0).then(|| sum / among)
    }

    fn slope(self) -> Option<f64> {
        (self.count > 1.0 && self.squares[1] != 0.0).then(|| self.joint / self.squares[1])
    }

    /// NULL of fewer rows than it takes: two of a sample, else one.
    pub(in crate::functions) fn covariance(self, sample: bool) -> Option<f64> {
        self.among(self.joint, if sample { 1.0 } else { 0.0 })
    }

    /// All its numbers, for [`Self::of_parts`].
    pub(in crate::functions) fn parts(self) -> [f64; 6] {
        let Self { count, means, squares, joint } = self;
        [count, means[0], means[1], squares[0], squares[1], joint]
    }

    pub(in crate::functions) fn of_parts([count, y, x, y_squares, x_squares, joint]: [f64; 6]) -> Self {
        Self { count, means: [y, x], squares: [y_squares, x_squares], joint }
    }

    /// NaN of two that are NaN, NULL of one.
    pub(in crate::functions) fn correlation(self) -> Option<f64> {
        match self.means.map(f64::is_nan) {
            [true, true] => return Some(f64::NAN),
            [false, false] if self.count > 1.0 => {}
            _ => return None,
        }
        let [first, second] = self.squares;
        (first != 0.0 && second != 0.0).then(|| self.joint / moments::root_of_product(first, second))
    }
}

impl Fold for Spread {
    type Row = [f64; 2];

    fn of(row: [f64; 2]) -> Self {
        let squares = row.map(apart_from_itself);
        Self { count: 1.0, means: row, squares, joint: squares[0] + squares[1] }
    }

    fn join(self, later: Self) -> Self {
        if self.count == 0.0 || later.count == 0.0 {
            return if self.count == 0.0 { later } else { self };
        }
        let count = self.count + later.count;
        let apart = [later.means[0] - self.means[0], later.means[1] - self.means[1]];
        let (share, both) = (later.count / count, self.count * later.count / count);
        let mean = |at: usize| self.means[at] + apart[at] * share;
        let squares = |at: usize| self.squares[at] + later.squares[at] + apart[at] * apart[at] * both;
        Self {
            count,
            means: [mean(0), mean(1)],
            squares: [squares(0), squares(1)],
            joint: self.joint + later.joint + apart[0] * apart[1] * both,
        }
    }

    fn each(values: &[ArrayRef], each: impl FnMut(Option<[f64; 2]>)) -> Result<()> {
        each_pair(values, each)
    }
}

/// See the file's header.
struct Folding<F: Fold> {
    finish: fn(F) -> Option<f64>,
    moves: bool,
    /// From the last row before the middle back: the folds of the rows from there up to it.
    backs: Vec<F>,
    /// The fold of the rows after the middle.
    front: F,
    /// These rows, where the frame moves.
    after: Vec<F::Row>,
}

impl<F: Fold> Folding<F> {
    fn boxed(moves: bool, finish: fn(F) -> Option<f64>) -> Box<dyn Accumulator> {
        Box::new(Self { finish, moves, backs: Vec::new(), front: F::default(), after: Vec::new() })
    }
}

impl<F: Fold> Debug for Folding<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folding({} and {} rows, {:?})", self.backs.len(), self.after.len(), self.front)
    }
}

impl<F: Fold> Accumulator for Folding<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        F::each(values, |row| {
            let Some(row) = row else { return };
            self.front = self.front.join(F::of(row));
            if self.moves {
                self.after.push(row);
            }
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        F::each(values, |row| {
            if row.is_none() {
                return;
            }
            if self.backs.is_empty() {
                let mut held = F::default();
                for row in self.after.drain(..).rev() {
                    held = F::of(row).join(held);
                    self.backs.push(held);
                }
                self.front = F::default();
            }
            self.backs.pop();
        })
    }

    fn supports_retract_batch(&self) -> bool {
        self.moves
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.backs.last().copied().unwrap_or_default().join(self.front);
        Ok(ScalarValue::Float64((self.finish)(all)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.backs.capacity() * size_of::<F>()
            + self.after.capacity() * size_of::<F::Row>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        super::no_state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        super::no_state().map(drop)
    }
}
