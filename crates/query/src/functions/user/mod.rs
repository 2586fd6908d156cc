//! Functions of the user's own: Rust closures over Arrow arrays under a name that SQL knows.
//!
//! Owns what a [`Function`] is ([`signature`]: its types and what they are taken from), how it is called and what it
//! gives is checked ([`call`]), its place in plans as scalar, window function or aggregate ([`scalar`], [`window`],
//! [`aggregate`]), and which there are ([`registry`]). Never knows Python: the package hands in closures.
//!
//! ```text
//! Database::create_function -> registry -> each session's state, at its next statement -> plans
//! ```
//!
//! They are of the open database and of all its sessions; nothing of them is stored.

mod aggregate;
mod call;
mod gathered;
mod registry;
mod scalar;
mod signature;
mod stateful;
mod window;

pub(in crate::functions) use gathered::{bytes_of, list_of, listed, unlisted};
pub(crate) use registry::{FunctionSet, UserFunctions};
pub use signature::FunctionSignature;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What a function of the user's says went wrong; it becomes the source of the statement's error.
pub type FunctionError = Box<dyn std::error::Error + Send + Sync>;

/// What a function of the user's gives.
pub type FunctionResult<T> = std::result::Result<T, FunctionError>;

type OverRows = Arc<dyn Fn(&[ArrayRef]) -> FunctionResult<ArrayRef> + Send + Sync>;
type OverGroups = Arc<dyn Fn(&[ArrayRef], &[Range<usize>]) -> FunctionResult<ArrayRef> + Send + Sync>;
type Begin = Arc<dyn Fn() -> Box<dyn AggregateState> + Send + Sync>;

/// What a function is called with and what it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A value of each row.
    Scalar,
    /// One value of the rows of a group.
    Aggregate,
    /// A value of each row, of all rows of its partition in order.
    Window,
}

impl FunctionKind {
    /// The word for it: `scalar`, `aggregate` or `window`.
    pub fn name(self) -> &'static str {
        match self {
            FunctionKind::Scalar => "scalar",
            FunctionKind::Aggregate => "aggregate",
            FunctionKind::Window => "window",
        }
    }
}

/// What becomes of rows in which an argument is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NullHandling {
    /// The function never sees them: a scalar or window function is NULL there, an aggregate passes over them and is
    /// NULL where no row is left.
    #[default]
    Default,
    /// They are rows like any other; an aggregate is also called for groups without rows.
    Special,
}

/// The state of one group of an aggregate that takes its rows in as they come.
///
/// Several cores may each have a state of the same group, which are merged; in which order is not said.
pub trait AggregateState: Send + Sync {
    /// Takes in rows: the values of each argument.
    ///
    /// # Errors
    /// What the statement fails with.
    fn update(&mut self, arguments: &[ArrayRef]) -> FunctionResult<()>;

    /// What [`Self::merge`] takes: an array of one value for each type of the state.
    ///
    /// # Errors
    /// What the statement fails with.
    fn state(&self) -> FunctionResult<Vec<ArrayRef>>;

    /// Takes in other states of the same group, a row each.
    ///
    /// # Errors
    /// What the statement fails with.
    fn merge(&mut self, states: &[ArrayRef]) -> FunctionResult<()>;

    /// The aggregate of all rows so far: an array of one value. More rows may follow.
    ///
    /// # Errors
    /// What the statement fails with.
    fn finish(&self) -> FunctionResult<ArrayRef>;

    /// Bytes it holds beside itself, which count against the memory of queries.
    fn size(&self) -> usize {
        0
    }
}

/// How a function is computed.
#[derive(Clone)]
enum Body {
    Scalar(OverRows),
    Window(OverRows),
    /// Of all rows of some groups at once.
    Groups(OverGroups),
    /// With a state a group, of these types.
    State(Vec<DataType>, Begin),
}

/// A function of the user's own.
///
/// ```
/// use std::sync::Arc;
/// use tickstone_query::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
/// use tickstone_query::arrow::datatypes::Float64Type;
/// use tickstone_query::{Database, DatabaseOptions, Function, FunctionSignature};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = Database::in_memory(DatabaseOptions::default())?;
/// let signature = FunctionSignature::parse(&["DOUBLE", "DOUBLE"], "DOUBLE")?;
/// db.create_function(Function::scalar("geo_mid", signature, |arguments| {
///     let (bid, ask) = (arguments[0].as_primitive::<Float64Type>(), arguments[1].as_primitive::<Float64Type>());
///     let mids = bid.values().iter().zip(ask.values()).map(|(bid, ask)| (bid * ask).sqrt());
///     Ok(Arc::new(Float64Array::from_iter_values(mids)) as ArrayRef)
/// }))?;
/// let runtime = db.runtime().handle().clone();
/// let rows = runtime.block_on(async { db.session().query("SELECT geo_mid(4, 9) AS mid").await })?;
/// assert_eq!(rows[0].column(0).as_primitive::<Float64Type>().value(0), 6.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Function {
    name: String,
    signature: FunctionSignature,
    body: Body,
    nulls: NullHandling,
    side_effects: bool,
}

impl Function {
    fn new(name: &str, signature: FunctionSignature, body: Body) -> Self {
        let name = name.to_lowercase();
        Self { name, signature, body, nulls: NullHandling::default(), side_effects: false }
    }

    /// A value of each row: arrays of the arguments, all of one length, give an array of that length. Batches of rows
    /// come in any order, on several threads at once.
    pub fn scalar(
        name: &str,
        signature: FunctionSignature,
        function: impl Fn(&[ArrayRef]) -> FunctionResult<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, signature, Body::Scalar(Arc::new(function)))
    }

    /// A value of each row of a partition, all of whose rows are handed over at once, in the order that `OVER` says:
    /// arrays of the arguments, all of one length, give an array of that length. Frames do not matter to it.
    pub fn window(
        name: &str,
        signature: FunctionSignature,
        function: impl Fn(&[ArrayRef]) -> FunctionResult<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, signature, Body::Window(Arc::new(function)))
    }

    /// One value of each group: arrays of the arguments in its rows give an array of one value. The rows come in the
    /// order that `ORDER BY` inside the call says, without it in any.
    ///
    /// All values of all groups are in memory before the first is finished: see [`Self::aggregate_with_state`].
    pub fn aggregate(
        name: &str,
        signature: FunctionSignature,
        function: impl Fn(&[ArrayRef]) -> FunctionResult<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::aggregate_groups(name, signature, call::group_by_group(function))
    }

    /// As [`Self::aggregate`], of several groups at once, whose rows are these ranges: a value for each of them.
    pub fn aggregate_groups(
        name: &str,
        signature: FunctionSignature,
        function: impl Fn(&[ArrayRef], &[Range<usize>]) -> FunctionResult<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, signature, Body::Groups(Arc::new(function)))
    }

    /// One value of each group, by a state that takes rows in as they come; `state` are the types of what states are
    /// merged by. Over moving frames of a window it is given all rows of each frame anew.
    pub fn aggregate_with_state(
        name: &str,
        signature: FunctionSignature,
        state: Vec<DataType>,
        begin: impl Fn() -> Box<dyn AggregateState> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, signature, Body::State(state, Arc::new(begin)))
    }

    /// Says what becomes of rows with a NULL; without, [`NullHandling::Default`].
    #[must_use]
    pub fn nulls(self, nulls: NullHandling) -> Self {
        Self { nulls, ..self }
    }

    /// Says that equal arguments may give other results the next time, so that each call is made as it is written.
    #[must_use]
    pub fn side_effects(self, side_effects: bool) -> Self {
        Self { side_effects, ..self }
    }

    /// Its name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is called with and what it gives.
    pub fn kind(&self) -> FunctionKind {
        match self.body {
            Body::Scalar(_) => FunctionKind::Scalar,
            Body::Window(_) => FunctionKind::Window,
            Body::Groups(_) | Body::State(..) => FunctionKind::Aggregate,
        }
    }

    /// The types it takes and the one it gives.
    pub fn signature(&self) -> &FunctionSignature {
        &self.signature
    }

    fn volatility(&self) -> Volatility {
        if self.side_effects { Volatility::Volatile } else { Volatility::Immutable }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.kind().name(), self.name, self.signature)
    }
}

/// A function in a plan. Two are the same where they are one: a function replaced is another.
#[derive(Debug, Clone)]
struct Planned {
    function: Arc<Function>,
    signature: datafusion::logical_expr::Signature,
}

impl Planned {
    fn new(function: &Arc<Function>) -> Self {
        let signature = datafusion::logical_expr::Signature::user_defined(function.volatility());
        Self { function: Arc::clone(function), signature }
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for Planned {}

impl std::hash::Hash for Planned {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.function).hash(state);
    }
}

#[cfg(test)]
mod tests;
