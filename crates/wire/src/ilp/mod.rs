//! Line protocol, as InfluxDB and QuestDB define it: lines that name their table and columns.
//!
//! ```text
//! trades,symbol=BTC-USD,side=buy price=61500.5,amount=0.25 1723109400000000000
//! table ,tags                    fields                    time
//! ```
//!
//! [`Parser`] reads any number of bytes, whole lines of them, into the rows of each table ([`crate::TableRows`]); it goes
//! by the tables there are, and by a column's first value where there is none yet. Values that come with a type
//! ([`Value`]) go into columns of other types where nothing is lost. A line that is bad leaves nothing behind.
//!
//! Read are: tags, `1.5`, `1i`, `1u`, `t` and `false`, `"texts"`, QuestDB's `1t` and `1n` (microseconds and nanoseconds
//! since 1970), `1.50d` and its binary doubles, arrays and decimals; comments and empty lines. Of a column that is named
//! twice in a line the first value counts; a line with two names that differ in case only is bad. What stands for
//! what is escaped: see `scan`.
//!
//! Sources: InfluxData's "Line protocol reference"; QuestDB's "Advanced InfluxDB Line Protocol settings" and "InfluxDB
//! Line Protocol Columnset Value Types", and its Rust client for the binary values (versions 2 and 3).

mod parse;
mod precision;
mod scan;
mod table;
mod value;

pub use parse::{BadLine, FindTable, Parsed, Parser};
pub use precision::Precision;
pub(crate) use value::{Value, decimal_of};

#[cfg(test)]
mod tests;
