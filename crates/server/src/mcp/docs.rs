//! The pages of the SQL reference, as an assistant reads them.

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// Its name in `tickstone://docs/…`.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The clauses and statements that it explains.
    pub(super) topics: &'static [&'static str],
    pub(super) text: &'static str,
}

macro_rules! page {
    ($name:literal, $about:literal, $topics:expr) => {
        Page {
            name: $name,
            about: $about,
            topics: &$topics,
            text: include_str!(concat!("../../../../docs/sql/", $name, ".md")),
        }
    };
}

/// All that help to read.
pub(super) const PAGES: &[Page] = &[
    page!("README", "what the SQL is, and all pages", []),
    page!(
        "sample-by",
        "bars of a length of time, their gaps, calendars and time zones",
        ["SAMPLE BY", "FILL", "ALIGN TO", "TIME_BUCKET"]
    ),
    page!(
        "bars",
        "bars of a volume, a value or a number of trades",
        ["SAMPLE BY VOLUME", "SAMPLE BY VALUE", "SAMPLE BY TICKS"]
    ),
    page!("latest-on", "the newest row of each key", ["LATEST ON", "LATEST BY"]),
    page!("time-filters", "conditions on the time: ts IN '2024-08-08'", ["TIME FILTERS", "TS IN"]),
    page!(
        "asof-join",
        "what stood at the time: each trade with its quote",
        ["ASOF JOIN", "LT JOIN", "TOLERANCE"]
    ),
    page!("window-join", "aggregates of what happened around each row", ["WINDOW JOIN"]),
    page!("horizon-join", "what came of it: markouts, slippage, impact", ["HORIZON JOIN"]),
    page!("splice-join", "both sides as one, in order of time", ["SPLICE JOIN"]),
    page!("nbbo", "the best bid and offer over all venues", ["NBBO"]),
    page!("pivot", "values as columns, and the reverse", ["PIVOT", "UNPIVOT"]),
    page!("functions", "aggregates, quotes, books, returns, indicators over windows", []),
    page!("arrays", "columns of arrays: order books in a row", ["ARRAYS", "UNNEST"]),
    page!("table-sample", "a part of a table by chance", ["TABLESAMPLE"]),
    page!("create-table", "tables, types, the designated timestamp, the series key, partitions", ["TYPES"]),
    page!("views", "queries with a name", ["VIEWS", "SHOW VIEWS"]),
    page!(
        "materialized-views",
        "bars that are stored and stay current",
        ["MATERIALIZED VIEWS", "CREATE MATERIALIZED VIEW", "REFRESH"]
    ),
    page!("explain", "how a query runs and what it reads", ["EXPLAIN", "EXPLAIN ANALYZE"]),
    page!("queries", "what runs now", ["SHOW QUERIES"]),
    page!("metrics", "what the database counts, and its settings", ["SHOW METRICS", "SHOW CONFIG"]),
    page!("memory", "what a query may hold, and what fails", []),
    page!("limits", "how deep and how large a statement may be", []),
];

impl Page {
    /// That of a name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PAGES.iter().find(|page| page.name == name)
    }

    /// That which explains a clause, in any case.
    pub(super) fn about(topic: &str) -> Option<&'static Self> {
        PAGES.iter().find(|page| page.topics.iter().any(|own| own.eq_ignore_ascii_case(topic)))
    }

    /// Its title.
    pub(super) fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// Its blocks of SQL.
    pub(super) fn examples(&self) -> impl Iterator<Item = &'static str> {
        let block = |rest: &'static str| rest.split("```").next().unwrap_or_default().trim();
        self.text.split("```sql\n").skip(1).map(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_are_found() {
        let names: BTreeSet<&str> = PAGES.iter().map(|page| page.name).collect();
        assert_eq!(names.len(), PAGES.len());
        let topics: Vec<&str> = PAGES.iter().flat_map(|page| page.topics).copied().collect();
        assert_eq!(topics.iter().collect::<BTreeSet<_>>().len(), topics.len());
        for page in PAGES {
            assert!(page.text.starts_with("# ") && !page.title().is_empty(), "{}", page.name);
        }
        assert_eq!(Page::about("asof join").map(|page| page.name), Some("asof-join"));
        assert_eq!(
            Page::named("latest-on").and_then(|page| page.examples().next()).map(|sql| &sql[..12]),
            Some("CREATE TABLE")
        );
    }
}
