//! What a long list of literals after IN means (`dialect::long_lists`): a set, where its values are numbers and so is what
//! is tested, or both are texts; the list that was written, where it is beside anything else.

use crate::dialect::{Item, items_of_long_list, kept_as};
use crate::functions::exact_units;
use crate::lists::{LONG_LIST, Values, bits, one_of};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit, not};

/// See the file's header.
///
/// # Errors
/// Where the list is none.
pub(crate) fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr: tested, list, negated }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let [Expr::ScalarFunction(written)] = list.as_slice() else { return Ok(Transformed::no(expr)) };
    if written.name() != LONG_LIST {
        return Ok(Transformed::no(expr));
    }
    let text = written.args.first().and_then(Expr::as_literal).and_then(|text| text.try_as_str().flatten());
    let Some(items) = text.and_then(items_of_long_list) else {
        return plan_err!("{LONG_LIST} takes the text of a list");
    };
    let data_type = tested.get_type(schema)?;
    let Some(values) = set_beside(&data_type, &items) else {
        let list = items.iter().map(|item| match item {
            Item::Number(number) => lit(*number),
            Item::Fraction(text) => match kept_as(text) {
                Some((precision, scale)) if precision > DECIMAL128_MAX_PRECISION => {
                    cast(lit(*text), DataType::Decimal256(precision, scale))
                }
                Some((precision, scale)) => cast(lit(*text), DataType::Decimal128(precision, scale)),
                None => lit(double(text)),
            },
            Item::Text(text) => lit(unquoted(text)),
        });
        return Ok(Transformed::yes(tested.as_ref().clone().in_list(list.collect(), *negated)));
    };
    let found = one_of(tested.as_ref().clone(), text.unwrap_or_default(), values);
    Ok(Transformed::yes(if *negated { not(found) } else { found }))
}

/// The values as a set, where what is tested is of a type that they have too. A number that is no value of the type
/// equals none of them.
fn set_beside(data_type: &DataType, items: &[Item<'_>]) -> Option<Values> {
    let data_type = match data_type {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    if items.iter().any(|item| matches!(item, Item::Text(_))) {
        let texts = items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(unquoted(text)),
            Item::Number(_) | Item::Fraction(_) => None,
        });
        return data_type.is_string().then(|| Values::Texts(texts.collect()));
    }
    // The number in units of the last of so many digits after the point.
    let units = |item: &Item<'_>, scale: i8| match item {
        Item::Number(number) => exact_units(&number.to_string(), scale),
        Item::Fraction(text) | Item::Text(text) => exact_units(text, scale),
    };
    Some(match data_type {
        of if of.is_integer() => Values::Numbers(
            items
                .iter()
                .filter_map(|item| match item {
                    Item::Number(number) => Some(*number),
                    other => units(other, 0)?.try_into().ok(),
                })
                .collect(),
        ),
        DataType::Float64 => Values::Doubles(
            items
                .iter()
                .map(|item| match item {
                    Item::Number(number) => bits(*number as f64),
                    Item::Fraction(text) | Item::Text(text) => bits(double(text)),
                })
                .collect(),
        ),
        DataType::Decimal128(precision, scale) => {
            let most = 10_u128.pow((*precision).into());
            let of_the_type = |units: &i128| units.unsigned_abs() < most;
            let values = items.iter().filter_map(|item| units(item, *scale)).filter(of_the_type);
            Values::Decimals(values.collect())
        }
        _ => return None,
    })
}

/// The double that is nearest to a number with a point.
fn double(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

fn unquoted(text: &str) -> String {
    text.replace("''", "'")
}
