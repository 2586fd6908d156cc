//! Functions that tools ask the catalog with. What they do not find is NULL, but for casts to the types of names.
//!
//! Each is a row of a list: its name, how many arguments it takes, what it gives, and a closure over the values of a row.

mod arrays;
mod definitions;
mod names;
mod session;
mod texts;

use super::relation::Relations;
use super::value::{self, Kind, Value};
use super::{Client, Known};
use std::cell::OnceCell;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tickstone_engine::Snapshot;
use tickstone_query::arrow::datatypes::DataType;
use tickstone_query::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use tickstone_query::{DataFusionError, QueryError, SqlState};

/// What a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    One(Kind),
    /// A number for a text, a text for a number: what casts to the types of names give.
    Other,
}

/// What a text may name: what it is called, and what kind of error it is that there is none.
type Named = (&'static str, SqlState);

/// What functions may ask while they go over the rows of a batch.
struct Now<'a> {
    known: &'a Known,
    client: &'a Client,
    relations: OnceCell<Relations>,
}

impl Now<'_> {
    /// The tables of the newest snapshot.
    fn relations(&self) -> &Relations {
        self.relations.get_or_init(|| Relations::of(&self.snapshot(), &self.known.derived))
    }

    /// The newest snapshot, as the client sees it.
    fn snapshot(&self) -> Arc<Snapshot> {
        self.client.snapshot(&self.known.engine)
    }
}

/// A function of the catalog.
#[derive(Debug, Clone)]
struct Function {
    name: &'static str,
    arguments: RangeInclusive<usize>,
    gives: Gives,
    /// What a text must name, where it may not name nothing.
    names: Option<Named>,
    call: fn(&Now<'_>, &[Value]) -> Value,
}

const fn function(
    name: &'static str,
    arguments: RangeInclusive<usize>,
    gives: Kind,
    call: fn(&Now<'_>, &[Value]) -> Value,
) -> Function {
    Function { name, arguments, gives: Gives::One(gives), names: None, call }
}

/// All of them.
pub(super) fn all(known: &Arc<Known>, client: &Arc<Client>) -> Vec<Arc<ScalarUDF>> {
    let lists = [names::all(), definitions::all(), session::all(), texts::all(), arrays::all()];
    let of = |function: Function| {
        let takes: Vec<TypeSignature> = function
            .arguments
            .clone()
            .map(|count| if count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(count) })
            .collect();
        let signature = Signature::one_of(takes, Volatility::Stable);
        let of =
            CatalogFunction { function, signature, known: Arc::clone(known), client: Arc::clone(client) };
        Arc::new(ScalarUDF::from(of))
    };
    lists.into_iter().flatten().map(of).collect()
}

/// One as SQL calls it.
#[derive(Debug)]
struct CatalogFunction {
    function: Function,
    signature: Signature,
    known: Arc<Known>,
    client: Arc<Client>,
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name && Arc::ptr_eq(&self.client, &other.client)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl CatalogFunction {
    fn kind(&self, arguments: &[DataType]) -> Kind {
        let first = arguments.first();
        match self.function.gives {
            Gives::One(kind) => kind,
            Gives::Other if first.is_some_and(DataType::is_integer) => Kind::Text,
            Gives::Other => Kind::Oid,
        }
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.kind(arguments).data_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let is_one =
            !args.args.is_empty() && args.args.iter().all(|of| matches!(of, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let arrays: Vec<_> =
            args.args.iter().map(|of| of.to_array(rows)).collect::<Result<_, DataFusionError>>()?;
        let columns: Vec<Vec<Value>> = arrays.iter().map(value::values).collect::<Result<_, _>>()?;
        let now = Now { known: &self.known, client: &self.client, relations: OnceCell::new() };
        let row = |row: usize| {
            let values: Vec<Value> = columns.iter().map(|column| column[row].clone()).collect();
            let made = (self.function.call)(&now, &values);
            match (self.function.names, &made, values.as_slice()) {
                (Some(named), Value::Null, [Value::Text(name)]) => Err(missing(named, name)),
                (_, Value::Refused { what, hint }, _) => {
                    let error = QueryError::request(what.as_str()).state(SqlState::NotSupported);
                    Err(DataFusionError::External(Box::new(error.hint(*hint))))
                }
                _ => Ok(made),
            }
        };
        let values: Vec<Value> = (0..rows).map(row).collect::<Result<_, _>>()?;
        Ok(ColumnarValue::Array(value::column(self.kind(&types), &values)))
    }
}

fn missing((what, state): Named, name: &str) -> DataFusionError {
    let error = QueryError::request(format!("{what} '{name}' does not exist")).state(state);
    DataFusionError::External(Box::new(error))
}

/// The number that an argument is, or that of the table it names.
fn relation_oid(now: &Now<'_>, value: Option<&Value>) -> Option<u32> {
    match value? {
        Value::Text(name) if name.parse::<u32>().is_err() => Some(now.relations().named(name)?.oid),
        value => u32::try_from(value.int()?).ok(),
    }
}

fn oid(values: &[Value], place: usize) -> Option<u32> {
    u32::try_from(values.get(place)?.int()?).ok()
}

fn text(values: &[Value], place: usize) -> Option<&str> {
    values.get(place)?.text()
}
