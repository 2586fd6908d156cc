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
    Text { delimiter: u8, null: String, header: bool },
    /// RFC 4180.
    Csv { delimiter: u8, null: String, quote: u8, escape: u8, header: bool },
    /// Lengths and bytes.
    Binary,
}

impl Format {
    /// What the options of a statement say.
    ///
    /// # Errors
    /// Where there is no such option, or it cannot be so.
    pub(super) fn of_options(options: &[(String, String)]) -> Result<Self, Fault> {
        let get = |name: &str| {
            options.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        const KNOWN: [&str; 7] = ["format", "delimiter", "null", "quote", "escape", "header", "encoding"];
        if let Some((name, _)) = options.iter().find(|(name, _)| !KNOWN.contains(&name.as_str())) {
            return Err(Fault::new("42601", format!("COPY has no option '{name}'"))
                .hint("there are FORMAT, DELIMITER, NULL, HEADER, QUOTE and ESCAPE"));
        }
        if let Some(encoding) =
            get("encoding").filter(|of| !of.replace(['-', '_'], "").eq_ignore_ascii_case("utf8"))
        {
            return Err(Fault::new("0A000", format!("texts are UTF8, not '{encoding}'")));
        }
        let header = match get("header").map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "off" | "0") => false,
            Some("true" | "on" | "1") => true,
            Some(other) => {
                return Err(Fault::new(
                    INVALID_OPTION,
                    format!("HEADER of COPY is true or false, not '{other}'"),
                ));
            }
        };
        let sign = |name: &str, default: u8| match get(name).map(str::as_bytes) {
            None => Ok(default),
            Some([byte]) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
            Some(_) => Err(Fault::new(INVALID_OPTION, format!("{name} of COPY is one character"))),
        };
        let null = |default: &str| get("null").unwrap_or(default).to_string();
        match get("format").unwrap_or("text").to_ascii_lowercase().as_str() {
            "text" => Ok(Format::Text { delimiter: sign("delimiter", b'\t')?, null: null("\\N"), header }),
            "csv" => {
                let quote = sign("quote", b'"')?;
                let (delimiter, escape) = (sign("delimiter", b',')?, sign("escape", quote)?);
                Ok(Format::Csv { delimiter, null: null(""), quote, escape, header })
            }
            "binary" => Ok(Format::Binary),
            other => Err(Fault::new(INVALID_OPTION, format!("COPY has no format '{other}'"))
                .hint("there are text, csv and binary; files in other formats: COPY … 'file'")),
        }
    }

    /// The format of each field, as the protocol numbers them.
    pub(super) fn code(&self) -> i16 {
        i16::from(*self == Format::Binary)
    }
}
