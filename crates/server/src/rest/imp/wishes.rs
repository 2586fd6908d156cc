//! What the words of an upload ask for.

use super::super::words::{Fault, Words, wrong};
use super::super::written::{Kind, Written};
use tickstone_model::{ColumnType, PartitionBy};
use tickstone_query::import::{EpochUnit, FileFormat, parse_delimiter};

/// The words of a request. `maxUncommittedRows`, `o3MaxLag` and `durable`, which QuestDB's clients send, change nothing:
/// an upload is one commit, and safe when it is answered.
pub(in super::super) const WORDS: &[&str] = &[
    "name",
    "overwrite",
    "create",
    "timestamp",
    "partitionBy",
    "series",
    "forceHeader",
    "delimiter",
    "atomicity",
    "skipLev",
    "format",
    "fmt",
    "maxUncommittedRows",
    "o3MaxLag",
    "durable",
];

/// What becomes of values that are none of their column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atomicity {
    /// Nothing of the file is taken.
    Abort,
    /// Their rows are not taken.
    SkipRow,
    /// They are NULL.
    SkipCol,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) table: Option<String>,
    pub(super) overwrite: bool,
    pub(super) create: bool,
    pub(super) timestamp: Option<String>,
    pub(super) partition_by: Option<PartitionBy>,
    pub(super) series: Option<Vec<String>>,
    pub(super) force_header: bool,
    pub(super) delimiter: Option<u8>,
    pub(super) atomicity: Option<Atomicity>,
    pub(super) skip_extra: bool,
    pub(super) format: Option<FileFormat>,
    pub(super) types: Vec<(String, ColumnType)>,
    pub(super) units: Vec<(String, EpochUnit)>,
}

impl Wishes {
    /// Those of a request.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn of(query: Option<&str>) -> Result<Self, Fault> {
        let mut words = Words::of_path(query, WORDS)?;
        let fmt = words.take("fmt");
        if let Some(other) = fmt.filter(|fmt| !["tabular", "json"].contains(&fmt.as_str())) {
            let what = "is no form of the report: tabular or json; format= says what the file is";
            return Err(wrong(format!("fmt={other} {what}")));
        }
        let partition_by = words.take("partitionBy").map(|unit| {
            let names = PartitionBy::ALL.map(PartitionBy::name).join(", ");
            PartitionBy::parse(&unit).map_err(|_| wrong(format!("partitionBy={unit} is none of {names}")))
        });
        let delimiter = words.take("delimiter").map(|text| {
            parse_delimiter(&text).ok_or_else(|| wrong(format!("delimiter={text} is no character of ASCII")))
        });
        let atomicity = words.take("atomicity").map(|word| match word.as_str() {
            "abort" => Ok(Atomicity::Abort),
            "skipRow" => Ok(Atomicity::SkipRow),
            "skipCol" => Ok(Atomicity::SkipCol),
            _ => Err(wrong(format!("atomicity={word} is not known: skipCol, skipRow or abort"))),
        });
        let format = words.take("format").map(|name| {
            FileFormat::parse(&name)
                .ok_or_else(|| wrong(format!("format={name} is not known: {}", FileFormat::NAMES)))
        });
        for count in ["maxUncommittedRows", "o3MaxLag"] {
            words.take(count);
        }
        words.switch("durable")?;
        let wishes = Self {
            table: words.take("name"),
            overwrite: words.is_on("overwrite")?,
            create: words.switch("create")?.unwrap_or(true),
            timestamp: words.take("timestamp"),
            partition_by: partition_by.transpose()?,
            series: words
                .take("series")
                .map(|names| names.split(',').map(|name| name.trim().to_string()).collect()),
            force_header: words.is_on("forceHeader")?,
            delimiter: delimiter.transpose()?,
            atomicity: atomicity.transpose()?,
            skip_extra: words.is_on("skipLev")?,
            format: format.transpose()?,
            types: Vec::new(),
            units: Vec::new(),
        };
        if wishes.skip_extra && wishes.atomicity == Some(Atomicity::Abort) {
            return Err(wrong("skipLev leaves values out, and atomicity=abort none: give one of them"));
        }
        Ok(wishes)
    }

    /// Takes the type of a body for its format, where none was given.
    pub(super) fn format_of_type(&mut self, media_type: &str) {
        let format = match media_type {
            "text/csv" => FileFormat::Csv,
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => FileFormat::Ndjson,
            "application/vnd.apache.parquet" => FileFormat::Parquet,
            "application/vnd.apache.arrow.stream" | "application/vnd.apache.arrow.file" => FileFormat::Arrow,
            _ => return,
        };
        self.format.get_or_insert(format);
    }

    /// Takes types of columns from the part `schema`: `[{"name": …, "type": …, "pattern": …}]`.
    ///
    /// # Errors
    /// Where it is no such list, or a type or pattern of it is not read.
    pub(super) fn take_schema(&mut self, text: &str) -> Result<(), Fault> {
        let no_list = "the part schema is no list of columns: [{\"name\": \"ts\", \"type\": \"TIMESTAMP\"}]";
        let Kind::Array(columns) = Written::read(text, no_list)?.kind else { return Err(wrong(no_list)) };
        for column in columns {
            let Kind::Object(words) = column.kind else { return Err(wrong(no_list)) };
            let word = |name: &str| match words.iter().find(|(known, _)| known == name) {
                Some((_, Written { kind: Kind::Text(text), .. })) => Some(text.as_str()),
                _ => None,
            };
            let (Some(name), Some(kind)) = (word("name"), word("type")) else { return Err(wrong(no_list)) };
            if let Some(pattern) = word("pattern").filter(|pattern| !is_iso(pattern)) {
                return Err(wrong(format!(
                    "schema: the pattern '{pattern}' of '{name}' is not read: times are ISO 8601 (yyyy-MM-dd HH:mm:ss.N), \
                     or numbers of type TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP_US or TIMESTAMP_NS"
                )));
            }
            let (column_type, unit) = column_type(name, kind)?;
            self.types.push((name.to_string(), column_type));
            self.units.extend(unit.map(|unit| (name.to_string(), unit)));
        }
        Ok(())
    }
}

/// A type by the name that SQL or QuestDB has for it, and the unit of its numbers where it says one.
fn column_type(column: &str, name: &str) -> Result<(ColumnType, Option<EpochUnit>), Fault> {
    use EpochUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let units = [Second, Millisecond, Microsecond, Nanosecond];
    if let Some(unit) = units.into_iter().find(|unit| unit.type_name().eq_ignore_ascii_case(name)) {
        return Ok((ColumnType::Timestamp, Some(unit)));
    }
    match name.to_ascii_uppercase().as_str() {
        "BYTE" => Ok((ColumnType::Int8, None)),
        "CHAR" | "IPV4" => Ok((ColumnType::Varchar, None)),
        _ => match ColumnType::parse(name) {
            Ok(column_type) => Ok((column_type, None)),
            Err(error) => Err(wrong(format!("schema: the type of '{column}': {error}"))),
        },
    }
}

/// Whether times of a pattern, as QuestDB writes these, are read anyway.
fn is_iso(pattern: &str) -> bool {
    let plain = pattern.replace('\'', "");
    let Some(clock) = plain.strip_prefix("yyyy-MM-dd") else { return false };
    if clock.is_empty() {
        return true;
    }
    let Some(seconds) = clock.strip_prefix(['T', ' ']).and_then(|clock| clock.strip_prefix("HH:mm")) else {
        return false;
    };
    let seconds = seconds.trim_end_matches(['Z', 'z']);
    let fraction = seconds.strip_prefix(":ss").unwrap_or(seconds);
    let is_fraction = |digits: &str| !digits.is_empty() && digits.chars().all(|c| "SUN+".contains(c));
    fraction.is_empty() || fraction.strip_prefix('.').is_some_and(is_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_iso() {
        for pattern in
            ["yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-ddTHH:mm:ss.SSSUUUZ", "yyyy-MM-dd'T'HH:mm:ss.N+Z"]
        {
            assert!(is_iso(pattern), "{pattern}");
        }
        for pattern in
            ["dd/MM/yyyy", "yyyy-MM-dd - HH:mm:ss", "yyyy-MM-dd HH:mm:ss a", "yyyy-MM-ddTHH:mm:ss."]
        {
            assert!(!is_iso(pattern), "{pattern}");
        }
    }

    #[test]
    fn types_by_both_names() {
        let of = |name| column_type("x", name).map_err(|(_, what)| what);
        assert_eq!(of("byte"), Ok((ColumnType::Int8, None)));
        assert_eq!(of("STRING"), Ok((ColumnType::Varchar, None)));
        assert_eq!(of("double[]").map(|(found, _)| found.to_string()), Ok("DOUBLE[]".into()));
        assert_eq!(of("TIMESTAMP_MS"), Ok((ColumnType::Timestamp, Some(EpochUnit::Millisecond))));
        assert!(of("GEOHASH(5c)").is_err_and(|what| what.starts_with("schema: the type of 'x': ")));
    }
}
