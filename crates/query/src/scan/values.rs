//! Values in the place of placeholders.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{InList, Placeholder};

/// An expression with values in the place of its placeholders; `None` where one has none. In a list a placeholder may
/// stand for any number of them.
pub(crate) fn with_values(
    expr: &Expr,
    values_of: &dyn Fn(&str, &DataType) -> Option<Vec<ScalarValue>>,
) -> Option<Expr> {
    if let Expr::InList(InList { expr, list, negated }) = expr {
        let expr = Box::new(with_values(expr, values_of)?);
        let mut values = Vec::with_capacity(list.len());
        for item in list {
            // A list of a thousand is not worth a walk through each of its leaves.
            match item {
                Expr::Placeholder(Placeholder { id, field: Some(field) }) => values.extend(
                    values_of(id, field.data_type())?.into_iter().map(|value| Expr::Literal(value, None)),
                ),
                item => values.push(with_values(item, values_of)?),
            }
        }
        return Some(Expr::InList(InList { expr, list: values, negated: *negated }));
    }
    let mut all = true;
    let replaced = expr.clone().transform_down(|expr| {
        if let Expr::InList(_) = &expr {
            let bound = with_values(&expr, values_of);
            all &= bound.is_some();
            return Ok(Transformed::new(bound.unwrap_or(expr), true, TreeNodeRecursion::Jump));
        }
        let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
        let values =
            placeholder.field.as_ref().and_then(|field| values_of(&placeholder.id, field.data_type()));
        let value = values.and_then(|values| <[ScalarValue; 1]>::try_from(values).ok());
        all &= value.is_some();
        Ok(match value {
            Some([value]) => Transformed::yes(Expr::Literal(value, None)),
            None => Transformed::no(expr),
        })
    });
    replaced.ok().filter(|_| all).map(|replaced| replaced.data)
}
