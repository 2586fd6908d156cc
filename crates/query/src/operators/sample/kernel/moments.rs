//! stddev, var and corr: of each slice its mean first, then the distances from it, so that no digits are
//! lost to sums of squares; slices are joined as in Chan, Golub and LeVeque, "Algorithms for Computing the
//! Sample Variance" (1983).

use super::{Batch, Kernel, alike, fold, values};
use crate::functions::root_of_product;
use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::error::Result;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Which measure of spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deviation {
    /// The root of the variance.
    pub(super) root: bool,
    /// Of a sample (divided by n - 1), else of the population (by n).
    pub(super) sample: bool,
}

/// Count, mean and sum of squared distances from the mean.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operators) struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    pub(in crate::operators) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = fold::sum(values) / count;
        let (squares, rest) = fold::deviations(values, mean);
        // The mean is rounded: what the distances add up to corrects for it.
        Self { count, mean, squares: squares - rest * rest / count }
    }

    fn join(&mut self, other: Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        self.mean += apart * other.count / count;
        self.squares += other.squares + apart * apart * self.count * other.count / count;
        self.count = count;
    }
}

/// The spreads of a batch's runs, by expression: several aggregates of one column find them once.
#[derive(Debug)]
pub(in super::super) struct Spreads {
    of: RefCell<Vec<Option<Rc<[Spread]>>>>,
}

impl Spreads {
    /// None yet of so many expressions.
    pub(in super::super) fn new(exprs: usize) -> Self {
        Self { of: RefCell::new(vec![None; exprs]) }
    }

    /// Those of the arguments of an aggregate.
    pub(in super::super) fn of<'a>(&'a self, arguments: &'a [usize]) -> Shared<'a> {
        Shared { spreads: self, arguments }
    }
}

/// The spreads of an aggregate's arguments.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Shared<'a> {
    spreads: &'a Spreads,
    arguments: &'a [usize],
}

/// The spreads of one argument, run by run: known ones, or found as they are asked for.
struct Known<'a> {
    values: &'a [f64],
    known: Option<Rc<[Spread]>>,
    at: usize,
    found: Vec<Spread>,
    /// Whether all rows of the runs count: only then are spreads those of the whole column.
    whole: bool,
}

impl<'a> Known<'a> {
    fn new(values: &'a [f64], whole: bool, shared: Shared<'_>, argument: usize) -> Self {
        let place = shared.arguments.get(argument).filter(|_| whole);
        let known = place.and_then(|place| shared.spreads.of.borrow()[*place].clone());
        Self { values, known, at: 0, found: Vec::new(), whole }
    }

    fn next(&mut self, rows: Range<usize>) -> Spread {
        if let Some(known) = &self.known {
            self.at += 1;
            return known[self.at - 1];
        }
        let spread = Spread::of(&self.values[rows]);
        self.found.push(spread);
        spread
    }

    /// Leaves what was found for others.
    fn share(self, shared: Shared<'_>, argument: usize) {
        if let Some(place) = shared.arguments.get(argument).filter(|_| self.whole && self.known.is_none()) {
            shared.spreads.of.borrow_mut()[*place] = Some(self.found.into());
        }
    }
}

/// stddev(x) or var(x).
#[derive(Debug)]
pub(super) struct Moments {
    spreads: Vec<Spread>,
    of: Deviation,
}

impl Moments {
    pub(super) fn new(of: Deviation) -> Self {
        Self { spreads: Vec::new(), of }
    }
}

impl Kernel for Moments {
    fn grow(&mut self, total: usize) {
        self.spreads.resize(total, Spread::default());
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [column] = batch.arguments()?;
        let counted = batch.counted();
        let mut spreads = Known::new(values::<Float64Type>(column)?, counted.is_none(), batch.spreads, 0);
        batch.rows.runs(counted.as_ref(), |group, rows| self.spreads[group].join(spreads.next(rows)));
        spreads.share(batch.spreads, 0);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        for (spread, &group) in alike::<Self>(other)?.spreads.iter().zip(groups) {
            self.spreads[group].join(*spread);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let Deviation { root, sample } = self.of;
        let least = if sample { 2.0 } else { 1.0 };
        let value = |spread: Spread| {
            let divisor = if sample { spread.count - 1.0 } else { spread.count };
            let variance = spread.squares / divisor;
            (spread.count >= least).then(|| if root { variance.sqrt() } else { variance })
        };
        let spreads = std::mem::take(&mut self.spreads).into_iter();
        Ok(Arc::new(spreads.map(value).collect::<Float64Array>()))
    }

    fn size(&self) -> usize {
        self.spreads.capacity() * size_of::<Spread>()
    }
}

/// Two columns and how they move together.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operators) struct Joint {
    y: Spread,
    x: Spread,
    products: f64,
}

impl Joint {
    /// Of one row.
    pub(in crate::operators) fn one(y: f64, x: f64) -> Self {
        let [y, x] = [y, x].map(|mean| Spread { count: 1.0, mean, squares: 0.0 });
        Self { y, x, products: 0.0 }
    }

    pub(in crate::operators) fn of((y, y_spread): (&[f64], Spread), (x, x_spread): (&[f64], Spread)) -> Self {
        let products = fold::product(y, x, (y_spread.mean, x_spread.mean));
        Self { y: y_spread, x: x_spread, products }
    }

    pub(in crate::operators) fn join(&mut self, other: Self) {
        if self.x.count > 0.0 && other.x.count > 0.0 {
            let apart = (other.y.mean - self.y.mean) * (other.x.mean - self.x.mean);
            self.products += apart * self.x.count * other.x.count / (self.x.count + other.x.count);
        }
        self.products += other.products;
        self.y.join(other.y);
        self.x.join(other.x);
    }

    /// How many rows they are.
    pub(in crate::operators) fn rows(&self) -> f64 {
        self.x.count
    }

    /// NULL of fewer rows than it takes: two of a sample, else one.
    pub(in crate::operators) fn covariance(self, sample: bool) -> Option<f64> {
        let (least, divisor) = if sample { (2.0, self.x.count - 1.0) } else { (1.0, self.x.count) };
        (self.x.count >= least).then(|| self.products / divisor)
    }

    /// NULL of fewer than two rows and where one side does not vary, NaN where both sides hold NaN.
    pub(in crate::operators) fn correlation(self) -> Option<f64> {
        if self.y.mean.is_nan() && self.x.mean.is_nan() {
            return Some(f64::NAN);
        }
        let unknown = self.y.mean.is_nan() || self.x.mean.is_nan() || self.x.count < 2.0;
        if unknown || self.y.squares == 0.0 || self.x.squares == 0.0 {
            return None;
        }
        Some(self.products / root_of_product(self.y.squares, self.x.squares))
    }
}

/// corr(y, x).
#[derive(Debug, Default)]
pub(super) struct Comoments {
    joints: Vec<Joint>,
}

impl Kernel for Comoments {
    fn grow(&mut self, total: usize) {
        self.joints.resize(total, Joint::default());
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [y, x] = batch.arguments()?;
        let (y, x) = (values::<Float64Type>(y)?, values::<Float64Type>(x)?);
        let (counted, shared) = (batch.counted(), batch.spreads);
        let mut y_spreads = Known::new(y, counted.is_none(), shared, 0);
        let mut x_spreads = Known::new(x, counted.is_none(), shared, 1);
        batch.rows.runs(counted.as_ref(), |group, rows| {
            let of_y = (&y[rows.clone()], y_spreads.next(rows.clone()));
            let of_x = (&x[rows.clone()], x_spreads.next(rows));
            self.joints[group].join(Joint::of(of_y, of_x));
        });
        y_spreads.share(shared, 0);
        x_spreads.share(shared, 1);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        for (joint, &group) in alike::<Self>(other)?.joints.iter().zip(groups) {
            self.joints[group].join(*joint);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let joints = std::mem::take(&mut self.joints).into_iter();
        Ok(Arc::new(joints.map(Joint::correlation).collect::<Float64Array>()))
    }

    fn size(&self) -> usize {
        self.joints.capacity() * size_of::<Joint>()
    }
}
