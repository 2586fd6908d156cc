//! What client and server say to each other beyond Arrow Flight SQL: the bytes inside its opaque fields.
//!
//! A client that knows nothing of this gets the same rows and errors; ours saves a round trip a statement, and has
//! errors in their parts.

use bytes::Bytes;

/// The port of Flight SQL where nobody says another.
pub const PORT: u16 = 8815;

/// The action that begins a session; its result is a [`SessionBegun`].
pub const BEGIN_SESSION: &str = "tickstone.BeginSession";

/// The action that says that the session whose handle is its body is still wanted.
pub const KEEP_SESSION: &str = "tickstone.KeepSession";

/// The action that ends the session whose handle is its body: an open transaction is rolled back.
pub const END_SESSION: &str = "tickstone.EndSession";

/// The action that forgets the temporary tables of the session whose handle is its body.
pub const FORGET_TABLES: &str = "tickstone.ForgetTables";

/// The metadata of an answer that says what failed: a [`Failure`].
pub const FAILURE: &str = "tickstone-failure-bin";

/// The metadata of a request that says whether symbols may come as dictionaries: `true`, or `false` for plain texts.
pub const DICTIONARIES: &str = "tickstone-dictionaries";

/// The options of CommandStatementIngest: the designated timestamp, the series key (names, one a line; empty for
/// none), the length of partitions and the sync policy of the rows.
pub const INGEST_OPTIONS: [&str; 4] = ["timestamp", "series", "partition_by", "sync"];

/// A session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionBegun {
    /// Its handle, which stands where a transaction's can.
    #[prost(bytes = "bytes", tag = "1")]
    pub handle: Bytes,
    /// After how many milliseconds without a call it ends; 0 for never.
    #[prost(uint64, tag = "2")]
    pub idle_millis: u64,
}

/// A statement to run: the handle of a TicketStatementQuery.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatementTicket {
    /// Its text.
    #[prost(string, tag = "1")]
    pub sql: String,
    /// The handle of the session or transaction that it runs in; empty for one of its own.
    #[prost(bytes = "bytes", tag = "2")]
    pub session: Bytes,
    /// Values of its placeholders, as an Arrow IPC stream of one row, or of several that it is run for; empty for
    /// none. The columns are `$1`, `$2`, …, or named as `:name`.
    #[prost(bytes = "bytes", tag = "3")]
    pub parameters: Bytes,
    /// Its number, by which it can be cancelled; 0 for none.
    #[prost(fixed64, tag = "4")]
    pub number: u64,
    /// Whether it was run when it was asked about: it gives no rows.
    #[prost(bool, tag = "5")]
    pub done: bool,
    /// The handle of the prepared statement that it is; it has its text, session and values itself.
    #[prost(bytes = "bytes", tag = "6")]
    pub prepared: Bytes,
    /// The columns that its client was told before, as an Arrow IPC message; empty where it was told none.
    #[prost(bytes = "bytes", tag = "7")]
    pub columns: Bytes,
}

/// How a statement began: the metadata of the first message of its rows.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Head {
    /// What it was, where it gives no rows: "CREATE TABLE".
    #[prost(string, optional, tag = "1")]
    pub tag: Option<String>,
    /// The rows it changed, where it did that.
    #[prost(uint64, optional, tag = "2")]
    pub changed: Option<u64>,
    /// How long its planning took, in nanoseconds.
    #[prost(uint64, tag = "3")]
    pub planning_nanos: u64,
}

/// Why something failed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Failure {
    /// What the caller can do: 1 retry, 2 fix the request, 3 free space, 4 report.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// What went wrong, in one sentence.
    #[prost(string, tag = "2")]
    pub message: String,
    /// More about it.
    #[prost(string, optional, tag = "3")]
    pub detail: Option<String>,
    /// What to do or write instead.
    #[prost(string, optional, tag = "4")]
    pub hint: Option<String>,
    /// The line in the statement's text, from 1; 0 where it is not known.
    #[prost(uint32, tag = "5")]
    pub line: u32,
    /// The column in characters, from 1.
    #[prost(uint32, tag = "6")]
    pub column: u32,
    /// Its SQLSTATE.
    #[prost(string, tag = "7")]
    pub state: String,
    /// Whether it is about files and memory of the server, not about what was asked.
    #[prost(bool, tag = "8")]
    pub storage: bool,
}
