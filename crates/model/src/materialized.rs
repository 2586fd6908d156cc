//! What a materialized view stands for.

use crate::TimeRange;

/// A table whose rows are those of a query over another one, bucket of time by bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MaterializedView {
    /// The query, as it was written.
    pub query: String,
    /// The table, or materialized view, that it reads.
    pub base: String,
    /// How rows fall into buckets, as whoever works the query out spells it.
    pub buckets: String,
    /// How long buckets are at most (ns).
    pub bucket_ns: i64,
    /// Whether buckets begin at whole multiples of that since the Unix epoch, UTC.
    pub aligned: bool,
}

impl MaterializedView {
    /// A stretch of time that holds every bucket of which some instant is in `range`: no longer one where buckets are
    /// aligned.
    pub fn buckets_of(&self, range: TimeRange) -> TimeRange {
        if self.aligned {
            return widened(range, self.bucket_ns);
        }
        TimeRange::new(range.from.saturating_sub(self.bucket_ns), range.to.saturating_add(self.bucket_ns))
    }

    /// The stretch that a change within `range` marks, which makes neighbours one: such a stretch is no shorter than a
    /// bucket that is aligned, and a fraction of one that is not.
    pub fn marked_by(&self, range: TimeRange) -> TimeRange {
        widened(range, self.grain_ns())
    }

    /// What the ends of [`Self::marked_by`] are multiples of (ns).
    pub fn grain_ns(&self) -> i64 {
        if self.aligned { self.bucket_ns.max(1) } else { (self.bucket_ns / 64).max(1) }
    }

    /// As a text, which [`Self::decode`] reads.
    pub fn encode(&self) -> String {
        let Self { query, base, buckets, bucket_ns, aligned } = self;
        format!("{bucket_ns}\n{}\n{buckets}\n{base}\n{query}", u8::from(*aligned))
    }

    /// Reads a text that [`Self::encode`] wrote.
    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '\n');
        let bucket_ns = parts.next()?.parse().ok().filter(|ns| *ns > 0)?;
        let aligned = match parts.next()? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let mut text = || parts.next().map(str::to_string);
        let (buckets, base, query) = (text()?, text()?, text()?);
        Some(Self { query, base, buckets, bucket_ns, aligned })
    }
}

/// The smallest range with ends at multiples of `unit` that covers `range`.
fn widened(range: TimeRange, unit: i64) -> TimeRange {
    let floor = |at: i64| at.div_euclid(unit).saturating_mul(unit);
    let to = match floor(range.to) {
        to if to < range.to => to.saturating_add(unit),
        to => to,
    };
    TimeRange::new(floor(range.from), to)
}
