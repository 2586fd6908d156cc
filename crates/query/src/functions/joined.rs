//! `||` of texts and bytes as a function, so that what it makes is claimed ([`super::growth`]). It is named and
//! computed as the operator is.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::sync::Arc;

/// `||` of two values of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Joined {
    pub(super) of: DataType,
    signature: Signature,
}

impl Joined {
    pub(super) fn new(of: DataType) -> Self {
        Self { of, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// Whether values of this type are put together.
    pub(super) fn takes(of: &DataType) -> bool {
        of.is_string() || matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    }
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &'static str {
        "||"
    }

    /// As a column with the operator's result is named.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let sides: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(sides.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.of.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let sides = args.args.into_iter().map(|value| -> Arc<dyn PhysicalExpr> {
            match value {
                ColumnarValue::Scalar(value) => Arc::new(Literal::new(value)),
                ColumnarValue::Array(values) => {
                    let place = columns.len();
                    fields.push(Field::new(format!("side_{place}"), values.data_type().clone(), true));
                    columns.push(values);
                    Arc::new(Column::new(fields[place].name(), place))
                }
            }
        });
        let sides: Vec<_> = sides.collect();
        let [left, right] = &sides[..] else { return exec_err!("|| has two sides") };
        let operator = BinaryExpr::new(Arc::clone(left), Operator::StringConcat, Arc::clone(right));
        let (constant, schema) = (columns.is_empty(), Arc::new(Schema::new(fields)));
        let rows = if constant { 1 } else { args.number_rows };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let joined = operator.evaluate(&RecordBatch::try_new_with_options(schema, columns, &options)?)?;
        match joined {
            ColumnarValue::Array(values) if constant => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?))
            }
            joined => Ok(joined),
        }
    }
}
