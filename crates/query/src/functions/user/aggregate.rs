//! Aggregates in plans. What they are of is gathered, or goes into a state a group.

use super::gathered::{GatheredGroups, GatheredRows, Gathering};
use super::stateful::{self, Stateful};
use super::{Body, Function, Planned};
use crate::error::QueryError;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Aggregate(Planned);

/// The function as DataFusion calls it.
pub(super) fn planned(function: &Arc<Function>) -> Arc<AggregateUDF> {
    Arc::new(Aggregate(Planned::new(function)).into())
}

impl Aggregate {
    /// Refuses what the function cannot do.
    fn check(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        let function = &self.0.function;
        let refused = |what: &str, hint: &str| {
            let error = QueryError::request(format!("function '{}' takes no {what}", function.name()));
            Err(DataFusionError::External(Box::new(error.hint(hint))))
        };
        if args.is_distinct {
            return refused("DISTINCT", "aggregate over (SELECT DISTINCT … FROM t)");
        }
        if !args.order_bys.is_empty() && matches!(function.body, Body::State(..)) {
            return refused("ORDER BY", "it takes rows in as they come");
        }
        Ok(())
    }

    fn gathering(&self, args: &AccumulatorArgs<'_>) -> Result<Gathering> {
        self.check(args)?;
        let order = args.order_bys.iter().map(|order| {
            let data_type = order.expr.data_type(args.schema)?;
            Ok((data_type, order.options))
        });
        Ok(Gathering::new(&self.0.function, order.collect::<Result<_>>()?))
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.0.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.function.signature.coerced(types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.0.function.signature.returns().clone())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types = match &self.0.function.body {
            Body::State(types, _) => stateful::state_types(types),
            _ => {
                let order = args.ordering_fields.iter().map(|field| field.data_type());
                let of = self.0.function.signature.parameters().iter().chain(order);
                of.map(super::gathered::list_of).collect()
            }
        };
        let field = |(at, data_type)| {
            Arc::new(Field::new(format_state_name(args.name, &format!("state {at}")), data_type, true))
        };
        Ok(types.into_iter().enumerate().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match &self.0.function.body {
            Body::State(_, begin) => {
                self.check(&args)?;
                Ok(Box::new(Stateful::new(&self.0.function, begin())))
            }
            _ => Ok(Box::new(GatheredRows::new(self.gathering(&args)?))),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(GatheredRows::new(self.gathering(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        matches!(self.0.function.body, Body::Groups(_))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GatheredGroups::new(self.gathering(&args)?)))
    }

    // Rows are put in order when a group is finished, in whatever order they came.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}
