//! What a long list of literals after IN means (`dialect::long_lists`): a set, where its values are whole numbers and so
//! is what is tested, or both are texts; the list that was written, where it is beside anything else.

use crate::dialect::{Item, items_of_long_list};
use crate::lists::{LONG_LIST, Values, one_of};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, ExprSchemable, lit, not};

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
            Item::Text(text) => lit(unquoted(text)),
        });
        return Ok(Transformed::yes(tested.as_ref().clone().in_list(list.collect(), *negated)));
    };
    let found = one_of(tested.as_ref().clone(), text.unwrap_or_default(), values);
    Ok(Transformed::yes(if *negated { not(found) } else { found }))
}

/// The values as a set, where what is tested is of a type that they have too.
fn set_beside(data_type: &DataType, items: &[Item<'_>]) -> Option<Values> {
    let data_type = match data_type {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let number = |item: &Item<'_>| match item {
        Item::Number(number) => Some(*number),
        Item::Text(_) => None,
    };
    let text = |item: &Item<'_>| match item {
        Item::Text(text) => Some(unquoted(text)),
        Item::Number(_) => None,
    };
    match data_type {
        of if of.is_integer() => Some(Values::Numbers(items.iter().map(number).collect::<Option<_>>()?)),
        of if of.is_string() => Some(Values::Texts(items.iter().map(text).collect::<Option<_>>()?)),
        _ => None,
    }
}

fn unquoted(text: &str) -> String {
    text.replace("''", "'")
}
