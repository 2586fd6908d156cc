//! What one message and one connection may take.

/// What one message and one connection may take. Beside what they bound, nothing that is allocated for a message is larger
/// than a small multiple of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message.
    pub message_bytes_max: usize,
    /// Rows of all tables of a message.
    pub rows_max: usize,
    /// Values of a message, NULLs with them: rows times columns. A NULL takes a bit of a message, and up to 16 bytes of
    /// memory.
    pub values_max: usize,
    /// Symbols of a connection.
    pub symbols_max: usize,
    /// Bytes of all symbols of a connection.
    pub symbol_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            rows_max: 1_000_000,
            values_max: 16 << 20,
            symbols_max: 2_000_000,
            symbol_bytes_max: 64 << 20,
        }
    }
}

/// The longest statement of a query, in bytes.
pub const SQL_BYTES_MAX: usize = 1 << 20;

/// The most parameters of a query.
pub const BINDS_MAX: usize = 1_024;

/// The most dimensions of QuestDB's arrays; a table's have one.
pub(super) const DIMENSIONS_MAX: u8 = 32;

/// The most rows of a batch of results that clients take.
pub const BATCH_ROWS_MAX: usize = 1 << 20;

/// The most bytes of a batch of results that clients take.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
