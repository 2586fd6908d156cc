//! TABLESAMPLE: how much of a table a query reads.
//!
//! ```text
//! t TABLESAMPLE (10 PERCENT)             each row by itself, a tenth of them on average; BERNOULLI, ROW: the same
//! t TABLESAMPLE SYSTEM (10 PERCENT)      each block of rows by itself; BLOCK: the same
//! t TABLESAMPLE (1000 ROWS)              as many rows, each with the same chance; RESERVOIR: the same
//! … REPEATABLE (7)                       the same rows each time, while the table has the same
//! ```

use super::SqlError;
use super::cursor::{Result, is_word};
use super::marker::place;
use sqlparser::ast::{
    Expr, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier,
    TableSampleQuantity, TableSampleUnit, Value,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What to write.
const HINT: &str = "write TABLESAMPLE (10 PERCENT), TABLESAMPLE SYSTEM (10 PERCENT) or TABLESAMPLE (1000 ROWS), then REPEATABLE (1) for the same rows each time";

/// A part of a table, by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// How much of it.
    pub(crate) size: SampleSize,
    /// Which rows these are, where it is always the same.
    pub(crate) seed: Option<u64>,
}

/// How much of a table is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SampleSize {
    /// Each row with this chance, 0 to 1.
    Rows(f64),
    /// Each block of rows with this chance, 0 to 1.
    Blocks(f64),
    /// So many rows.
    Count(u64),
}

impl Sample {
    /// Takes the sample off a table factor; `None` where it has none.
    ///
    /// # Errors
    /// [`SqlError`] where it is none of the forms above.
    pub(crate) fn take(factor: &mut TableFactor) -> Result<Option<Self>> {
        let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = factor else {
            return Ok(None);
        };
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample.take()
        else {
            return Ok(None);
        };
        Self::of(&sample).map(Some)
    }

    fn of(sample: &TableSample) -> Result<Self> {
        let Some(TableSampleQuantity { value, unit, .. }) = &sample.quantity else {
            return Err(SqlError::new("TABLESAMPLE needs a size", Default::default()).hint(HINT));
        };
        let wrong = |message: &str| SqlError::new(message.to_string(), place(value)).hint(HINT);
        let size = number(value).ok_or_else(|| wrong("the size of a sample is a number"))?;
        let blocks = matches!(sample.name, Some(TableSampleMethod::System | TableSampleMethod::Block));
        // SAMPLE 0.1 is a fraction of the rows.
        let fraction =
            matches!(sample.modifier, TableSampleModifier::Sample) && size < 1.0 && sample.name.is_none();
        let share = match unit {
            Some(TableSampleUnit::Rows) if sample.name.is_some() => {
                return Err(wrong("a sample of so many ROWS takes no method"));
            }
            Some(TableSampleUnit::Rows) if size < 0.0 || size.fract() != 0.0 || size > 1e15 => {
                return Err(wrong("so many ROWS are a whole number, not negative"));
            }
            Some(TableSampleUnit::Rows) => None,
            None if fraction => Some(size),
            None if sample.name.is_none() => {
                return Err(wrong("the size of a sample is in PERCENT or in ROWS"));
            }
            Some(TableSampleUnit::Percent) | None => Some(size / 100.0),
        };
        let seed = match &sample.seed {
            None => None,
            Some(seed) => Some(
                whole(&seed.value.value).ok_or_else(|| wrong("the seed of a sample is a whole number"))?,
            ),
        };
        let size = match share {
            None => SampleSize::Count(size as u64),
            Some(share) if !(0.0..=1.0).contains(&share) => {
                return Err(wrong("a sample is of 0 to 100 PERCENT"));
            }
            Some(share) if blocks => SampleSize::Blocks(share),
            Some(share) => SampleSize::Rows(share),
        };
        if matches!(size, SampleSize::Blocks(_)) && seed.is_some() {
            let error = wrong("a sample by SYSTEM or BLOCK cannot be REPEATABLE");
            return Err(error.hint("leave out SYSTEM: a sample by rows can be, and reads as much"));
        }
        Ok(Self { size, seed })
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(digits, _) => digits.parse().ok(),
        _ => None,
    }
}

/// `RESERVOIR (5 ROWS)` and `10%`, which the parser does not know, as `(5 ROWS)` and `10 PERCENT`.
pub(super) fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    let begins =
        |token: &TokenWithSpan| is_word(&token.token, "TABLESAMPLE") || is_word(&token.token, "SAMPLE");
    if !tokens.iter().any(begins) {
        return;
    }
    let mut since = usize::MAX;
    tokens.retain_mut(|token| {
        since = if begins(token) { 0 } else { since.saturating_add(1) };
        if token.token == Token::Mod && since <= 4 {
            token.token = Token::make_keyword("PERCENT");
        }
        since != 1 || !is_word(&token.token, "RESERVOIR")
    });
}
