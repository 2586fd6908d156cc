//! [`handed_on`]: what a function in the place of another one says as that does.

/// Methods of a `ScalarUDFImpl` that give what those of the function in a field give, by their names.
macro_rules! handed_on {
    ($field:tt: $($method:ident),+ $(,)?) => {
        $(handed_on!(@ $field $method);)+
    };
    (@ $field:tt name) => {
        fn name(&self) -> &str {
            self.$field.name()
        }
    };
    (@ $field:tt aliases) => {
        fn aliases(&self) -> &[String] {
            self.$field.aliases()
        }
    };
    (@ $field:tt schema_name) => {
        fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> datafusion::error::Result<String> {
            self.$field.schema_name(args)
        }
    };
    (@ $field:tt signature) => {
        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.$field.signature()
        }
    };
    (@ $field:tt coerce_types) => {
        fn coerce_types(
            &self,
            types: &[datafusion::arrow::datatypes::DataType],
        ) -> datafusion::error::Result<Vec<datafusion::arrow::datatypes::DataType>> {
            self.$field.coerce_types(types)
        }
    };
    (@ $field:tt return_type) => {
        fn return_type(
            &self,
            types: &[datafusion::arrow::datatypes::DataType],
        ) -> datafusion::error::Result<datafusion::arrow::datatypes::DataType> {
            self.$field.return_type(types)
        }
    };
    (@ $field:tt return_field_from_args) => {
        fn return_field_from_args(
            &self,
            args: datafusion::logical_expr::ReturnFieldArgs<'_>,
        ) -> datafusion::error::Result<datafusion::arrow::datatypes::FieldRef> {
            self.$field.return_field_from_args(args)
        }
    };
    (@ $field:tt is_strict) => {
        fn is_strict(&self) -> bool {
            self.$field.inner().is_strict()
        }
    };
    (@ $field:tt simplify) => {
        fn simplify(
            &self,
            args: Vec<datafusion::logical_expr::Expr>,
            info: &datafusion::logical_expr::simplify::SimplifyContext,
        ) -> datafusion::error::Result<datafusion::logical_expr::simplify::ExprSimplifyResult> {
            self.$field.simplify(args, info)
        }
    };
    // What planning believes of its values.
    (@ $field:tt properties) => {
        fn evaluate_bounds(
            &self,
            inputs: &[&datafusion::logical_expr::interval_arithmetic::Interval],
        ) -> datafusion::error::Result<datafusion::logical_expr::interval_arithmetic::Interval> {
            self.$field.evaluate_bounds(inputs)
        }

        fn output_ordering(
            &self,
            inputs: &[datafusion::logical_expr::sort_properties::ExprProperties],
        ) -> datafusion::error::Result<datafusion::logical_expr::sort_properties::SortProperties> {
            self.$field.output_ordering(inputs)
        }

        fn preserves_lex_ordering(
            &self,
            inputs: &[datafusion::logical_expr::sort_properties::ExprProperties],
        ) -> datafusion::error::Result<bool> {
            self.$field.preserves_lex_ordering(inputs)
        }

        fn strictly_order_preserving(
            &self,
            inputs: &[datafusion::logical_expr::sort_properties::ExprProperties],
        ) -> datafusion::error::Result<bool> {
            self.$field.inner().strictly_order_preserving(inputs)
        }
    };
    (@ $field:tt documentation) => {
        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.$field.documentation()
        }
    };
}

pub(super) use handed_on;
