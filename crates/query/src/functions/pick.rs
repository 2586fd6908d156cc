//! Aggregates that pick a value of any type:
//!
//! - `arg_min(x, by)`, `arg_max(x, by)`: `x` in the row with the least, the greatest `by`, NULL as it is; rows where
//!   `by` is NULL do not count, NaN is the greatest number, and of equal ones the first row that comes is taken;
//! - `mode(x)`: the value that comes most often, of equally frequent ones the least; NULLs do not count.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pick {
    ArgMin,
    ArgMax,
    Mode,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PickFunction {
    pick: Pick,
    aliases: Vec<String>,
    signature: Signature,
}

impl PickFunction {
    fn new(pick: Pick, arguments: usize, aliases: &[&str]) -> Self {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        Self { pick, aliases, signature: Signature::any(arguments, Volatility::Immutable) }
    }

    pub(super) fn arg_min() -> Self {
        Self::new(Pick::ArgMin, 2, &["min_by"])
    }

    pub(super) fn arg_max() -> Self {
        Self::new(Pick::ArgMax, 2, &["max_by"])
    }

    pub(super) fn mode() -> Self {
        Self::new(Pick::Mode, 1, &[])
    }
}

impl AggregateUDFImpl for PickFunction {
    fn name(&self) -> &str {
        match self.pick {
            Pick::ArgMin => "arg_min",
            Pick::ArgMax => "arg_max",
            Pick::Mode => "mode",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(value) => Ok(value.clone()),
            None => plan_err!("{} takes a value", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name, of| Arc::new(Field::new(format_state_name(args.name, name), of, true));
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        let value = args.return_field.data_type().clone();
        Ok(match (self.pick, args.input_fields) {
            (Pick::Mode, _) => vec![field("values", list(value)), field("counts", list(DataType::Int64))],
            (_, [_, by]) => vec![field("value", value), field("by", by.data_type().clone())],
            _ => return plan_err!("{} takes two arguments", self.name()),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let value_type = args.return_field.data_type().clone();
        Ok(match (self.pick, args.expr_fields) {
            (Pick::Mode, _) => Box::new(Mode {
                counts: HashMap::new(),
                best: None,
                value: ScalarValue::try_from(&value_type)?,
            }),
            (pick, [_, by]) => Box::new(Arg {
                greatest: pick == Pick::ArgMax,
                value: ScalarValue::try_from(&value_type)?,
                by: ScalarValue::try_from(by.data_type())?,
            }),
            _ => return exec_err!("{} takes two arguments", self.name()),
        })
    }
}

#[derive(Debug)]
struct Arg {
    greatest: bool,
    value: ScalarValue,
    /// NULL where no row counted yet.
    by: ScalarValue,
}

impl Accumulator for Arg {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, by] = values else { return exec_err!("it takes two arguments") };
        let nulls = by.logical_nulls();
        let compare = make_comparator(by, by, SortOptions::default())?;
        let wanted = if self.greatest { Ordering::Greater } else { Ordering::Less };
        let counted = (0..by.len()).filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)));
        let best = counted.reduce(|best, row| if compare(row, best) == wanted { row } else { best });
        let Some(best) = best else { return Ok(()) };
        let found = ScalarValue::try_from_array(by, best)?;
        let replaces = self.by.is_null() || {
            let (found, held) = (found.to_array()?, self.by.to_array()?);
            make_comparator(&found, &held, SortOptions::default())?(0, 0) == wanted
        };
        if replaces {
            (self.value, self.by) = (ScalarValue::try_from_array(values, best)?, found);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.by.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.by.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[derive(Debug)]
struct Mode {
    counts: HashMap<ScalarValue, i64>,
    /// Of values that only come the best is the one that it was, or the one that has just come.
    best: Option<i64>,
    /// That which is there as often, of its type where there is none yet.
    value: ScalarValue,
}

impl Mode {
    fn add(&mut self, values: &ArrayRef, count: impl Fn(usize) -> i64) -> Result<()> {
        let nulls = values.logical_nulls();
        for row in 0..values.len() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let value = ScalarValue::try_from_array(values, row)?;
            let entry = self.counts.entry(value.clone()).or_default();
            *entry += count(row);
            let better = match self.best {
                None => true,
                Some(best) if best == *entry => value.partial_cmp(&self.value) == Some(Ordering::Less),
                Some(best) => *entry > best,
            };
            if better {
                (self.best, self.value) = (Some(*entry), value);
            }
        }
        Ok(())
    }
}

impl Accumulator for Mode {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values] => self.add(values, |_| 1),
            _ => exec_err!("mode takes one argument"),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        let values: usize = self.counts.keys().map(ScalarValue::size).sum();
        size_of_val(self) + values + self.counts.capacity() * 8
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<ScalarValue>, Vec<i64>) =
            self.counts.iter().map(|(v, n)| (v.clone(), *n)).unzip();
        let values = ScalarValue::new_list_nullable(&values, &self.value.data_type());
        let counts = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(counts.into_iter().map(Some))]);
        Ok(vec![ScalarValue::List(values), ScalarValue::List(Arc::new(counts))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else { return exec_err!("the state of mode has two parts") };
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                let counts = counts.as_primitive::<Int64Type>();
                self.add(&values, |row| counts.value(row))?;
            }
        }
        Ok(())
    }
}
