//! The settings of a connection that PostgreSQL's clients set and read (`SET`, `SHOW`, ParameterStatus). Few have an
//! effect; those that cannot be as a client wants them are refused.

use super::digits::Digits;
use super::error::Fault;
use super::time_zone;
use std::collections::BTreeMap;
use std::time::Duration;

const INVALID_VALUE: &str = "22023";

/// Whether transactions may write: those to come, and the one that is open.
pub(super) const DEFAULT_READ_ONLY: &str = "default_transaction_read_only";
pub(super) const READ_ONLY: &str = "transaction_read_only";

/// Name, default, and whether clients are told when it changes.
const KNOWN: &[(&str, &str, bool)] = &[
    ("application_name", "", true),
    ("bytea_output", "hex", false),
    ("client_encoding", "UTF8", true),
    ("client_min_messages", "notice", false),
    ("datestyle", "ISO, MDY", true),
    ("default_transaction_isolation", "read committed", false),
    (DEFAULT_READ_ONLY, "off", true),
    ("extra_float_digits", "1", false),
    ("idle_in_transaction_session_timeout", "0", false),
    ("in_hot_standby", "off", true),
    ("integer_datetimes", "on", true),
    ("intervalstyle", "postgres", true),
    ("is_superuser", "on", true),
    ("password_encryption", "scram-sha-256", false),
    ("jit", "off", false),
    ("lc_collate", "C", false),
    ("lc_ctype", "C", false),
    ("lc_messages", "C", false),
    ("lc_monetary", "C", false),
    ("lc_numeric", "C", false),
    ("lc_time", "C", false),
    ("lock_timeout", "0", false),
    ("max_identifier_length", "63", false),
    ("max_index_keys", "32", false),
    ("row_security", "on", false),
    ("search_path", "\"$user\", public", false),
    ("server_encoding", "UTF8", true),
    ("server_version", SERVER_VERSION, true),
    ("server_version_num", "150000", false),
    ("session_authorization", "", true),
    ("standard_conforming_strings", "on", true),
    ("statement_timeout", "0", false),
    ("synchronous_commit", "on", false),
    ("timestamp_digits", "6", false),
    ("timezone", "UTC", true),
    ("transaction isolation level", "read committed", false),
    ("transaction_isolation", "read committed", false),
    (READ_ONLY, "off", false),
];

/// Settings that say what the server is.
const FIXED: [&str; 12] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "max_index_keys",
    "server_encoding",
    "server_version",
    "server_version_num",
    "session_authorization",
    "transaction isolation level",
];

/// The release whose catalog and protocol clients find.
const SERVER_VERSION: &str = concat!("15.0 (Tickstone ", env!("CARGO_PKG_VERSION"), ")");

/// The settings of a connection.
#[derive(Debug)]
pub(super) struct Guc {
    values: BTreeMap<&'static str, String>,
    /// What RESET goes back to: what the client began with.
    begun: BTreeMap<&'static str, String>,
}

impl Guc {
    /// Those of a client that begins with these parameters.
    ///
    /// # Errors
    /// Where one of them cannot be.
    pub(super) fn of_startup<'a>(
        parameters: impl Iterator<Item = (&'a str, &'a str)>,
        statement_timeout: Option<Duration>,
    ) -> Result<Self, Fault> {
        let values: BTreeMap<_, _> =
            KNOWN.iter().map(|(name, value, _)| (*name, (*value).to_string())).collect();
        let mut guc = Self { values, begun: BTreeMap::new() };
        let timeout = statement_timeout.map_or(0, |limit| limit.as_millis());
        guc.values.insert("statement_timeout", timeout.to_string());
        for (name, value) in parameters {
            match name.to_ascii_lowercase().as_str() {
                "user" => {
                    guc.values.insert("session_authorization", value.to_string());
                }
                "database" => {}
                "replication" if checked_truth("replication", value)? == "off" => {}
                "replication" => return Err(Fault::new("0A000", "replication is not spoken")),
                "options" => {
                    for (name, value) in options(value)? {
                        guc.begin_with(&name, &value)?;
                    }
                }
                name => guc.begin_with(name, value)?,
            }
        }
        if guc.get("application_name") == Some("psql") {
            // It shows what it gets, and reads nothing.
            guc.values.insert("timestamp_digits", "9".to_string());
        }
        guc.begun = guc.values.clone();
        Ok(guc)
    }

    /// The same for a user who may do everything, or may not.
    pub(super) fn of_superuser(mut self, is_superuser: bool) -> Self {
        for values in [&mut self.values, &mut self.begun] {
            values.insert("is_superuser", if is_superuser { "on" } else { "off" }.to_string());
        }
        self
    }

    /// Takes a parameter of the beginning. Names with a point are those of others, as PostgreSQL has it; so are options of
    /// the protocol, which are told apart.
    fn begin_with(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        if name.contains('.') { Ok(()) } else { self.set(name, value) }
    }

    /// Whether a name is one of these.
    pub(super) fn is_known(name: &str) -> bool {
        known(name).is_some()
    }

    /// A setting as it is shown: times with their unit.
    pub(super) fn shown(&self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        Some(match value.parse::<u64>() {
            Ok(millis) if name.ends_with("_timeout") && millis > 0 => with_unit(millis),
            _ => value.to_string(),
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(known(name)?).map(String::as_str)
    }

    /// Every setting and its value.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Those that clients are told of, as they spell them.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN
            .iter()
            .filter(|(_, _, told)| *told)
            .map(|(name, ..)| (spelled(name), self.values[name].as_str()))
    }

    /// Sets one; `DEFAULT` is what the connection began with.
    ///
    /// # Errors
    /// Where there is none of the name, or it cannot be so.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let Some(name) = known(name) else {
            return Err(Fault::new("42704", format!("there is no setting '{name}'")));
        };
        let is_default = |word: &str| value.eq_ignore_ascii_case(word);
        if is_default("default") || name == "timezone" && is_default("local") {
            let begun = self.begun.get(name).cloned();
            self.values.extend(begun.map(|value| (name, value)));
            return Ok(());
        }
        if FIXED.contains(&name) {
            return Err(Fault::new("55P02", format!("'{name}' cannot be changed")));
        }
        let value = checked(name, value)?;
        self.values.insert(name, value);
        Ok(())
    }

    /// Has the transaction that begins be READ ONLY or not, as all are where it does not say; whether that changes
    /// anything.
    pub(super) fn begin_transaction(&mut self, read_only: Option<bool>) -> bool {
        let is_on = read_only.unwrap_or_else(|| self.is_on(DEFAULT_READ_ONLY));
        let value = if is_on { "on" } else { "off" }.to_string();
        self.values.insert(READ_ONLY, value.clone()) != Some(value)
    }

    /// Whether a setting that is on or off is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// Sets all as the connection began.
    pub(super) fn reset(&mut self) {
        self.values = self.begun.clone();
    }

    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// How long a client may leave a transaction open without a word.
    pub(super) fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.time("idle_in_transaction_session_timeout")
    }

    /// A time that bounds something; `None` where it does not.
    fn time(&self, name: &str) -> Option<Duration> {
        let millis = self.get(name).and_then(|millis| millis.parse().ok()).unwrap_or(0);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    pub(super) fn digits(&self) -> Digits {
        match self.get("timestamp_digits") {
            Some("9") => Digits::Nanos,
            _ => Digits::Micros,
        }
    }
}

fn known(name: &str) -> Option<&'static str> {
    let name = if name.eq_ignore_ascii_case("time zone") { "timezone" } else { name };
    KNOWN.iter().map(|(known, ..)| *known).find(|known| known.eq_ignore_ascii_case(name))
}

/// A name as PostgreSQL spells it.
fn spelled(name: &'static str) -> &'static str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

/// The value a setting gets.
fn checked(name: &str, value: &str) -> Result<String, Fault> {
    let refused = |wanted: &str| Fault::new(INVALID_VALUE, format!("{name} = '{value}' cannot be: {wanted}"));
    // Some clients put quotes around what they begin with.
    let plain = value.trim_matches('\'').to_ascii_lowercase().replace(['-', '_', ' '], "");
    match name {
        "client_encoding" if !matches!(plain.as_str(), "utf8" | "unicode" | "sqlascii" | "auto") => {
            Err(refused("texts are UTF8"))
        }
        "client_encoding" => Ok("UTF8".to_string()),
        "datestyle" if !plain.starts_with("iso") && !matches!(plain.as_str(), "mdy" | "dmy" | "ymd") => {
            Err(refused("dates are written in ISO 8601"))
        }
        "datestyle" => Ok("ISO, MDY".to_string()),
        "intervalstyle" if plain != "postgres" => Err(refused("intervals are written in the style postgres")),
        "standard_conforming_strings" if !is_on(&plain) => Err(refused("a backslash stands for itself")),
        "bytea_output" if plain != "hex" => Err(refused("bytes are written in hexadecimal")),
        "timestamp_digits" if !matches!(plain.as_str(), "6" | "9") => {
            Err(refused("timestamps are shown with 6 or 9 digits of a second"))
        }
        "statement_timeout" | "lock_timeout" | "idle_in_transaction_session_timeout" => millis(value)
            .map(|millis| millis.to_string())
            .ok_or_else(|| refused("write milliseconds, or '5s'")),
        DEFAULT_READ_ONLY | READ_ONLY => checked_truth(name, value),
        "timezone" if !time_zone::is_known(value) => Err(refused("there is no such time zone")),
        _ => Ok(value.to_string()),
    }
}

/// `on` or `off`.
fn checked_truth(name: &str, value: &str) -> Result<String, Fault> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".to_string()),
        "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".to_string()),
        _ => Err(Fault::new(INVALID_VALUE, format!("{name} = '{value}' cannot be: it is on or off"))),
    }
}

fn is_on(plain: &str) -> bool {
    matches!(plain, "on" | "true" | "yes" | "1")
}

/// A time in milliseconds: `5000`, `5s`, `1min`.
fn millis(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn with_unit(millis: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = UNITS.iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

/// The settings in `-c name=value --name=value`, the startup parameter `options`; a backslash takes what follows as it is.
fn options(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut words = vec![String::new()];
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(signs.next())),
            sign if sign.is_whitespace() => words.push(String::new()),
            sign => words.last_mut().into_iter().for_each(|word| word.push(sign)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut pairs = Vec::new();
    while let Some(word) = words.next() {
        let pair = match word.as_str() {
            "-c" => words.next(),
            _ => word.strip_prefix("-c").or_else(|| word.strip_prefix("--")).map(str::to_string),
        };
        let Some((name, value)) = pair.as_deref().and_then(|pair| pair.split_once('=')) else {
            let what = format!("'{word}' of the startup parameter options sets nothing");
            return Err(Fault::new("42601", what).hint("write -c name=value"));
        };
        pairs.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
