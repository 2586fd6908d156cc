//! Aggregates that need all values of a group at once, NULLs left out:
//!
//! - `quantile_disc(x, part)`, also `percentile_disc`: of the values in order the one at ⌈part · n⌉, of any type that has
//!   an order;
//! - `mad(x)`: the median of the distances from the median;
//! - `histogram(x)`: a MAP of each value and how often it comes, in order;
//! - `entropy(x)`: −Σ p · log₂ p over the shares of the distinct values (Shannon, 1948).

use super::quantile::{part, quantile};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StructArray, make_comparator,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, concat, filter, is_not_null, sort, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::cmp::Ordering;
use std::sync::Arc;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    QuantileDisc,
    Mad,
    Histogram,
    Entropy,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Gather {
    of: Of,
    aliases: Vec<String>,
    signature: Signature,
}

impl Gather {
    pub(super) fn all() -> [Self; 4] {
        [
            (Of::QuantileDisc, vec!["percentile_disc".to_string()]),
            (Of::Mad, Vec::new()),
            (Of::Histogram, Vec::new()),
            (Of::Entropy, Vec::new()),
        ]
        .map(|(of, aliases)| Self {
            of,
            aliases,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

/// The pairs of a MAP of values and counts.
fn pairs(of: &DataType) -> Fields {
    let (key, value) = (Field::new("key", of.clone(), false), Field::new("value", DataType::Int64, true));
    vec![key, value].into()
}

impl AggregateUDFImpl for Gather {
    fn name(&self) -> &str {
        match self.of {
            Of::QuantileDisc => "quantile_disc",
            Of::Mad => "mad",
            Of::Histogram => "histogram",
            Of::Entropy => "entropy",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let plain = |of: &DataType| match of {
            DataType::Dictionary(_, value) => value.as_ref().clone(),
            other => other.clone(),
        };
        match (self.of, types) {
            (Of::QuantileDisc, [value, part]) if part.is_numeric() && !value.is_nested() => {
                Ok(vec![plain(value), DataType::Float64])
            }
            (Of::Mad, [value]) if value.is_numeric() || value.is_null() => Ok(vec![DataType::Float64]),
            (Of::Histogram | Of::Entropy, [value]) if !value.is_nested() => Ok(vec![plain(value)]),
            (Of::QuantileDisc, _) => plan_err!("write quantile_disc(x, part), as in quantile_disc(x, 0.9)"),
            (Of::Mad, _) => plan_err!("write mad(x) of a number"),
            _ => plan_err!("write {}(x)", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let value = types.first().cloned().unwrap_or(DataType::Null);
        Ok(match self.of {
            Of::QuantileDisc => value,
            Of::Mad | Of::Entropy => DataType::Float64,
            Of::Histogram => {
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pairs(&value)), false)), false)
            }
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.input_fields.first().map_or(DataType::Null, |field| field.data_type().clone());
        let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "values"), list, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(value) = args.expr_fields.first() else { return plan_err!("{} takes a value", self.name()) };
        let of = self.of;
        let part = if of == Of::QuantileDisc { part(&args)? } else { None };
        let (of_values, gives) = (value.data_type().clone(), args.return_field.data_type().clone());
        Ok(Box::new(Values { of, part, of_values, gives, pieces: Vec::new(), bytes: 0 }))
    }
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    of: Of,
    part: Option<f64>,
    of_values: DataType,
    gives: DataType,
    pieces: Vec<ArrayRef>,
    bytes: usize,
}

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        // A slice would keep, and count, all that it is cut from.
        let kept = filter(values, &is_not_null(values)?)?;
        if !kept.is_empty() {
            self.bytes += kept.get_array_memory_size();
            self.pieces.push(kept);
        }
        Ok(())
    }

    /// All of them in one array; `None` where there are none.
    fn all(&mut self) -> Result<Option<ArrayRef>> {
        if self.pieces.len() > 1 {
            let pieces: Vec<&dyn Array> = self.pieces.iter().map(AsRef::as_ref).collect();
            self.pieces = vec![concat(&pieces)?];
            self.bytes = self.pieces[0].get_array_memory_size();
        }
        Ok(self.pieces.first().cloned())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values.first() {
            Some(values) => self.add(values),
            None => exec_err!("it takes a value"),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let nothing = ScalarValue::try_from(&self.gives)?;
        let Some(values) = self.all()? else {
            // Nothing is in no doubt.
            return Ok(if self.of == Of::Entropy { ScalarValue::Float64(Some(0.0)) } else { nothing });
        };
        match self.of {
            Of::QuantileDisc => {
                let Some(part) = self.part else { return Ok(nothing) };
                let values = sort(&values, None)?;
                let rank = (part * values.len() as f64).ceil().max(1.0) as usize;
                ScalarValue::try_from_array(&values, rank.min(values.len()) - 1)
            }
            Of::Mad => {
                let middle = |mut values: Vec<f64>| {
                    values.sort_unstable_by(f64::total_cmp);
                    quantile(values.len() as u64, 0.5, |rank| values.get(rank as usize).copied())
                };
                let values = values.as_primitive::<Float64Type>().values().to_vec();
                let median = middle(values.clone());
                let distances =
                    median.map(|median| values.into_iter().map(|value| (value - median).abs()).collect());
                Ok(ScalarValue::Float64(distances.and_then(middle)))
            }
            Of::Entropy => {
                let all = values.len() as f64;
                let (_, counts) = counted(&values)?;
                let shares = counts.into_iter().map(|count| count as f64 / all);
                Ok(ScalarValue::Float64(Some(shares.map(|p| -p * p.log2()).sum::<f64>().max(0.0))))
            }
            Of::Histogram => {
                let (keys, counts) = counted(&values)?;
                let fields = pairs(&self.of_values);
                let offsets = OffsetBuffer::from_lengths([keys.len()]);
                let pairs =
                    StructArray::new(fields.clone(), vec![keys, Arc::new(Int64Array::from(counts))], None);
                let entries = Arc::new(Field::new("entries", DataType::Struct(fields), false));
                Ok(ScalarValue::Map(Arc::new(MapArray::new(entries, offsets, pairs, None, false))))
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let field = Arc::new(Field::new_list_field(self.of_values.clone(), true));
        let list = match self.all()? {
            Some(values) => ListArray::new(field, OffsetBuffer::from_lengths([values.len()]), values, None),
            None => ListArray::new_null(field, 1),
        };
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return exec_err!("the state of {:?} is a list", self.of) };
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.add(&values))
    }
}

/// The distinct values in order, and how often each comes.
fn counted(values: &ArrayRef) -> Result<(ArrayRef, Vec<i64>)> {
    let values = sort(values, None)?;
    let compare = make_comparator(&values, &values, SortOptions::default())?;
    let (mut firsts, mut counts): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in 0..values.len() {
        match counts.last_mut() {
            Some(count) if compare(row - 1, row) == Ordering::Equal => *count += 1,
            _ => {
                firsts.push(row as i64);
                counts.push(1);
            }
        }
    }
    Ok((take(&values, &Int64Array::from(firsts), None)?, counts))
}
