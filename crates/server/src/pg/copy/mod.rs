//! COPY between a table and the client, in PostgreSQL's text, CSV and binary formats ("COPY", "File Formats").

mod binary;
mod fill;
mod lines;
mod out;

pub(super) use fill::Filler;
pub(super) use out::Writer;

use super::error::Fault;

/// A value that an option of COPY cannot have.
const INVALID_OPTION: &str = "22023";

/// How rows are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// A row a line; what the format itself needs is written with a backslash.
    Text { delimiter: u8, null: String, header: Header },
    /// RFC 4180.
    Csv { delimiter: u8, null: String, quote: u8, escape: u8, header: Header },
    /// Lengths and bytes.
    Binary,
}

/// A line with the names of the columns before the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    None,
    /// There is one; where rows come in, it is passed over.
    Names,
    /// Its names must be those of the columns.
    Match,
}

/// Options of COPY, and those that need CSV.
const OPTIONS: [&str; 7] = ["format", "encoding", "header", "delimiter", "null", "quote", "escape"];
const OF_CSV: [&str; 2] = ["quote", "escape"];

impl Format {
    /// What the options of a COPY from or to the client say.
    ///
    /// # Errors
    /// Where there is no such option, it is said twice, or it cannot be so.
    pub(super) fn of_options(options: &[(String, String)], from_client: bool) -> Result<Self, Fault> {
        for (place, (name, _)) in options.iter().enumerate() {
            if !OPTIONS.contains(&name.as_str()) {
                return Err(Fault::new("42601", format!("COPY has no option '{name}'"))
                    .hint("there are FORMAT, DELIMITER, NULL, HEADER, QUOTE and ESCAPE"));
            }
            if options[..place].iter().any(|(other, _)| other == name) {
                return Err(Fault::new("42601", format!("option {name} of COPY is given twice")));
            }
        }
        let get =
            |name: &str| options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if let Some(encoding) =
            get("encoding").filter(|of| !of.replace(['-', '_'], "").eq_ignore_ascii_case("utf8"))
        {
            return Err(Fault::new("0A000", format!("texts are UTF8, not '{encoding}'")));
        }
        let of_name = get("format").unwrap_or("text").to_ascii_lowercase();
        let unused = match of_name.as_str() {
            "text" => &OF_CSV[..],
            "binary" => &OPTIONS[2..],
            _ => &[],
        };
        if let Some(name) = unused.iter().find(|name| get(name).is_some()) {
            return Err(Fault::new("0A000", format!("option {name} of COPY is not of the format {of_name}")));
        }
        let header = header(get("header"), from_client)?;
        let sign = |name: &str, default: u8| match get(name).map(str::as_bytes) {
            None => Ok(default),
            Some([byte]) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
            Some(_) => Err(Fault::new(INVALID_OPTION, format!("{name} of COPY is one character"))),
        };
        let null = |default: &str| get("null").unwrap_or(default).to_string();
        let format = match of_name.as_str() {
            "text" => Format::Text { delimiter: sign("delimiter", b'\t')?, null: null("\\N"), header },
            "csv" => {
                let quote = sign("quote", b'"')?;
                let (delimiter, escape) = (sign("delimiter", b',')?, sign("escape", quote)?);
                Format::Csv { delimiter, null: null(""), quote, escape, header }
            }
            "binary" => Format::Binary,
            other => {
                return Err(Fault::new(INVALID_OPTION, format!("COPY has no format '{other}'"))
                    .hint("there are text, csv and binary; files in other formats: COPY … 'file'"));
            }
        };
        match format.ambiguity() {
            Some(what) => Err(Fault::new(INVALID_OPTION, what)),
            None => Ok(format),
        }
    }

    /// Why what is written so could not be read.
    fn ambiguity(&self) -> Option<String> {
        let (Format::Text { delimiter, null, .. } | Format::Csv { delimiter, null, .. }) = self else {
            return None;
        };
        let has = |sign: u8| null.as_bytes().contains(&sign);
        let quote = match self {
            Format::Csv { quote, .. } => Some(*quote),
            _ => None,
        };
        if quote.is_none() && (delimiter.is_ascii_alphanumeric() || matches!(delimiter, b'\\' | b'.')) {
            return Some(format!("delimiter of COPY in text cannot be '{}'", char::from(*delimiter)));
        }
        if quote == Some(*delimiter) {
            return Some("delimiter and quote of COPY must be different".to_string());
        }
        if has(b'\n') || has(b'\r') {
            return Some("null of COPY cannot have an end of line".to_string());
        }
        if has(*delimiter) || quote.is_some_and(has) {
            return Some("null of COPY cannot have the delimiter or the quote in it".to_string());
        }
        None
    }

    /// The format of each field, as the protocol numbers them.
    pub(super) fn code(&self) -> i16 {
        i16::from(*self == Format::Binary)
    }
}

fn header(value: Option<&str>, from_client: bool) -> Result<Header, Fault> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("false" | "off" | "0") => Ok(Header::None),
        Some("true" | "on" | "1") => Ok(Header::Names),
        Some("match") if from_client => Ok(Header::Match),
        Some("match") => Err(Fault::new("0A000", "HEADER match is of COPY … FROM")),
        Some(other) => {
            let what = format!("HEADER of COPY is true, false or match, not '{other}'");
            Err(Fault::new("42601", what))
        }
    }
}
