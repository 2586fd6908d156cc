//! Bytes to rows and back, without I/O.
