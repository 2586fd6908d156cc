//! Text that becomes an array: `'{1.5,2}'::DOUBLE[]`, as PostgreSQL's clients write arrays. Arrow's cast takes the whole
//! text for the one element.

use crate::texts::array_elements;
use datafusion::arrow::array::builder::{ListBuilder, StringBuilder};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TryCast, Volatility,
};
use std::sync::{Arc, LazyLock};

/// Casts of text to arrays as a call that reads it, and a cast of its elements.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn cast_in_words(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (value, to, function) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), &READ),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), &TRY_READ),
        _ => return Ok(Transformed::no(expr)),
    };
    if !matches!(to, DataType::List(_)) || !is_text(&value.get_type(schema)?) {
        return Ok(Transformed::no(expr));
    }
    let read = Box::new(function.call(vec![value.as_ref().clone()]));
    Ok(Transformed::yes(match expr {
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr: read, field }),
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr: read, field }),
        other => other,
    }))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

static READ: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(false));
static TRY_READ: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(true));

fn function(tries: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(ReadArray { tries, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ReadArray {
    /// Whether a text that is no array is NULL.
    tries: bool,
    signature: Signature,
}

impl ScalarUDFImpl for ReadArray {
    fn name(&self) -> &str {
        if self.tries { "__try_array" } else { "__array" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    // Without the call in the name: what a statement calls its columns does not change.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [value] = take_function_args(self.name(), args)?;
        Ok(value.schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [value] = take_function_args(self.name(), args.args)?;
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.into_array(if is_constant { 1 } else { rows })?;
        let made = read(&values, self.tries)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn read(values: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    let texts = cast_array(values, &DataType::Utf8)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for text in texts.as_string::<i32>() {
        match text.map(|text| (text, array_elements(text))) {
            Some((_, Some(elements))) => {
                elements.iter().for_each(|element| lists.values().append_option(element.as_deref()));
                lists.append(true);
            }
            Some((text, None)) if !tries => {
                return Err(plan_datafusion_err!("'{text}' is no array of one dimension"));
            }
            _ => lists.append_null(),
        }
    }
    Ok(Arc::new(lists.finish()))
}
