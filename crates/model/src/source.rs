//! Where a table's rows come from, where they are parsed from the documents of a stream.

use crate::is_same_name;

/// How the documents of a stream are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamFormat {
    /// JSON objects: one a document, or one a line of it.
    Json,
    /// Records of CSV without a header, one or more a document, in the order of the table's columns.
    Csv,
    /// Lines of line protocol, one or more a document; those of other tables are passed over.
    Ilp,
}

impl StreamFormat {
    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            StreamFormat::Json => "json",
            StreamFormat::Csv => "csv",
            StreamFormat::Ilp => "ilp",
        }
    }

    /// Reads a name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Json, Self::Csv, Self::Ilp].into_iter().find(|format| format.name().eq_ignore_ascii_case(text))
    }
}

/// The stream that a table's rows are parsed from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamSource {
    /// Its name.
    pub stream: String,
    /// How its documents are written.
    pub format: StreamFormat,
    /// The unit of whole numbers that are times: `s`, `ms`, `us` or `ns`; empty where they are none.
    pub epoch: String,
    /// What tells this table's progress from that of any other: no other table has or had it.
    pub key: String,
    /// Keys of the documents that are columns of another name, and these names.
    pub renames: Vec<(String, String)>,
}

impl StreamSource {
    /// As a text, which [`Self::decode`] reads.
    pub fn encode(&self) -> String {
        let head = format!("{}\n{}\n{}\n{}", self.format.name(), self.epoch, self.key, self.stream);
        self.renames.iter().fold(head, |text, (key, column)| format!("{text}\n{key}\t{column}"))
    }

    /// Reads a text that [`Self::encode`] wrote.
    pub fn decode(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let mut part = || lines.next().map(str::to_string);
        let format = StreamFormat::parse(&part()?)?;
        let (epoch, key, stream) = (part()?, part()?, part()?);
        let pair =
            |line: &str| line.split_once('\t').map(|(key, column)| (key.to_string(), column.to_string()));
        Some(Self { format, epoch, key, stream, renames: lines.map(pair).collect::<Option<_>>()? })
    }

    /// The key of the documents that fills a column.
    pub fn key_of<'a>(&'a self, column: &'a str) -> &'a str {
        let renamed = self.renames.iter().find(|(_, name)| is_same_name(name, column));
        renamed.map_or(column, |(key, _)| key)
    }

    /// A column has another name from here on: it is filled by the key that was given a name of its own, else by that of
    /// its new name.
    pub(crate) fn rename_column(&mut self, from: &str, to: &str) {
        let renamed = self.renames.iter_mut().filter(|(_, name)| is_same_name(name, from));
        renamed.for_each(|(_, name)| *name = to.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_was_written() {
        let none = StreamSource {
            stream: "raw".to_string(),
            format: StreamFormat::Json,
            epoch: "ms".to_string(),
            key: "t-1".to_string(),
            renames: Vec::new(),
        };
        // As earlier builds wrote it.
        assert_eq!(none.encode(), "json\nms\nt-1\nraw");
        let pair = |key: &str, column: &str| (key.to_string(), column.to_string());
        let mut some =
            StreamSource { renames: vec![pair("E", "event_time"), pair("e", "kind")], ..none.clone() };
        for source in [&none, &some] {
            assert_eq!(StreamSource::decode(&source.encode()).as_ref(), Some(source));
        }
        assert_eq!([some.key_of("event_time"), some.key_of("Kind"), some.key_of("px")], ["E", "e", "px"]);
        some.rename_column("event_time", "at");
        assert_eq!([some.key_of("at"), some.key_of("event_time")], ["E", "event_time"]);
    }
}
