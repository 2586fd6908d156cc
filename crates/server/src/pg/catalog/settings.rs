//! Settings as tools ask the catalog for them: those that a connection begins with, and what only the catalog says.

use crate::pg::guc::Guc;
use std::sync::LazyLock;

/// A setting.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
}

impl Setting {
    /// What PostgreSQL calls the type of its value.
    pub(super) fn kind(&self) -> &'static str {
        match self.value.as_str() {
            "on" | "off" => "bool",
            number if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => "integer",
            _ => "string",
        }
    }
}

/// What the catalog says of how things are stored.
const OF_THE_CATALOG: [(&str, &str); 2] = [("block_size", "8192"), ("default_table_access_method", "heap")];

/// All of them, by name.
pub(super) static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let setting = |(name, value): (&str, &str)| Setting { name: name.to_string(), value: value.to_string() };
    let mut all: Vec<Setting> = OF_THE_CATALOG.into_iter().map(setting).collect();
    if let Ok(begun) = Guc::of_startup(std::iter::empty(), None) {
        all.extend(begun.all().map(setting));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
});

/// The value of a setting, by its name in any case.
pub(super) fn value(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|known| known.name.eq_ignore_ascii_case(name)).map(|known| known.value.as_str())
}
