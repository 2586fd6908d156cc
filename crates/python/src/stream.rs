//! [`Stream`]: the rows of one run of a query, as Arrow, as Python tuples or as text.

use crate::arrow::{Batches, requested_schema, stream_capsule};
use crate::defect::net;
use crate::error;
use crate::functions::check_outside;
use crate::lock::lock;
use crate::process::InProcess;
use crate::rows::{self, columns};
use crate::users::{Opened, User};
use crate::wait::{is_main_thread, released, wait_and_tell};
use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{ArrayRef, DurationNanosecondArray, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickstone_query::QueryProgress;
use tokio::runtime::Handle;

/// Where rows come from.
enum Feed {
    /// A query under way, until its database is closed.
    Live {
        shared: Arc<dyn Opened>,
        runtime: Handle,
        stream: SendableRecordBatchStream,
        teller: Option<Teller>,
    },
    /// Batches that are there already.
    Held(std::vec::IntoIter<RecordBatch>),
    /// A query whose database was closed.
    Closed,
}

impl Feed {
    fn next(&mut self, sql: &str) -> Option<PyResult<RecordBatch>> {
        match self {
            Feed::Held(batches) => batches.next().map(Ok),
            Feed::Closed => Some(Err(error::closed())),
            Feed::Live { shared, runtime, stream, teller } => {
                let mut tell = || teller.as_mut().map_or(Ok(()), Teller::tell);
                let open = shared.users().check_open().and_then(|()| tell());
                let next = open.and_then(|()| wait_and_tell(runtime, stream.next(), tell));
                match next {
                    Ok(next) => next.map(|batch| batch.map_err(|failed| error::of_stream(failed, sql))),
                    Err(raised) => Some(Err(raised)),
                }
            }
        }
    }
}

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// How often Python is told how far a query is.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// Tells Python how far a query is.
pub(crate) struct Teller {
    tell: Py<PyAny>,
    progress: QueryProgress,
    begun: Instant,
    /// When it was told last, in time since it began.
    told: Duration,
    /// Whether what was told last is still to be taken back.
    shown: bool,
}

impl Teller {
    pub(crate) fn new(tell: Py<PyAny>, progress: QueryProgress) -> Self {
        Self { tell, progress, begun: Instant::now(), told: Duration::ZERO, shown: false }
    }

    /// # Errors
    /// What the function raised.
    fn tell(&mut self) -> PyResult<()> {
        match self.begun.elapsed().saturating_sub(self.told) >= TELL_INTERVAL {
            true => self.call(false),
            false => Ok(()),
        }
    }

    /// Tells that rows have come, or the end, where anything was told before.
    ///
    /// # Errors
    /// What the function raised.
    fn clear(&mut self) -> PyResult<()> {
        if self.shown { self.call(true) } else { Ok(()) }
    }

    fn call(&mut self, came: bool) -> PyResult<()> {
        // Another thread must not ask for the interpreter: who holds it may be waiting for that thread.
        if !is_main_thread() {
            return Ok(());
        }
        self.told = self.begun.elapsed();
        self.shown = !came;
        let (read, selected) = self.progress.rows();
        let told = (read, selected, self.told.as_secs_f64(), came);
        Python::attach(|py| self.tell.call1(py, told).map(|_| ()))
    }
}

/// Rows on their way out. Dropped before its end, it cancels the query.
struct Source {
    schema: SchemaRef,
    /// `None` once it has ended, failed or been cancelled.
    feed: Mutex<Option<Feed>>,
    /// What foreign code was told only in words.
    raised: Mutex<Option<PyErr>>,
    sql: Arc<str>,
}

impl Source {
    /// The next batch, on a thread that does not hold the interpreter.
    fn next(&self) -> Option<PyResult<RecordBatch>> {
        if let Err(inside) = check_outside() {
            return Some(Err(inside));
        }
        let mut feed = lock(&self.feed);
        let open = feed.as_mut()?;
        let next = net(|| open.next(&self.sql).transpose()).transpose();
        // The caller may print: what was told so far goes.
        let cleared = match &mut *feed {
            Some(Feed::Live { teller: Some(teller), .. }) => teller.clear(),
            _ => Ok(()),
        };
        let next = cleared.map_or_else(|raised| Some(Err(raised)), |()| next);
        if !matches!(next, Some(Ok(_))) {
            *feed = None;
        }
        next
    }
}

impl User for Source {
    fn let_go(&self) {
        // A batch that is being read sees that the database is closed when the next one is asked for.
        if let Ok(mut feed) = self.feed.try_lock()
            && let Some(Feed::Live { .. }) = *feed
        {
            *feed = Some(Feed::Closed);
        }
    }
}

/// The rows of one run of a query. They can be read once, in one of the ways it has.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Stream {
    source: InProcess<Arc<Source>>,
    /// The rest of a batch that was handed out in part.
    rest: Mutex<Option<RecordBatch>>,
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<dyn Opened>,
        runtime: Handle,
        schema: SchemaRef,
        stream: SendableRecordBatchStream,
        teller: Option<Teller>,
        sql: Arc<str>,
    ) -> Self {
        let users = Arc::clone(&shared);
        let (made, source) = Self::fed(Feed::Live { shared, runtime, stream, teller }, schema, sql);
        users.users().add(Arc::downgrade(&source) as _);
        made
    }

    /// Of batches that are there.
    pub(crate) fn held(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self::fed(Feed::Held(batches.into_iter()), schema, "".into()).0
    }

    fn fed(feed: Feed, schema: SchemaRef, sql: Arc<str>) -> (Self, Arc<Source>) {
        let (feed, raised) = (Mutex::new(Some(feed)), Mutex::new(None));
        let source = Arc::new(Source { schema, feed, raised, sql });
        (Self { source: InProcess::new(Arc::clone(&source)), rest: Mutex::default() }, source)
    }

    /// At most `count` of the rows that are left, in batches as they come.
    fn take(&self, count: usize) -> PyResult<Vec<RecordBatch>> {
        check_outside()?;
        let source = self.source.get()?;
        let (mut rest, mut taken, mut left) = (lock(&self.rest), Vec::new(), count);
        while left > 0 {
            let batch = match rest.take() {
                Some(batch) => batch,
                None => match source.next() {
                    Some(batch) => batch?,
                    None => break,
                },
            };
            let rows = batch.num_rows().min(left);
            if rows < batch.num_rows() {
                *rest = Some(batch.slice(rows, batch.num_rows() - rows));
            }
            left -= rows;
            taken.push(batch.slice(0, rows));
        }
        Ok(taken)
    }
}

#[pymethods]
impl Stream {
    /// The rows of anything with an Arrow stream.
    #[staticmethod]
    fn over(py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batches = Batches::of(source)?;
        let schema = batches.schema();
        let held = py.detach(|| batches.collect::<Result<Vec<_>, _>>());
        let held = held.map_err(|failed| error::request(&format!("rows cannot be read: {failed}"), None))?;
        Ok(Self::held(schema, held))
    }

    /// The rows by Arrow's C stream interface, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let source = Arc::clone(self.source.get()?);
        let wanted = requested_schema.map(self::requested_schema).transpose()?;
        let schema = wanted.filter(|wanted| can_cast(&source.schema, wanted));
        let schema = schema.unwrap_or_else(|| Arc::clone(&source.schema));
        stream_capsule(py, Box::new(Reader { source, schema }))
    }

    /// As `__arrow_c_stream__`, with lengths of time in nanoseconds in the place of intervals of months, days and
    /// nanoseconds, which few libraries know. A row that has months ends it.
    fn duration_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let source = Arc::clone(self.source.get()?);
        let schema = with_durations(&source.schema);
        stream_capsule(py, Box::new(Reader { source, schema }))
    }

    /// At most `count` rows as tuples; fewer only at the end.
    fn rows<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let batches = py.detach(|| self.take(count))?;
        net(|| {
            let list = PyList::empty(py);
            batches.iter().try_for_each(|batch| rows::append_tuples(&list, batch))?;
            Ok(list)
        })
    }

    /// At most `count` rows as text, NULL as `None`.
    fn cells(&self, py: Python<'_>, count: usize) -> PyResult<Vec<Vec<Option<String>>>> {
        let cells = || {
            let batches = self.take(count)?;
            let mut cells = Vec::new();
            for batch in &batches {
                rows::append_cells(&mut cells, batch)
                    .map_err(|failed| error::of_query(&failed.into(), None))?;
            }
            Ok(cells)
        };
        py.detach(|| net(cells))
    }

    /// What ended the stream where foreign code was told only in words: the exception, once.
    fn raised(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let source = self.source.get()?;
        let raised = py.detach(|| lock(&source.raised).take());
        Ok(raised.map(|raised| raised.into_value(py).into_any()))
    }

    /// Names of the columns and their SQL types.
    fn columns(&self) -> PyResult<Vec<(String, String)>> {
        Ok(columns(&self.source.get()?.schema))
    }

    /// Cancels what has not been read.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let source = self.source.get()?;
        py.detach(|| {
            net(|| {
                *lock(&source.feed) = None;
                Ok(())
            })
        })
    }
}

fn can_cast(from: &SchemaRef, to: &SchemaRef) -> bool {
    let fields = || from.fields().iter().zip(to.fields());
    from.fields().len() == to.fields().len()
        && fields()
            .all(|(a, b)| a.name() == b.name() && arrow_cast::can_cast_types(a.data_type(), b.data_type()))
}

/// The columns with durations in the place of intervals.
fn with_durations(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_))) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Interval(_) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Duration(TimeUnit::Nanosecond)))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Intervals as nanoseconds, a day as 24 hours.
fn durations(array: &ArrayRef, name: &str) -> Result<ArrayRef, ArrowError> {
    let intervals = arrow_cast::cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let nanos = |value: IntervalMonthDayNano| match value.months {
        0 => i64::from(value.days)
            .checked_mul(NANOS_PER_DAY)
            .and_then(|days| days.checked_add(value.nanoseconds))
            .ok_or_else(|| format!("column '{name}' has an INTERVAL past 292 years")),
        _ => Err(format!(
            "column '{name}' has an INTERVAL with months, which have no length: cast it to VARCHAR, or read it \
             with arrow() or fetchall()"
        )),
    };
    let values: DurationNanosecondArray =
        intervals.try_unary(|value| nanos(value).map_err(ArrowError::ComputeError))?;
    Ok(Arc::new(values))
}

/// The stream as Arrow's C interface reads it. Foreign code calls it, holding the interpreter or not, from
/// any thread.
struct Reader {
    source: Arc<Source>,
    schema: SchemaRef,
}

impl Reader {
    fn cast(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        if Arc::ptr_eq(&self.schema, &self.source.schema) {
            return Ok(batch);
        }
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(array, field)| match (array.data_type(), field.data_type()) {
            (DataType::Interval(_), DataType::Duration(_)) => durations(array, field.name()),
            (_, wanted) => arrow_cast::cast(array, wanted),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }

    /// Keeps an exception for Python, and says it in words that hold no NUL.
    fn told(&self, raised: PyErr) -> ArrowError {
        let words = Python::attach(|py| {
            let words = raised.to_string().replace('\0', " ");
            *lock(&self.source.raised) = Some(raised.clone_ref(py));
            words
        });
        ArrowError::ExternalError(words.into())
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let source = Arc::clone(&self.source);
        // A panic must not unwind into foreign code.
        let next = catch_unwind(AssertUnwindSafe(|| released(|| source.next())));
        match next {
            Ok(Some(Ok(batch))) => {
                Some(self.cast(batch).map_err(|failed| self.told(error::request(&failed.to_string(), None))))
            }
            Ok(Some(Err(raised))) => Some(Err(self.told(raised))),
            Ok(None) => None,
            Err(_) => Some(Err(ArrowError::ComputeError("the query was cut short".to_string()))),
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
