//! Text of one value to the value: numbers, timestamps and the rest.
//!
//! Two kinds of function, and both take exactly a field's bytes, which the caller has cut out: no value can reach
//! past its field. `plain_*` read the common shapes (`None`: take the slow way); `parse_*` accept everything the type
//! allows. A `plain_*` never accepts what its `parse_*` would not, and they agree on the value; of numbers, what it accepts
//! prints as it is written (`printed`). `plain_text` and
//! `plain_value` say where a field ends.

mod number;
mod other;
mod printed;
mod time;

pub(crate) use number::{
    IntegerFault, is_number, parse_decimal, parse_f32, parse_f64, parse_i64, parse_u64, plain_f64, plain_i64,
    plain_u64,
};
pub(crate) use other::{is_no_decimal, parse_bool, plain_text, plain_value};
pub use other::{parse_hex, parse_uuid};
pub(crate) use printed::{
    has_exact_exponent, is_past_nanoseconds, is_printed_bool, is_printed_double, is_printed_integer,
    printed_decimal,
};
pub use time::parse_iso;
pub(crate) use time::{DateCache, parse_date, parse_epoch, parse_time, plain_iso};

/// Cuts spaces off both ends.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}
