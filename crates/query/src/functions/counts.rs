//! Whole numbers of every type where a function takes places and lengths: `substr(name, i)` of a SMALLINT, `left(name, n)`
//! of a BIGINT UNSIGNED.
//!
//! DataFusion 55.2 takes a BIGINT there, `substr` an INT besides, and no BIGINT UNSIGNED. Here they are cast to BIGINT: one
//! that is too large is an error. `substring(x FROM 2 FOR 3)` and `overlay(…)` come here by [`PlacesInTexts`].

use super::growth;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::core::overlay;
use datafusion::functions::unicode::substr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature,
};
use std::ops::Range;
use std::sync::Arc;

/// Functions, and which of their arguments count.
const COUNTING: [(&str, Range<usize>); 12] = [
    ("chr", 0..1),
    ("factorial", 0..1),
    ("from_unixtime", 0..1),
    ("left", 1..2),
    ("lpad", 1..2),
    ("overlay", 2..4),
    ("regexp_count", 2..3),
    ("regexp_instr", 2..4),
    ("right", 1..2),
    ("rpad", 1..2),
    ("substr", 1..3),
    ("substr_index", 2..3),
];

/// The functions as they are, those of this file with whole numbers of every type.
pub(super) fn of_any_type(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    functions.into_iter().map(counting).collect()
}

fn counting(inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match COUNTING.iter().find(|(name, _)| *name == inner.name()) {
        Some((_, counts)) => {
            let signature = Signature::user_defined(inner.signature().volatility);
            Arc::new(ScalarUDF::from(Counting { inner, counts: counts.clone(), signature }))
        }
        None => inner,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Counting {
    inner: Arc<ScalarUDF>,
    counts: Range<usize>,
    signature: Signature,
}

impl ScalarUDFImpl for Counting {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let counted = |(at, of): (usize, &DataType)| match self.counts.contains(&at) && of.is_integer() {
            true => DataType::Int64,
            false => of.clone(),
        };
        let fields = types.iter().enumerate().map(counted).map(|of| Arc::new(Field::new("", of, true)));
        match fields_with_udf(&fields.collect::<Vec<_>>(), self.inner.as_ref()) {
            Ok(fields) => Ok(fields.iter().map(|field| field.data_type().clone()).collect()),
            Err(_) => plan_err!("it takes {}", taken(&self.inner)),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}

/// The arguments that a function takes, as messages have them.
fn taken(function: &ScalarUDF) -> String {
    let signature = function.signature();
    let names = signature.parameter_names.as_deref();
    let forms = match &signature.type_signature {
        TypeSignature::OneOf(forms) => {
            forms.iter().flat_map(|of| of.to_string_repr_with_names(names)).collect()
        }
        one => one.to_string_repr_with_names(names),
    };
    let forms: Vec<String> = forms.iter().map(|of| format!("{}({of})", function.name())).collect();
    forms.join(" or ")
}

/// Plans `substring(x FROM 2 FOR 3)` and `overlay(x PLACING y FROM 2)` as calls of the functions of this file.
#[derive(Debug)]
pub(crate) struct PlacesInTexts;

impl ExprPlanner for PlacesInTexts {
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(counting(substr()).call(args)))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let planned = growth::claiming(vec![counting(overlay())]).into_iter().next();
        Ok(planned.map_or(PlannerResult::Original(args.clone()), |of| PlannerResult::Planned(of.call(args))))
    }
}
