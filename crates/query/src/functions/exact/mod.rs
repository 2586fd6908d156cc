//! Aggregates of doubles that are the same to the last digit however their rows are read: `SET deterministic_sums`.
//!
//! sum, avg, ksum, vwap, and the variances, deviations, covariances, correlation, skewness and kurtosis, which are made
//! of sums. Each sum is exact until it is asked for ([`ExactSum`]), so that neither the order of rows, nor the threads
//! that share them, nor whether they lie in memory or in parts makes a difference; what is computed of the sums is
//! computed once. Products are exact too where they make a spread; those of `vwap` are the doubles that the user would
//! get.
//!
//! [`DeterministicSums`] puts them in the place of the aggregates of a session that asks for them. They have names of
//! their own, `exact_sum`, so that no kernel and no statistics take their place.

mod distinct;
mod rule;
mod sum;

use super::moments::{self, Powers};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use distinct::Distinct;
pub(super) use rule::DeterministicSums;
use std::sync::Arc;
use sum::{ExactSum, product};

/// What is made of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Sum,
    Mean,
    /// Σ x·w / Σ w.
    WeightedMean,
    /// Of a sample where the flag says so, else of all there is.
    Variance(bool),
    Deviation(bool),
    Covariance(bool),
    Correlation,
    Skewness,
    Kurtosis,
}

/// The aggregates that have an exact form: their names, the form's name, and what it is.
const FORMS: [(&str, &str, Made); 13] = [
    ("sum", "exact_sum", Made::Sum),
    ("ksum", "exact_sum", Made::Sum),
    ("avg", "exact_avg", Made::Mean),
    ("vwap", "exact_vwap", Made::WeightedMean),
    ("var", "exact_var", Made::Variance(true)),
    ("var_pop", "exact_var_pop", Made::Variance(false)),
    ("stddev", "exact_stddev", Made::Deviation(true)),
    ("stddev_pop", "exact_stddev_pop", Made::Deviation(false)),
    ("covar_samp", "exact_covar_samp", Made::Covariance(true)),
    ("covar_pop", "exact_covar_pop", Made::Covariance(false)),
    ("corr", "exact_corr", Made::Correlation),
    ("skewness", "exact_skewness", Made::Skewness),
    ("kurtosis", "exact_kurtosis", Made::Kurtosis),
];

/// The exact accumulator of different doubles for the aggregate of this name, where it has one: whatever comes and
/// goes, nothing is left of what is gone.
pub(super) fn distinct(name: &str) -> Option<Box<dyn Accumulator>> {
    let (.., made) = FORMS.iter().find(|(known, form, made)| {
        (*known == name || *form == name) && *known != "ksum" && made.arguments() == 1
    })?;
    Some(Box::new(Distinct::new(State::new(*made))))
}

/// Groups whose states are measured, of all.
const MEASURED_GROUPS: usize = 1_024;

/// The names of the aggregates that `SET deterministic_sums` covers.
#[cfg(test)]
fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(name, ..)| *name)
}

impl Made {
    /// How many arguments it has.
    fn arguments(self) -> usize {
        match self {
            Made::WeightedMean | Made::Covariance(_) | Made::Correlation => 2,
            _ => 1,
        }
    }

    /// How many sums it is made of.
    fn sums(self) -> usize {
        match self {
            Made::Sum | Made::Mean => 1,
            Made::WeightedMean | Made::Variance(_) | Made::Deviation(_) => 2,
            Made::Covariance(_) | Made::Skewness => 3,
            Made::Kurtosis => 4,
            Made::Correlation => 5,
        }
    }
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    name: &'static str,
    made: Made,
    signature: Signature,
}

impl Exact {
    /// The exact form of the aggregate of this name.
    fn of(name: &str) -> Option<Self> {
        let (_, name, made) = FORMS.iter().find(|(known, ..)| *known == name)?;
        let types = vec![DataType::Float64; made.arguments()];
        Some(Self { name, made: *made, signature: Signature::exact(types, Volatility::Immutable) })
    }
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let (name, of) = match args.is_distinct {
            true => ("values", DataType::new_list(DataType::Float64, true)),
            false => ("sums", DataType::Binary),
        };
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, name), of, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let state = State::new(self.made);
        Ok(if args.is_distinct { Box::new(Distinct::new(state)) } else { Box::new(One(state)) })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many { made: self.made, states: Vec::new() }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The sums of one group.
#[derive(Debug, Clone)]
struct State {
    made: Made,
    /// Rows whose arguments are all there.
    count: i64,
    sums: Vec<ExactSum>,
}

impl State {
    fn new(made: Made) -> Self {
        Self { made, count: 0, sums: vec![ExactSum::default(); made.sums()] }
    }

    /// Takes in a row, or takes it away again.
    #[inline]
    fn row(&mut self, x: f64, y: f64, comes: bool) {
        self.count += if comes { 1 } else { -1 };
        let mut put = |at: usize, value: f64| {
            let sum = &mut self.sums[at];
            if comes { sum.add(value) } else { sum.subtract(value) }
        };
        match self.made {
            Made::Sum | Made::Mean => put(0, x),
            Made::WeightedMean => {
                put(0, x * y);
                put(1, y);
            }
            Made::Variance(_) | Made::Deviation(_) => {
                put(0, x);
                product(x, x).into_iter().for_each(|part| put(1, part));
            }
            Made::Skewness | Made::Kurtosis => {
                put(0, x);
                let square = product(x, x);
                square.into_iter().for_each(|part| put(1, part));
                square.into_iter().flat_map(|part| product(part, x)).for_each(|part| put(2, part));
                if self.made == Made::Kurtosis {
                    let fourth = square.into_iter().flat_map(|a| square.map(|b| product(a, b)));
                    fourth.flatten().for_each(|part| put(3, part));
                }
            }
            Made::Covariance(_) => {
                put(0, x);
                put(1, y);
                product(x, y).into_iter().for_each(|part| put(2, part));
            }
            Made::Correlation => {
                put(0, x);
                put(1, y);
                product(x, y).into_iter().for_each(|part| put(2, part));
                product(x, x).into_iter().for_each(|part| put(3, part));
                product(y, y).into_iter().for_each(|part| put(4, part));
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sums.iter_mut().zip(&other.sums).for_each(|(ours, theirs)| ours.merge(theirs));
    }

    /// Σ (a − mean a)(b − mean b), of the sums of a, of b and of a·b: what is left of n·Σab − Σa·Σb is as small as a and
    /// b lie close together, so it is computed exactly. NaN where a sum is not finite.
    fn spread(&self, a: usize, b: usize, products: usize) -> f64 {
        let count = self.count as f64;
        let [Some(a), Some(b), Some(products)] = [a, b, products].map(|at| self.sums[at].parts()) else {
            return f64::NAN;
        };
        let mut spread = ExactSum::default();
        products.iter().flat_map(|part| product(*part, count)).for_each(|part| spread.add(part));
        for a in a {
            b.iter().flat_map(|b| product(a, *b)).for_each(|part| spread.subtract(part));
        }
        spread.value() / count
    }

    /// The sums of the second, third and fourth powers of the distances from the mean; the fourth where it is added up.
    fn powers(&self) -> Powers {
        let n = self.count as f64;
        let parts: Option<Vec<Vec<f64>>> = self.sums.iter().map(ExactSum::parts).collect();
        let Some(parts) = parts else { return Powers::of_sums(n, [f64::NAN; 3]) };
        // n² Σ(x − mean)³ = n² Σx³ − 3n Σx Σx² + 2 (Σx)³
        let third: [(f64, &[&[f64]]); 3] = [
            (1.0, &[&[n], &[n], &parts[2]]),
            (-3.0, &[&[n], &parts[0], &parts[1]]),
            (2.0, &[&parts[0], &parts[0], &parts[0]]),
        ];
        // n³ Σ(x − mean)⁴ = n³ Σx⁴ − 4n² Σx Σx³ + 6n (Σx)² Σx² − 3 (Σx)⁴
        let fourth = parts.get(3).map(|fourths| {
            let terms: [(f64, &[&[f64]]); 4] = [
                (1.0, &[&[n], &[n], &[n], fourths]),
                (-4.0, &[&[n], &[n], &parts[0], &parts[2]]),
                (6.0, &[&[n], &parts[0], &parts[0], &parts[1]]),
                (-3.0, &[&parts[0], &parts[0], &parts[0], &parts[0]]),
            ];
            sum_of_products(&terms) / n / n / n
        });
        let third = sum_of_products(&third) / n / n;
        Powers::of_sums(n, [squares(self.spread(0, 0, 1)), third, fourth.unwrap_or_default()])
    }

    fn evaluate(&self) -> Option<f64> {
        let count = self.count as f64;
        let parts = |sample: bool| if sample { count - 1.0 } else { count };
        let variance =
            |sample: bool| (parts(sample) > 0.0).then(|| squares(self.spread(0, 0, 1)) / parts(sample));
        if self.count == 0 {
            return None;
        }
        match self.made {
            Made::Sum => Some(self.sums[0].value()),
            Made::Mean => Some(self.sums[0].value() / count),
            Made::WeightedMean => {
                let weights = self.sums[1].value();
                (weights != 0.0).then(|| self.sums[0].value() / weights)
            }
            Made::Variance(sample) => variance(sample),
            Made::Deviation(sample) => variance(sample).map(f64::sqrt),
            Made::Covariance(sample) => (parts(sample) > 0.0).then(|| self.spread(0, 1, 2) / parts(sample)),
            Made::Correlation => {
                let spreads = (squares(self.spread(0, 0, 3)), squares(self.spread(1, 1, 4)));
                let defined = self.count > 1 && spreads.0 != 0.0 && spreads.1 != 0.0;
                defined.then(|| self.spread(0, 1, 2) / moments::root_of_product(spreads.0, spreads.1))
            }
            Made::Skewness => moments::skewness(self.powers()),
            Made::Kurtosis => moments::kurtosis(self.powers()),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.iter().map(|sum| size_of_val(sum) + sum.size()).sum::<usize>()
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = self.count.to_le_bytes().to_vec();
        self.sums.iter().for_each(|sum| sum.write(&mut bytes));
        bytes
    }

    fn read(made: Made, bytes: &[u8]) -> Result<Self> {
        let read = || {
            let (count, mut rest) = bytes.split_first_chunk()?;
            let sums = (0..made.sums()).map(|_| ExactSum::read(&mut rest)).collect::<Option<Vec<_>>>()?;
            Some(Self { made, count: i64::from_le_bytes(*count), sums })
        };
        read().ok_or_else(|| exec_datafusion_err!("the state of an exact sum is cut off"))
    }

    /// Takes in the states of an array, each into the one that `place` says.
    fn read_all(made: Made, states: &[ArrayRef], mut place: impl FnMut(usize, &Self)) -> Result<()> {
        let [states] = states else { return exec_err!("an exact sum has a state of one column") };
        let states: &BinaryArray = states.as_binary::<i32>();
        for (row, bytes) in states.iter().enumerate() {
            if let Some(bytes) = bytes {
                place(row, &Self::read(made, bytes)?);
            }
        }
        Ok(())
    }
}

/// A sum of squares, which rounding has not taken below 0; NaN stays.
fn squares(sum: f64) -> f64 {
    if sum < 0.0 { 0.0 } else { sum }
}

/// Products of numbers that are sums of parts, each so many times, added up exactly; NaN where one is not finite.
fn sum_of_products(terms: &[(f64, &[&[f64]])]) -> f64 {
    let mut sum = ExactSum::default();
    for (times, factors) in terms {
        let mut parts = vec![*times];
        for factor in *factors {
            let mut product_of_all = ExactSum::default();
            for (a, b) in parts.iter().flat_map(|a| factor.iter().map(move |b| (*a, *b))) {
                product(a, b).into_iter().for_each(|part| product_of_all.add(part));
            }
            let Some(found) = product_of_all.parts() else { return f64::NAN };
            parts = found;
        }
        parts.into_iter().for_each(|part| sum.add(part));
    }
    sum.value()
}

/// Calls `row` with each row whose arguments are all there: its place, and one or two doubles.
fn each_row(values: &[ArrayRef], mut row: impl FnMut(usize, f64, f64)) -> Result<()> {
    let doubles: Vec<&Float64Array> = values.iter().map(|of| of.as_primitive::<Float64Type>()).collect();
    match doubles.as_slice() {
        [x] if x.null_count() == 0 => x.values().iter().enumerate().for_each(|(at, x)| row(at, *x, 0.0)),
        [x] => x.iter().enumerate().for_each(|(at, x)| {
            if let Some(x) = x {
                row(at, x, 0.0);
            }
        }),
        [x, y] => x.iter().zip(y.iter()).enumerate().for_each(|(at, pair)| {
            if let (Some(x), Some(y)) = pair {
                row(at, x, y);
            }
        }),
        other => return exec_err!("an exact sum has one argument or two, not {}", other.len()),
    }
    Ok(())
}

#[derive(Debug)]
struct One(State);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_row(values, |_, x, y| self.0.row(x, y, true))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_row(values, |_, x, y| self.0.row(x, y, false))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.0.evaluate()))
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.0.write()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        State::read_all(self.0.made, states, |_, state| self.0.merge(state))
    }
}

#[derive(Debug)]
struct Many {
    made: Made,
    states: Vec<State>,
}

impl Many {
    fn grow(&mut self, total: usize) {
        self.states.resize_with(total, || State::new(self.made));
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.grow(total);
        each_row(values, |row, x, y| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                self.states[groups[row]].row(x, y, true);
            }
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = emit_to.take_needed(&mut self.states);
        Ok(Arc::new(states.iter().map(State::evaluate).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = emit_to.take_needed(&mut self.states);
        Ok(vec![Arc::new(states.iter().map(|state| Some(state.write())).collect::<BinaryArray>())])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.grow(total);
        State::read_all(self.made, values, |row, state| self.states[groups[row]].merge(state))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Many { made: self.made, states: Vec::new() };
        let groups: Vec<usize> = (0..values.first().map_or(0, |values| values.len())).collect();
        rows.update_batch(values, &groups, filter, groups.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        // Of many groups some stand for those beside them: this is asked for with each batch.
        let step = self.states.len() / MEASURED_GROUPS + 1;
        size_of_val(self) + step * self.states.iter().step_by(step).map(State::size).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
