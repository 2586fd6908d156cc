//! What a client asks for.

use super::kind;
use crate::qwp::column::{Context, Stop, read_column};
use crate::qwp::fit::{fit, new_type};
use crate::qwp::kind::WireType;
use crate::qwp::limits::{BINDS_MAX, SQL_BYTES_MAX};
use crate::qwp::read::{Malformed, Reader};
use crate::qwp::refused::Status;
use crate::qwp::symbols::Narrowing;
use arrow_array::{ArrayRef, new_null_array};
use arrow_schema::DataType;
use std::fmt;
use std::num::NonZeroU64;

/// A message of a client.
#[derive(Debug, Clone)]
pub enum Request {
    /// A statement to run.
    Query(Query),
    /// The query of this id is to end; it may have ended already.
    Cancel {
        /// The query's id.
        id: i64,
    },
    /// The client is ready for more results of a query.
    Credit {
        /// The query's id.
        id: i64,
        /// For how many bytes more.
        bytes: u64,
    },
}

/// A statement to run.
#[derive(Debug, Clone)]
pub struct Query {
    /// What the client calls it; each answer has it.
    pub id: i64,
    /// The statement.
    pub sql: String,
    /// Bytes of results that the client is ready for; 0 for all there are.
    pub credit: u64,
    /// The parameters in their order, each an array of one value.
    pub parameters: Vec<ArrayRef>,
    /// Whether the connection's symbols are to be forgotten before it.
    pub resets_symbols: bool,
    /// Milliseconds it may take, where the client says.
    pub timeout_ms: Option<NonZeroU64>,
}

/// Bits of a query's flags.
mod query_flags {
    pub(super) const RESET_SYMBOLS: u64 = 0x01;
    pub(super) const TIMEOUT: u64 = 0x02;
}

/// Why a message of a client is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The query's id, where it was read.
    pub id: Option<i64>,
    /// The code of the answer.
    pub status: Status,
    /// Why, in words.
    pub text: String,
}

impl std::error::Error for RefusedRequest {}

impl fmt::Display for RefusedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Malformed> for RefusedRequest {
    fn from(malformed: Malformed) -> Self {
        let text = format!("not a message of QWP: {malformed}");
        Self { id: None, status: Status::ParseError, text }
    }
}

/// Reads a message of a client.
///
/// # Errors
/// [`RefusedRequest`]; the connection can go on.
pub fn read_request(message: &[u8]) -> Result<Request, RefusedRequest> {
    let mut reader = Reader::new(message);
    let mut id = None;
    read(&mut reader, &mut id).map_err(|refused| RefusedRequest { id, ..refused })
}

fn read(reader: &mut Reader<'_>, seen: &mut Option<i64>) -> Result<Request, RefusedRequest> {
    let kind = reader.byte()?;
    if !matches!(kind, kind::QUERY | kind::CANCEL | kind::CREDIT) {
        return Err(reader.malformed("it is of a kind that no client sends").into());
    }
    let id = reader.i64()?;
    *seen = Some(id);
    let request = match kind {
        kind::CANCEL => Request::Cancel { id },
        kind::CREDIT => Request::Credit { id, bytes: reader.varint()? },
        _ => Request::Query(read_query(reader, id)?),
    };
    reader.end()?;
    Ok(request)
}

fn read_query(reader: &mut Reader<'_>, id: i64) -> Result<Query, RefusedRequest> {
    let sql = reader.text()?;
    if sql.len() > SQL_BYTES_MAX {
        return Err(reader.malformed("a statement is longer than 1 MB").into());
    }
    let credit = reader.varint()?;
    let count = reader.count()?;
    if count > BINDS_MAX {
        return Err(reader.malformed("a statement has more than 1,024 parameters").into());
    }
    let parameters = (1..=count).map(|number| read_parameter(reader, number)).collect::<Result<_, _>>()?;
    let flags = if reader.left() > 0 { reader.varint()? } else { 0 };
    if flags & !(query_flags::RESET_SYMBOLS | query_flags::TIMEOUT) != 0 {
        return Err(reader.malformed("a query has flags that are not known").into());
    }
    let mut timeout_ms = None;
    if flags & query_flags::TIMEOUT != 0 {
        timeout_ms = NonZeroU64::new(reader.varint()?);
        if timeout_ms.is_none() {
            return Err(reader.malformed("a query may take no time at all").into());
        }
    }
    let resets_symbols = flags & query_flags::RESET_SYMBOLS != 0;
    Ok(Query { id, sql: sql.to_string(), credit, parameters, resets_symbols, timeout_ms })
}

/// A parameter is a column of one row; a SYMBOL is written as a VARCHAR.
fn read_parameter(reader: &mut Reader<'_>, number: usize) -> Result<ArrayRef, RefusedRequest> {
    let of = match WireType::of(reader.byte()?) {
        Some(WireType::Symbol) => WireType::Varchar,
        Some(of) => of,
        None => return Err(reader.malformed("a parameter has a type that is not known").into()),
    };
    // A NULL text has no offsets here, as a column of one would.
    if matches!(of, WireType::Varchar | WireType::Binary)
        && let [1, bits, ..] = reader.rest()
        && bits & 1 == 1
    {
        reader.take(2)?;
        let data_type = if of == WireType::Varchar { DataType::Utf8 } else { DataType::Binary };
        return Ok(new_null_array(&data_type, 1));
    }
    let mut narrowing = Narrowing::default();
    let mut context = Context { packed_times: false, symbols: None, narrowing: &mut narrowing };
    let read = read_column(reader, of, 1, &mut context);
    let value = read.and_then(|column| fit(&column, of, new_type(&column, of)));
    value.map_err(|stop| {
        let text = match stop {
            Stop::Malformed(malformed) => return malformed.into(),
            Stop::Column(fault) => format!("parameter ${number} {fault}"),
            Stop::Value { text, fault, .. } => format!("parameter ${number}: '{text}' {fault}"),
        };
        RefusedRequest { id: None, status: Status::SchemaMismatch, text }
    })
}
