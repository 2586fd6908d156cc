//! TABLESAMPLE as a plan: a condition by chance, or the rows that come first in an order by chance.
//!
//! With REPEATABLE chance is a hash of the seed and of all values of a row: the same rows each time, however they are
//! stored and by whatever cores they are read. Rows that are equal in every column are sampled together then.

use crate::dialect::sample::{Sample, SampleSize};
use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Column, ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The column that rows are chosen by.
const CHANCE: &str = "__chance";

/// Rows that SYSTEM takes or leaves together.
const BLOCK_ROWS: usize = 1024;

/// The rows of a plan that a sample has.
///
/// # Errors
/// Those of the planner.
pub(super) fn plan_sample(input: LogicalPlan, sample: Sample) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let chance = |blocks: bool| match sample.seed {
        Some(seed) => {
            let args = std::iter::once(lit(ScalarValue::UInt64(Some(seed)))).chain(columns.clone());
            ScalarUDF::from(Chance::of_values()).call(args.collect())
        }
        None => ScalarUDF::from(Chance::of_rows(blocks)).call(Vec::new()),
    };
    let builder = LogicalPlanBuilder::from(input);
    match sample.size {
        SampleSize::Rows(share) => builder.filter(chance(false).lt(lit(share)))?.build(),
        SampleSize::Blocks(share) => builder.filter(chance(true).lt(lit(share)))?.build(),
        SampleSize::Count(rows) => {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            // As a column, so that there is one where none of the table's is wanted.
            let with_chance = columns.iter().cloned().chain([chance(false).alias(CHANCE)]);
            let builder = builder.project(with_chance.collect::<Vec<_>>())?;
            let order = vec![Expr::Column(Column::from_name(CHANCE)).sort(true, false)];
            let builder = builder.sort_with_limit(order, Some(rows))?.limit(0, Some(rows))?;
            builder.project(columns.clone())?.build()
        }
    }
}

/// A number from 0 to 1 for each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Chance {
    name: &'static str,
    signature: Signature,
    /// Whether [`BLOCK_ROWS`] rows share one.
    blocks: bool,
    /// Whether it is that of the values.
    repeats: bool,
}

impl Chance {
    fn of_rows(blocks: bool) -> Self {
        let name = if blocks { "chance_of_block" } else { "chance_of_row" };
        Self { name, signature: Signature::nullary(Volatility::Volatile), blocks, repeats: false }
    }

    fn of_values() -> Self {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Self { name: "chance_of_values", signature, blocks: false, repeats: true }
    }
}

impl ScalarUDFImpl for Chance {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let chances: Vec<f64> = if self.repeats {
            let mut args = args.args.into_iter();
            let Some(ColumnarValue::Scalar(ScalarValue::UInt64(Some(seed)))) = args.next() else {
                return exec_err!("a sample has a seed");
            };
            let columns = args.map(|column| column.into_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
            of_values(seed, &columns, rows)?
        } else {
            let mut random = Random::default();
            let step = if self.blocks { BLOCK_ROWS } else { 1 };
            let each = (0..rows.div_ceil(step)).flat_map(|_| std::iter::repeat_n(random.next(), step));
            each.take(rows).collect()
        };
        Ok(ColumnarValue::Array(Arc::new(Float64Array::from(chances))))
    }
}

fn of_values(seed: u64, columns: &[ArrayRef], rows: usize) -> Result<Vec<f64>> {
    let mut hashes = vec![0; rows];
    create_hashes(columns, &RandomState::with_seed(seed), &mut hashes)?;
    Ok(hashes.into_iter().map(|hash| unit(mixed(hash ^ mixed(seed)))).collect())
}

/// The upper bits of a number as one from 0 to 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Spreads the bits of a number (SplitMix64).
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers by chance, other ones in each batch.
struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        // Keys of hash maps are by chance; Relaxed: the counter guards nothing but itself.
        let keys = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            BATCHES.fetch_add(1, Ordering::Relaxed),
        );
        Self(keys)
    }
}

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        unit(mixed(self.0))
    }
}
