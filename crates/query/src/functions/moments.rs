//! `skewness(x)` and `kurtosis(x)` of a sample.
//!
//! With n values and central moments mₖ = Σ(x − mean)ᵏ / n:
//! - skewness: √(n(n − 1)) / (n − 2) · m₃ / m₂^1.5, NULL for fewer than three values;
//! - kurtosis, in excess of the normal one: (n − 1) / ((n − 2)(n − 3)) · ((n + 1)(m₄ / m₂² − 3) + 6), NULL for fewer
//!   than four.
//!
//! NULL where all values are equal. States join as in Pébay, "Formulas for Robust, One-Pass Parallel Computation of
//! Covariances and Arbitrary-Order Statistical Moments" (2008).

use super::plain::{Plain, PlainState, doubles};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

/// The root of a product of two sums of squares, the same in either order: of a column and itself it is the sum.
pub(crate) fn root_of_product(first: f64, second: f64) -> f64 {
    let product = first * second;
    match product.is_normal() {
        true => product.sqrt(),
        // Past the range of doubles.
        false => first.sqrt() * second.sqrt(),
    }
}

const STATE: &[(&str, DataType)] = &[
    ("count", DataType::Float64),
    ("mean", DataType::Float64),
    ("squares", DataType::Float64),
    ("cubes", DataType::Float64),
    ("fourths", DataType::Float64),
];

pub(super) const SKEWNESS: Plain = Plain {
    name: "skewness",
    aliases: &[],
    columns: 1,
    hides_time: false,
    state: STATE,
    begin: || Box::new(Moments { fourth: false, of: Powers::default() }),
};

pub(super) const KURTOSIS: Plain = Plain {
    name: "kurtosis",
    aliases: &[],
    columns: 1,
    hides_time: false,
    state: STATE,
    begin: || Box::new(Moments { fourth: true, of: Powers::default() }),
};

#[derive(Debug)]
struct Moments {
    fourth: bool,
    of: Powers,
}

/// Count, mean, and sums of powers of the distances from the mean.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Powers {
    n: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Powers {
    /// Of one value.
    pub(super) fn one(value: f64) -> Self {
        Self { n: 1.0, mean: value, ..Self::default() }
    }

    /// Of the sums of the second, third and fourth powers of the distances of `n` values from their mean.
    pub(super) fn of_sums(n: f64, [m2, m3, m4]: [f64; 3]) -> Self {
        Self { n, mean: 0.0, m2, m3, m4 }
    }

    pub(super) fn join(self, other: Self) -> Self {
        if self.n == 0.0 || other.n == 0.0 {
            return if self.n == 0.0 { other } else { self };
        }
        let (a, b) = (self, other);
        let (n, d) = (a.n + b.n, b.mean - a.mean);
        let m2 = a.m2 + b.m2 + d * d * a.n * b.n / n;
        let m3 = a.m3
            + b.m3
            + d.powi(3) * a.n * b.n * (a.n - b.n) / (n * n)
            + 3.0 * d * (a.n * b.m2 - b.n * a.m2) / n;
        let m4 = a.m4
            + b.m4
            + d.powi(4) * a.n * b.n * (a.n * a.n - a.n * b.n + b.n * b.n) / n.powi(3)
            + 6.0 * d * d * (a.n * a.n * b.m2 + b.n * b.n * a.m2) / (n * n)
            + 4.0 * d * (a.n * b.m3 - b.n * a.m3) / n;
        Self { n, mean: a.mean + d * b.n / n, m2, m3, m4 }
    }
}

/// The central moments m₂, m₃, m₄ of at least so many values that are not all equal.
fn central(Powers { n, m2, m3, m4, .. }: Powers, least: f64) -> Option<[f64; 3]> {
    // Not `m2 > 0`: NaN is a value.
    (n >= least && m2 != 0.0).then(|| [m2 / n, m3 / n, m4 / n])
}

pub(super) fn skewness(of: Powers) -> Option<f64> {
    let ([m2, m3, _], n) = (central(of, 3.0)?, of.n);
    Some((n * (n - 1.0)).sqrt() / (n - 2.0) * m3 / m2.powf(1.5))
}

pub(super) fn kurtosis(of: Powers) -> Option<f64> {
    let ([m2, _, m4], n) = (central(of, 4.0)?, of.n);
    Some((n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * (m4 / (m2 * m2) - 3.0) + 6.0))
}

impl PlainState for Moments {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(values, 0)?.iter().flatten() {
            self.of = self.of.join(Powers::one(value));
        }
        Ok(())
    }

    fn evaluate(&self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(if self.fourth { kurtosis(self.of) } else { skewness(self.of) }))
    }

    fn state(&self) -> Result<Vec<ScalarValue>> {
        let Powers { n, mean, m2, m3, m4 } = self.of;
        Ok([n, mean, m2, m3, m4].map(ScalarValue::from).to_vec())
    }

    fn merge(&mut self, state: &[ScalarValue]) {
        let of = |at: usize| match state.get(at) {
            Some(ScalarValue::Float64(Some(value))) => *value,
            _ => 0.0,
        };
        let theirs = Powers { n: of(0), mean: of(1), m2: of(2), m3: of(3), m4: of(4) };
        self.of = self.of.join(theirs);
    }
}
