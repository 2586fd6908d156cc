//! The protocol of streams, CakeDB's: requests and the heads of their answers.
//!
//! A request is a header of 6 bytes, the length of what follows it and a command, and its payload. All integers are
//! big-endian. An append has no answer; the two ways to open a stream are answered by its 2-byte id, questions by the
//! 4-byte length of a body and the body: entries of 8 bytes of time (microseconds since the Unix epoch), 4 bytes of
//! size, and the document. Command 1 has the length of the name before it, command 5 the name alone: CakeDB's drivers
//! send that. Command 7 is ours: it says who connects, and has no answer. Whoever sends anything else is disconnected.
//!
//! Source: CakeDB's drivers; the table of commands is in docs/server/streams.md.

/// Bytes before the payload of a request.
pub const HEADER_BYTES: usize = 6;
/// Bytes of the stream's id, or of the length of its name, that payloads begin with.
const STREAM_BYTES: usize = 2;
/// The longest payload of a request that is no append: a name of any length fits.
const PAYLOAD_BYTES_MAX: usize = STREAM_BYTES + u16::MAX as usize;

/// The command that asks for nothing.
pub const NO_OP: u16 = 0;
const OPEN: u16 = 1;
/// The command that appends a document.
pub const APPEND: u16 = 2;
const RANGE: u16 = 3;
const SINCE: u16 = 4;
const OPEN_BARE: u16 = 5;
const LAST_BEFORE: u16 = 6;
/// The command that says who sends what follows.
pub const PROVE: u16 = 7;

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Nothing.
    NoOp,
    /// The id of the stream of this name.
    Open {
        /// Its name.
        name: &'a str,
    },
    /// To store a document.
    Append {
        /// The stream's id.
        stream: u16,
        /// What is stored.
        document: &'a [u8],
    },
    /// The documents of these times (µs, both inclusive).
    Range {
        /// The stream's id.
        stream: u16,
        /// The first time.
        from: u64,
        /// The last time.
        to: u64,
    },
    /// All documents after a time (µs, exclusive).
    Since {
        /// The stream's id.
        stream: u16,
        /// The time.
        from: u64,
    },
    /// The newest document before a time (µs, exclusive), or none.
    LastBefore {
        /// The stream's id.
        stream: u16,
        /// The time.
        at: u64,
    },
    /// To be served as a user.
    Prove {
        /// A value of HTTP's header `Authorization`: `Bearer` and a token, or `Basic` and a user with a password.
        credentials: &'a [u8],
    },
}

/// What bytes begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read<'a> {
    /// A request, and how many bytes it takes.
    Whole(Request<'a>, usize),
    /// The beginning of a request of so many bytes; of [`HEADER_BYTES`] where that is not known yet.
    Part(usize),
}

/// Why bytes are no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// There is no such command.
    #[error("there is no command {0}")]
    Command(u16),
    /// A length that the command cannot have.
    #[error("command {command} with {bytes} bytes, which it cannot have")]
    Length {
        /// The command.
        command: u16,
        /// Bytes of its payload.
        bytes: usize,
    },
    /// A document that is too long.
    #[error("a document of {bytes} bytes, more than {most}")]
    Document {
        /// Its bytes.
        bytes: usize,
        /// The most there may be.
        most: usize,
    },
    /// A name that is no UTF-8.
    #[error("a name that is no UTF-8")]
    Name,
}

/// Reads the request that `bytes` begin with, with documents of up to `document_bytes_max`.
///
/// # Errors
/// Where they begin with none: the connection is to be closed.
pub fn read(bytes: &[u8], document_bytes_max: usize) -> Result<Read<'_>, BadRequest> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Read::Part(HEADER_BYTES));
    };
    let [a, b, c, d, e, f] = *head;
    let (length, command) = (u32::from_be_bytes([a, b, c, d]) as usize, u16::from_be_bytes([e, f]));
    let wrong = || BadRequest::Length { command, bytes: length };
    let fits = match command {
        NO_OP => length == 0,
        OPEN => (STREAM_BYTES..=PAYLOAD_BYTES_MAX).contains(&length),
        OPEN_BARE | PROVE => length <= usize::from(u16::MAX),
        APPEND if length.saturating_sub(STREAM_BYTES) > document_bytes_max => {
            return Err(BadRequest::Document { bytes: length - STREAM_BYTES, most: document_bytes_max });
        }
        APPEND => length >= STREAM_BYTES,
        RANGE => length == 18,
        SINCE | LAST_BEFORE => length == 10,
        _ => return Err(BadRequest::Command(command)),
    };
    if !fits {
        return Err(wrong());
    }
    let size = HEADER_BYTES + length;
    let Some(payload) = rest.get(..length) else { return Ok(Read::Part(size)) };
    let open = |name| str::from_utf8(name).map(|name| Request::Open { name }).map_err(|_| BadRequest::Name);
    match command {
        NO_OP => return Ok(Read::Whole(Request::NoOp, size)),
        OPEN_BARE => return Ok(Read::Whole(open(payload)?, size)),
        PROVE => return Ok(Read::Whole(Request::Prove { credentials: payload }, size)),
        _ => {}
    }
    let (first, payload) = payload.split_first_chunk().ok_or_else(wrong)?;
    let first = u16::from_be_bytes(*first);
    let u64_at = |at: usize| {
        let bytes = payload.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
        bytes.map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(wrong)
    };
    let request = match command {
        APPEND => Request::Append { stream: first, document: payload },
        RANGE => Request::Range { stream: first, from: u64_at(0)?, to: u64_at(8)? },
        SINCE => Request::Since { stream: first, from: u64_at(0)? },
        LAST_BEFORE => Request::LastBefore { stream: first, at: u64_at(0)? },
        _ if payload.len() == usize::from(first) => open(payload)?,
        _ => return Err(wrong()),
    };
    Ok(Read::Whole(request, size))
}

/// Appends a request, as a client sends it: an opening as command 1.
///
/// # Panics
/// Where a name is longer than 65,535 bytes or a document than 2³² − 3.
pub fn put(out: &mut Vec<u8>, request: &Request<'_>) {
    let mut head = |length: usize, command: u16| {
        let length = u32::try_from(length).expect("what is sent has less than 2^32 bytes");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&command.to_be_bytes());
    };
    match *request {
        Request::NoOp => head(0, NO_OP),
        Request::Open { name } => {
            head(2 + name.len(), OPEN);
            let length = u16::try_from(name.len()).expect("names have at most 65,535 bytes");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        Request::Append { stream, document } => {
            head(STREAM_BYTES + document.len(), APPEND);
            out.extend_from_slice(&stream.to_be_bytes());
            out.extend_from_slice(document);
        }
        Request::Prove { credentials } => {
            head(credentials.len(), PROVE);
            out.extend_from_slice(credentials);
        }
        Request::Range { stream, from, to } => {
            head(18, RANGE);
            out.extend_from_slice(&stream.to_be_bytes());
            out.extend_from_slice(&from.to_be_bytes());
            out.extend_from_slice(&to.to_be_bytes());
        }
        Request::Since { stream, from: time } | Request::LastBefore { stream, at: time } => {
            let since = matches!(request, Request::Since { .. });
            head(10, if since { SINCE } else { LAST_BEFORE });
            out.extend_from_slice(&stream.to_be_bytes());
            out.extend_from_slice(&time.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
