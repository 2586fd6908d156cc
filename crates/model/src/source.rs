//! Where a table's rows come from, where they are parsed from the documents of a stream.

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
}

impl StreamSource {
    /// As a text, which [`Self::decode`] reads.
    pub fn encode(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.format.name(), self.epoch, self.key, self.stream)
    }

    /// Reads a text that [`Self::encode`] wrote.
    pub fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '\n').map(str::to_string);
        let format = StreamFormat::parse(&parts.next()?)?;
        Some(Self { format, epoch: parts.next()?, key: parts.next()?, stream: parts.next()? })
    }
}
