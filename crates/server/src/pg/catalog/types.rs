//! PostgreSQL's types (`types.txt`), and what SQL calls them.

use crate::pg::types as wire;
use std::sync::LazyLock;
use tickstone_query::arrow::datatypes::DataType;

/// What PostgreSQL adds to the digits of a numeric that it packs.
pub(super) const VARHDRSZ: i32 = 4;

/// A type.
#[derive(Debug)]
pub(super) struct PgType {
    pub(super) oid: u32,
    pub(super) name: &'static str,
    pub(super) sql_name: &'static str,
    /// The other columns of `types.txt`, as it has them.
    pub(super) rest: Vec<&'static str>,
}

/// Places in [`PgType::rest`].
pub(super) const LENGTH: usize = 0;
pub(super) const BY_VALUE: usize = 1;
pub(super) const KIND: usize = 2;
pub(super) const CATEGORY: usize = 3;
pub(super) const PREFERRED: usize = 4;
pub(super) const ELEMENT: usize = 5;
pub(super) const ARRAY: usize = 6;
pub(super) const INPUT: usize = 7;
pub(super) const OUTPUT: usize = 8;
pub(super) const RECEIVE: usize = 9;
pub(super) const SEND: usize = 10;
pub(super) const ALIGN: usize = 11;
pub(super) const STORAGE: usize = 12;
pub(super) const COLLATION: usize = 13;

impl PgType {
    pub(super) fn text(&self, place: usize) -> &'static str {
        self.rest.get(place).copied().unwrap_or_default()
    }

    pub(super) fn number(&self, place: usize) -> i64 {
        self.text(place).parse().unwrap_or_default()
    }
}

/// All of them.
pub(super) static TYPES: LazyLock<Vec<PgType>> = LazyLock::new(|| {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut fields = line.split('|');
            let (oid, name, sql_name) = (fields.next()?.parse().ok()?, fields.next()?, fields.next()?);
            Some(PgType { oid, name, sql_name, rest: fields.collect() })
        })
        .collect()
});

/// Other words of SQL for types.
const SYNONYMS: [(&str, &str); 8] = [
    ("int", "int4"),
    ("decimal", "numeric"),
    ("float", "float8"),
    ("string", "varchar"),
    ("symbol", "varchar"),
    ("double", "float8"),
    ("dec", "numeric"),
    ("character", "bpchar"),
];

pub(super) fn get(oid: u32) -> Option<&'static PgType> {
    TYPES.iter().find(|known| known.oid == oid)
}

/// By its name in `pg_type` or in SQL; digits in brackets do not matter.
pub(super) fn named(name: &str) -> Option<&'static PgType> {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).trim_matches('"');
    if let Some(element) = name.strip_suffix("[]") {
        return get(u32::try_from(named(element)?.number(ARRAY)).ok()?);
    }
    let bare = match (name.find('('), name.find(')')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}{}", name[..open].trim_end(), &name[close + 1..])
        }
        _ => name.to_string(),
    };
    let name = SYNONYMS.iter().find(|(synonym, _)| *synonym == bare).map_or(bare.as_str(), |(_, name)| name);
    TYPES.iter().find(|known| known.name == name || known.sql_name == name)
}

/// The number of the type that values of an Arrow type are sent as.
pub(super) fn oid(data_type: &DataType) -> u32 {
    wire::of(data_type).oid()
}

/// What SQL calls a type with the digits of a numeric, `???` where there is no such type.
pub(super) fn format(oid: u32, modifier: Option<i64>) -> String {
    let Some(found) = get(oid) else { return if oid == 0 { "-" } else { "???" }.to_string() };
    let digits =
        modifier.filter(|packed| *packed >= i64::from(VARHDRSZ)).map(|packed| packed - i64::from(VARHDRSZ));
    match (found.sql_name, digits) {
        ("numeric", Some(packed)) => format!("numeric({},{})", packed >> 16, packed & 0xffff),
        ("numeric[]", Some(packed)) => format!("numeric({},{})[]", packed >> 16, packed & 0xffff),
        ("character varying" | "character", Some(length)) => format!("{}({length})", found.sql_name),
        (name, _) => name.to_string(),
    }
}
