//! Functions whose results can be much larger than their arguments: `repeat`, `range` and their kin.
//!
//! What a call gives is estimated from its arguments and claimed of the session's memory before it is made; what does not
//! fit is an error that names `query_memory`. Constants that are worked out while a statement is planned ([`folding`])
//! stay in its plan, and are copied with it: past [`FOLDED_BYTES`] of them a call is left for when the plan runs.
//! Where the caller can take fewer rows at a time ([`in_pieces`]: projections and conditions), a call that would give
//! more than [`PIECE_BYTES`] asks for fewer rows instead.
//!
//! A long constant claims its copies where an expression makes one for each row ([`spread`]).
//!
//! Each call looks first whether its statement is still wanted.

use super::handed_on::handed_on;
use super::joined::Joined;
use crate::wanted;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type, TimeUnit, UInt32Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::cell::Cell;
use std::sync::Arc;

/// Bytes that a call makes at once where its caller can take fewer rows.
pub(crate) const PIECE_BYTES: u64 = 1 << 24;

/// Bytes that are not worth a claim.
pub(crate) const FREE_BYTES: u64 = 1 << 20;

/// Bytes of constants in a row whose copies count.
pub(crate) const BROADCAST_BYTES: u64 = PIECE_BYTES / 8_192;

/// Bytes of constants that planning works out for one statement.
const FOLDED_BYTES: u64 = PIECE_BYTES;

/// Bytes of an element or value beside what it holds.
const SLOT_BYTES: u64 = 8;

const NS_PER_DAY: i128 = 86_400_000_000_000;

/// How large the results of a function are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    /// All its arguments together.
    Sum,
    /// Its first argument, as often as the second says.
    Times,
    /// A list of that.
    Elements,
    /// As many characters, or elements, as the second says.
    Padded,
    /// A series from the first argument to the second in steps of the third; up to the first where it is alone.
    Series,
    /// The first, with the third in the place of the second wherever that is.
    Replaced,
    /// Elements of the first, with the second between them.
    Joined,
    /// A list with an element for each byte of the first at most.
    Split,
    /// The first, in the format of the second.
    Formatted,
}

const GROWING: [(&str, Size); 33] = [
    ("repeat", Size::Times),
    ("array_repeat", Size::Elements),
    ("lpad", Size::Padded),
    ("rpad", Size::Padded),
    ("array_resize", Size::Padded),
    ("range", Size::Series),
    ("generate_series", Size::Series),
    ("replace", Size::Replaced),
    ("regexp_replace", Size::Replaced),
    ("translate", Size::Sum),
    ("array_to_string", Size::Joined),
    ("string_to_array", Size::Split),
    ("string_split", Size::Split),
    ("regexp_extract_all", Size::Split),
    ("regexp_split_to_array", Size::Split),
    ("json_keys", Size::Split),
    ("strftime", Size::Formatted),
    ("to_char", Size::Formatted),
    ("encode", Size::Sum),
    ("concat", Size::Sum),
    ("concat_ws", Size::Sum),
    ("overlay", Size::Sum),
    ("make_array", Size::Sum),
    ("array_append", Size::Sum),
    ("array_prepend", Size::Sum),
    ("array_concat", Size::Sum),
    ("array_union", Size::Sum),
    ("array_replace", Size::Sum),
    ("array_replace_n", Size::Sum),
    ("array_replace_all", Size::Sum),
    ("arrays_zip", Size::Sum),
    ("flatten", Size::Sum),
    ("map", Size::Sum),
];

/// The functions as they are, those that grow with their claims.
pub(crate) fn claiming(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let claiming = |function: Arc<ScalarUDF>| match GROWING.iter().find(|(name, _)| *name == function.name())
    {
        Some((_, size)) => Arc::new(ScalarUDF::from(Growing { inner: function, size: *size })),
        None => function,
    };
    functions.into_iter().map(claiming).collect()
}

/// A call that planning made itself, such as that of `[a, b]`, which claims what it makes as those do that are written.
pub(crate) fn claimed(expr: Expr) -> Transformed<Expr> {
    let Expr::ScalarFunction(call) = &expr else { return Transformed::no(expr) };
    let size = GROWING.iter().find(|(name, _)| *name == call.name()).map(|(_, size)| *size);
    match (size, expr) {
        (Some(size), Expr::ScalarFunction(call)) if !call.func.inner().is::<Growing>() => {
            let growing = Growing { inner: call.func, size };
            Transformed::yes(ScalarUDF::from(growing).call(call.args))
        }
        (_, expr) => Transformed::no(expr),
    }
}

/// `||` of two values of one type, which claims what it makes.
pub(super) fn joined(left: Expr, right: Expr, of: DataType) -> Expr {
    let inner = Arc::new(ScalarUDF::from(Joined::new(of)));
    ScalarUDF::from(Growing { inner, size: Size::Sum }).call(vec![left, right])
}

/// The type of what [`joined`] made, where a function is that.
pub(super) fn type_of_joined(function: &ScalarUDF) -> Option<&DataType> {
    let growing = function.inner().downcast_ref::<Growing>()?;
    growing.inner.inner().downcast_ref::<Joined>().map(|joined| &joined.of)
}

/// A function that claims what it makes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Growing {
    inner: Arc<ScalarUDF>,
    size: Size,
}

impl ScalarUDFImpl for Growing {
    handed_on!(
        inner: name, aliases, schema_name, signature, coerce_types, return_type, return_field_from_args,
        is_strict, properties, documentation
    );
    // No `simplify`: it would put the function itself in the place of this one.

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        wanted::look()?;
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let bytes = self.size.of(&args.args, rows);
        fold(self.name(), bytes)?;
        let _held = claim(self.name(), bytes, rows)?;
        let args = match self.size {
            Size::Padded => padded_to_something(args)?,
            _ => args,
        };
        self.inner.invoke_with_args(args)
    }
}

/// A long constant that is copied for each row: it claims the copies. `None` where they are not worth it.
pub(crate) fn spread(constant: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = constant else { return None };
    let is_long = value_bytes(value) > BROADCAST_BYTES;
    is_long.then(|| ScalarUDF::from(Spread::default()).call(vec![constant.clone()]))
}

/// See [`spread`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    signature: Signature,
}

impl Default for Spread {
    fn default() -> Self {
        // Nothing puts the constant itself in its place.
        Self { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Spread {
    fn name(&self) -> &'static str {
        "spread"
    }

    /// As the constant alone.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|constant| constant.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        wanted::look()?;
        let bytes = Size::Sum.of(&args.args, args.number_rows);
        let _held = claim("a constant", bytes, args.number_rows)?;
        if args.number_rows > 1 && bytes > OFFSET_MAX {
            return exec_err!("offset overflow");
        }
        Ok(args.args.swap_remove(0))
    }
}

/// The most bytes of texts that one array can have.
const OFFSET_MAX: u64 = i32::MAX as u64;

/// A text is padded to no length below 0, which DataFusion takes for one past all memory in a column.
fn padded_to_something(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    if let Some(ColumnarValue::Array(lengths)) = args.args.get_mut(1)
        && let Some(counts) = cast(lengths, &DataType::Int64)?.as_primitive_opt::<Int64Type>()
        && counts.iter().flatten().any(|length| length < 0)
    {
        let counts: Int64Array = counts.unary(|length| length.max(0));
        *lengths = cast(&counts, lengths.data_type())?;
    }
    Ok(args)
}

/// What a caller that can take fewer rows is asked.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// How many rows it is asked to take.
    rows: usize,
    /// The most bytes that a call makes for it at once.
    bytes_max: u64,
}

thread_local! {
    /// Where the caller can take fewer rows: what it is asked.
    static PIECE: Cell<Option<Asked>> = const { Cell::new(None) };
}

thread_local! {
    /// Where a statement is planned: how many bytes of constants were worked out.
    static FOLDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Plans a statement, whose constants are worked out meanwhile as far as they are small.
pub(crate) fn folding<T>(plan: impl FnOnce() -> T) -> T {
    /// Puts back what was before.
    struct Before(Option<u64>);
    impl Drop for Before {
        fn drop(&mut self) {
            FOLDED.set(self.0);
        }
    }
    let _before = Before(FOLDED.replace(Some(0)));
    plan()
}

/// Counts a constant that planning works out.
///
/// # Errors
/// Where it is one too many: the expression then stays as it is written.
fn fold(name: &str, bytes: u64) -> Result<()> {
    match FOLDED.get().map(|folded| folded.saturating_add(bytes)) {
        Some(folded) if folded > FOLDED_BYTES => {
            Err(DataFusionError::ResourcesExhausted(format!("{name} is worked out when the plan runs")))
        }
        folded => {
            FOLDED.set(folded);
            Ok(())
        }
    }
}

/// Says that the caller can take fewer rows, until it goes.
struct Piece {
    before: Option<Asked>,
}

impl Piece {
    fn of(rows: usize, bytes_max: u64) -> Self {
        Self { before: PIECE.replace((rows > 1).then_some(Asked { rows, bytes_max })) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        PIECE.set(self.before);
    }
}

/// Claims what a call makes, until the reservation goes.
fn claim(name: &str, bytes: u64, rows: usize) -> Result<Option<MemoryReservation>> {
    if bytes <= FREE_BYTES {
        return Ok(None);
    }
    let asked = PIECE.get().filter(|_| rows > 1);
    if let Some(asked) = asked
        && bytes > asked.bytes_max
    {
        let fits = u128::from(asked.bytes_max) * rows as u128 / u128::from(bytes);
        PIECE.set(Some(Asked { rows: usize::try_from(fits).unwrap_or(rows).max(1), ..asked }));
        return fewer_rows(name);
    }
    let Some(memory) = wanted::current().and_then(|wanted| wanted.memory()) else { return Ok(None) };
    let held = MemoryConsumer::new(name).register(&memory);
    match (held.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX)), asked) {
        // The other half of the memory may be held by a neighbour.
        (Err(_), Some(asked)) => {
            PIECE.set(Some(Asked { rows: rows / 2, ..asked }));
            fewer_rows(name)
        }
        (claimed, _) => claimed.map(|()| Some(held)),
    }
}

fn fewer_rows<T>(name: &str) -> Result<T> {
    Err(DataFusionError::ResourcesExhausted(format!("{name} wants fewer rows at a time")))
}

/// The first rows of a batch, as many as `work` can do at once making `bytes_max` bytes, and what it gives for them.
///
/// # Errors
/// Those of `work`.
pub(crate) fn in_pieces<T>(
    batch: &RecordBatch,
    (broadcast_bytes, bytes_max): (u64, u64),
    mut work: impl FnMut(&RecordBatch) -> Result<T>,
) -> Result<(usize, T)> {
    let fit = usize::try_from(bytes_max / broadcast_bytes.max(1)).unwrap_or(usize::MAX);
    let mut rows = batch.num_rows().min(fit.max(1));
    loop {
        let piece = Piece::of(rows, bytes_max);
        let done = work(&batch.slice(0, rows));
        let asked = PIECE.get().map(|asked| asked.rows).filter(|asked| *asked < rows);
        drop(piece);
        match (done, asked) {
            (Ok(done), _) => return Ok((rows, done)),
            // Part of the rows may have asked for them, in a CASE.
            (Err(_), Some(asked)) => rows = asked.min(rows - 1),
            (Err(error), None) => return Err(error),
        }
    }
}

/// Whether a call in an expression can grow, and the bytes of constants that go out with each row.
pub(crate) fn growth_of(expr: &Arc<dyn PhysicalExpr>) -> (bool, u64) {
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        return (false, value_bytes(constant.value()));
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    let grows = call.is_some_and(|call| call.fun().inner().is::<Growing>());
    expr.children()
        .into_iter()
        .map(growth_of)
        .fold((grows, 0), |(all, bytes), (one, more)| (all || one, bytes.saturating_add(more)))
}

impl Size {
    /// Bytes of the result for so many rows; NULLs count nothing.
    fn of(self, args: &[ColumnarValue], rows: usize) -> u64 {
        let argument = |at: usize| args.get(at).map(Argument);
        let each =
            |size: &dyn Fn(usize) -> u64| (0..rows).fold(0_u64, |all, row| all.saturating_add(size(row)));
        match (self, argument(0), argument(1), argument(2)) {
            (Size::Sum, ..) => args.iter().fold(0, |all, arg| all.saturating_add(Argument(arg).bytes(rows))),
            (Size::Times, Some(value), Some(times), _) => {
                let mean = value.bytes(rows) / rows.max(1) as u64;
                each(&|row| value.length(row, mean).saturating_mul(times.count(row)))
            }
            (Size::Elements, Some(value), Some(times), _) => {
                let mean = value.bytes(rows) / rows.max(1) as u64;
                each(&|row| (value.length(row, mean) + SLOT_BYTES).saturating_mul(times.count(row)))
            }
            (Size::Padded, Some(value), Some(length), fill) => {
                let least = if value.is_list() { SLOT_BYTES } else { 1 };
                let slot = fill.map_or(least, |fill| fill.widest());
                let all = each(&|row| length.count(row).saturating_mul(slot));
                all.saturating_add(value.bytes(rows))
            }
            (Size::Series, Some(first), last, step) => {
                each(&|row| steps(&first, last.as_ref(), step.as_ref(), row).saturating_mul(SLOT_BYTES))
            }
            (Size::Replaced, Some(text), Some(from), Some(to)) => {
                let bytes = text.bytes(rows);
                let grown = each(&|row| {
                    let places = text.length(row, 0) / from.length(row, 1).max(1) + 1;
                    places.saturating_mul(to.length(row, 0).saturating_sub(from.length(row, 0)))
                });
                bytes.saturating_add(grown)
            }
            (Size::Joined, Some(list), Some(between), _) => {
                let all = each(&|row| list.slots(row).saturating_mul(between.length(row, 0)));
                all.saturating_add(list.bytes(rows).saturating_mul(2))
            }
            (Size::Split, Some(text), ..) => text.bytes(rows).saturating_mul(SLOT_BYTES),
            // `%c` is the date and the time in full.
            (Size::Formatted, Some(_), Some(format), _) => {
                each(&|row| format.length(row, 0).saturating_mul(16))
            }
            _ => 0,
        }
    }
}

/// The steps of a series, 0 of one that is none.
fn steps(first: &Argument<'_>, last: Option<&Argument<'_>>, step: Option<&Argument<'_>>, row: usize) -> u64 {
    let from = first.point(row);
    let (Some(from), Some(to)) = (match last {
        Some(last) => (from, last.point(row)),
        None => (Some(0), from),
    }) else {
        return 0;
    };
    let step = step.map_or(Some(1), |step| step.point(row)).unwrap_or(0);
    match step {
        0 => 0,
        step => u64::try_from(((to - from) / step).max(0)).unwrap_or(u64::MAX).saturating_add(1),
    }
}

/// An argument of a call.
#[derive(Clone, Copy)]
struct Argument<'a>(&'a ColumnarValue);

impl Argument<'_> {
    /// Bytes of all rows.
    fn bytes(self, rows: usize) -> u64 {
        match self.0 {
            ColumnarValue::Scalar(value) => value_bytes(value).saturating_mul(rows as u64),
            ColumnarValue::Array(array) => array_bytes(array),
        }
    }

    /// Bytes of the text of one row; `other` where it is no text.
    fn length(self, row: usize, other: u64) -> u64 {
        match self.0 {
            ColumnarValue::Scalar(value) => match value.try_as_str() {
                Some(text) => text.map_or(0, str::len) as u64,
                None => other,
            },
            ColumnarValue::Array(array) => text_length(array, row).unwrap_or(other),
        }
    }

    /// The most bytes of a character of the text, or those of an element.
    fn widest(self) -> u64 {
        match self.0 {
            ColumnarValue::Scalar(value) => match value.try_as_str() {
                Some(text) if text.is_none_or(str::is_ascii) => 1,
                Some(_) => 4,
                None => value_bytes(value).max(SLOT_BYTES),
            },
            ColumnarValue::Array(array) if text_length(array, 0).is_some() => 4,
            ColumnarValue::Array(array) => (array_bytes(array) / array.len().max(1) as u64).max(SLOT_BYTES),
        }
    }

    fn is_list(self) -> bool {
        self.0.data_type().is_nested()
    }

    /// A number of times, 0 for NULL and what lies below.
    fn count(self, row: usize) -> u64 {
        self.point(row).map_or(0, |count| u64::try_from(count.max(0)).unwrap_or(u64::MAX))
    }

    /// How many elements the list of a row has.
    fn slots(self, row: usize) -> u64 {
        let array = match self.0 {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(ScalarValue::List(list)) => Arc::clone(list) as ArrayRef,
            ColumnarValue::Scalar(_) => return 0,
        };
        let row = if array.len() == 1 { 0 } else { row };
        match array.as_list_opt::<i32>() {
            Some(list) if list.is_valid(row) => u64::try_from(list.value_length(row)).unwrap_or(0),
            _ => 0,
        }
    }

    /// A whole number, a day, a time or a length of time, the last three in nanoseconds.
    fn point(self, row: usize) -> Option<i128> {
        let array = match self.0 {
            ColumnarValue::Scalar(value) => return point_of(value),
            ColumnarValue::Array(array) => array,
        };
        if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
            return numbers.is_valid(row).then(|| i128::from(numbers.value(row)));
        }
        if let Some(numbers) = array.as_primitive_opt::<Int32Type>() {
            return numbers.is_valid(row).then(|| i128::from(numbers.value(row)));
        }
        point_of(&ScalarValue::try_from_array(array, row).ok()?)
    }
}

fn point_of(value: &ScalarValue) -> Option<i128> {
    if value.is_null() {
        return None;
    }
    match value {
        ScalarValue::IntervalMonthDayNano(Some(step)) => {
            let days = i128::from(step.months) * 30 + i128::from(step.days);
            Some(days * NS_PER_DAY + i128::from(step.nanoseconds))
        }
        ScalarValue::Date32(Some(days)) => Some(i128::from(*days) * NS_PER_DAY),
        _ => {
            let unit = match value.data_type() {
                DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
                DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
                DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
                _ => 1,
            };
            match value.cast_to(&DataType::Int64).ok()? {
                ScalarValue::Int64(Some(number)) => Some(i128::from(number) * unit),
                _ => None,
            }
        }
    }
}

fn value_bytes(value: &ScalarValue) -> u64 {
    match value.try_as_str() {
        Some(text) => text.map_or(0, str::len) as u64,
        None if value.data_type().is_nested() || value.data_type().is_binary() => value.size() as u64,
        None => SLOT_BYTES,
    }
}

/// Bytes of the rows of an array, not of what it shares with others.
pub(super) fn array_bytes(array: &ArrayRef) -> u64 {
    if let Some(symbols) = array.as_any_dictionary_opt() {
        let mean = array_bytes(symbols.values()) / symbols.values().len().max(1) as u64;
        return mean.saturating_mul(array.len() as u64);
    }
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()) as u64
}

/// Bytes of the text of a row; `None` where the array is none of texts.
fn text_length(array: &ArrayRef, row: usize) -> Option<u64> {
    if row >= array.len() {
        return Some(0);
    }
    let bytes = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).len() as u64,
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).len() as u64,
        DataType::Utf8View => array.as_string_view().value(row).len() as u64,
        _ => {
            let symbols = array.as_dictionary_opt::<UInt32Type>()?;
            return symbols.key(row).map_or(Some(0), |symbol| text_length(symbols.values(), symbol));
        }
    };
    Some(if array.is_null(row) { 0 } else { bytes })
}

#[cfg(test)]
mod tests;
