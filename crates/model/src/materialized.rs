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
    /// Where one of them begins, if all are that long (ns since the Unix epoch); `None` where they go by a calendar.
    pub origin_ns: Option<i64>,
}

impl MaterializedView {
    /// A stretch of time that holds every bucket of which some instant is in `range`: no longer one where all buckets have
    /// one length.
    pub fn buckets_of(&self, range: TimeRange) -> TimeRange {
        match self.origin_ns {
            Some(origin) => widened(range, self.bucket_ns, origin),
            None => TimeRange::new(
                range.from.saturating_sub(self.bucket_ns),
                range.to.saturating_add(self.bucket_ns),
            ),
        }
    }

    /// What is frozen once the rows of `range` are dropped: buckets where all have one length; else that range, and whoever
    /// knows the calendar takes the buckets that it meets for frozen.
    pub fn frozen_by(&self, range: TimeRange) -> TimeRange {
        if self.origin_ns.is_some() { self.buckets_of(range) } else { range }
    }

    /// The stretch that a change within `range` marks, which makes neighbours one: such a stretch is a bucket where all
    /// have one length, else a fraction of one.
    pub fn marked_by(&self, range: TimeRange) -> TimeRange {
        widened(range, self.grain_ns(), self.origin_ns.unwrap_or(0))
    }

    /// How long the stretches of [`Self::marked_by`] are at least (ns).
    pub fn grain_ns(&self) -> i64 {
        if self.origin_ns.is_some() { self.bucket_ns.max(1) } else { (self.bucket_ns / 64).max(1) }
    }

    /// As a text, which [`Self::decode`] reads.
    pub fn encode(&self) -> String {
        let Self { query, base, buckets, bucket_ns, origin_ns } = self;
        let origin = origin_ns.map_or_else(String::new, |origin| origin.to_string());
        format!("{bucket_ns}\n{origin}\n{buckets}\n{base}\n{query}")
    }

    /// Reads a text that [`Self::encode`] wrote.
    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '\n');
        let bucket_ns = parts.next()?.parse().ok().filter(|ns| *ns > 0)?;
        let origin_ns = match parts.next()? {
            "" => None,
            origin => Some(origin.parse().ok()?),
        };
        let mut text = || parts.next().map(str::to_string);
        let (buckets, base, query) = (text()?, text()?, text()?);
        Some(Self { query, base, buckets, bucket_ns, origin_ns })
    }
}

/// The smallest range with ends at multiples of `unit` from `origin` that covers `range`.
fn widened(range: TimeRange, unit: i64, origin: i64) -> TimeRange {
    let (unit, origin) = (i128::from(unit), i128::from(origin));
    let floor = |at: i128| (at - origin).div_euclid(unit) * unit + origin;
    let cut = |at: i128| i64::try_from(at).unwrap_or(if at < 0 { i64::MIN } else { i64::MAX });
    let to = i128::from(range.to);
    let to = if floor(to) < to { floor(to) + unit } else { to };
    TimeRange::new(cut(floor(i128::from(range.from))), cut(to))
}
