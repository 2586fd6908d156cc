//! What a time without a unit counts.

/// The unit of times at the end of lines; QuestDB's `t` and `n` behind a time say their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// So many nanoseconds.
    Nanoseconds(i64),
    /// By size, as InfluxDB 3 does: seconds below 5e9, milliseconds below 5e12, microseconds below 5e15, else nanoseconds.
    Auto,
}

impl Default for Precision {
    fn default() -> Self {
        Precision::Nanoseconds(1)
    }
}

impl Precision {
    /// The precision that a client's word means: `ns`, `us`, `ms`, `s`, `m`, `h` and their longer and shorter forms, and
    /// `auto`; `None` for another.
    pub fn of(word: &str) -> Option<Self> {
        Some(Precision::Nanoseconds(match word {
            "n" | "ns" | "nanosecond" => 1,
            "u" | "us" | "µ" | "µs" | "microsecond" => 1_000,
            "ms" | "millisecond" => 1_000_000,
            "s" | "second" => 1_000_000_000,
            "m" | "minute" => 60_000_000_000,
            "h" | "hour" => 3_600_000_000_000,
            "auto" => return Some(Precision::Auto),
            _ => return None,
        }))
    }

    /// A time in nanoseconds since the Unix epoch; `None` where 64 bits do not hold it.
    #[inline]
    pub(super) fn nanos(self, time: i64) -> Option<i64> {
        let unit = match self {
            Precision::Nanoseconds(unit) => unit,
            Precision::Auto => match time.unsigned_abs() {
                0..5_000_000_000 => 1_000_000_000,
                5_000_000_000..5_000_000_000_000 => 1_000_000,
                5_000_000_000_000..5_000_000_000_000_000 => 1_000,
                _ => 1,
            },
        };
        time.checked_mul(unit)
    }
}
