//! The settings of a server: from the command line, the environment, a file, or their defaults, in this order.
//!
//! One table ([`SETTINGS`]) has them all: their flags (`--http-port`), variables (`TICKSTONE_HTTP_PORT`), keys of the file
//! (`http_port = 9000`), the page of the docs and SHOW CONFIG are made of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;
use tickstone_model::Ttl;
use tickstone_query::paths::Allowed;
use tickstone_query::{ShownSetting, parse_size};
use tracing::warn;

/// What the names of variables of the environment begin with.
const VARIABLES: &str = "TICKSTONE_";

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the file and in SHOW CONFIG.
    pub name: &'static str,
    /// What it can be.
    pub kind: Kind,
    /// What it is where nobody says.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// What a setting can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Count,
    /// The number of a port, 0 for any that is free, or `off`.
    Port,
    /// A size: `64MB`, `1GB`.
    Bytes,
    /// A size that may be 0, for nothing.
    BytesOrNone,
    /// A time: `1ms`, `30s`, `5m`; 0 for none.
    Time,
}

/// Every setting.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "host",
        kind: Kind::Text,
        default: "127.0.0.1",
        about: "the address that all ports are bound to; beyond loopback only with users and TLS, or insecure = true",
    },
    Setting {
        name: "insecure",
        kind: Kind::Text,
        default: "false",
        about: "serve beyond loopback without users (users), without require_tls (tls), or without both (true)",
    },
    Setting {
        name: "tls_certificate",
        kind: Kind::Text,
        default: "",
        about: "a PEM file with the certificate of the server, and those that vouch for it behind it; every port then speaks TLS with clients that do, and the file is read again when it changes",
    },
    Setting {
        name: "tls_key",
        kind: Kind::Text,
        default: "",
        about: "a PEM file with the key of that certificate",
    },
    Setting {
        name: "tls_client_ca",
        kind: Kind::Text,
        default: "",
        about: "a PEM file with the authorities of clients' certificates, and their lists of revoked ones: a client with a certificate is the user of its common name",
    },
    Setting {
        name: "require_tls",
        kind: Kind::Switch,
        default: "false",
        about: "refuse clients that do not speak TLS, on every port",
    },
    Setting {
        name: "http_port",
        kind: Kind::Port,
        default: "9000",
        about: "the port of REST and of line protocol over HTTP, as QuestDB's",
    },
    Setting {
        name: "influx_port",
        kind: Kind::Port,
        default: "8086",
        about: "a second port of line protocol over HTTP, as InfluxDB's",
    },
    Setting {
        name: "pg_port",
        kind: Kind::Port,
        default: "8812",
        about: "the port of the PostgreSQL protocol, as QuestDB's",
    },
    Setting { name: "flight_port", kind: Kind::Port, default: "8815", about: "the port of Arrow Flight SQL" },
    Setting {
        name: "ilp_port",
        kind: Kind::Port,
        default: "9009",
        about: "the port of line protocol over TCP, as QuestDB's",
    },
    Setting {
        name: "stream_port",
        kind: Kind::Port,
        default: "8888",
        about: "the port of raw streams, as CakeDB's",
    },
    Setting {
        name: "connections_max",
        kind: Kind::Count,
        default: "4096",
        about: "the most connections of all ports together; one more is closed at once",
    },
    Setting {
        name: "request_bytes_max",
        kind: Kind::Bytes,
        default: "256MB",
        about: "the longest body of a request, after it was unpacked",
    },
    Setting {
        name: "requests_bytes_max",
        kind: Kind::Bytes,
        default: "1GB",
        about: "how much the bodies of all requests may take together; one more is told to try again",
    },
    Setting {
        name: "idle_timeout",
        kind: Kind::Time,
        default: "30s",
        about: "how long a client may take over the head of a request or a piece of its body, or keep an HTTP connection without any",
    },
    Setting {
        name: "send_timeout",
        kind: Kind::Time,
        default: "5m",
        about: "how long a client of the PostgreSQL port or of QWP may take none of what is sent to it before it is cut off",
    },
    Setting {
        name: "statement_timeout",
        kind: Kind::Time,
        default: "0",
        about: "how long a statement may run; 0 for as long as it takes",
    },
    Setting {
        name: "slow_statement",
        kind: Kind::Time,
        default: "1s",
        about: "statements that take longer are logged; 0 for none",
    },
    Setting {
        name: "audit",
        kind: Kind::Text,
        default: "off",
        about: "what the table audit keeps: off, changes (logins, statements that change something, rows that come) or all (also statements that read)",
    },
    Setting {
        name: "audit_ttl",
        kind: Kind::Text,
        default: "90d",
        about: "how long rows of the audit log are kept, as in 90d; 0 for ever",
    },
    Setting {
        name: "audit_required",
        kind: Kind::Switch,
        default: "false",
        about: "refuse what the audit log should keep while it cannot be written",
    },
    Setting {
        name: "ilp_commit_rows",
        kind: Kind::Count,
        default: "65536",
        about: "rows of a connection of line protocol over TCP that are committed without waiting for more",
    },
    Setting {
        name: "ilp_line_bytes_max",
        kind: Kind::Bytes,
        default: "1MB",
        about: "the longest line over TCP; a longer one ends the connection",
    },
    Setting {
        name: "ilp_commit_delay",
        kind: Kind::Time,
        default: "1ms",
        about: "how long rows of line protocol over TCP wait for more before they are committed",
    },
    Setting {
        name: "stream_memory",
        kind: Kind::Bytes,
        default: "1GB",
        about: "how much documents of streams may take that wait for the disk; past that no more are read",
    },
    Setting {
        name: "stream_patience",
        kind: Kind::Time,
        default: "30s",
        about: "how long a connection of streams waits for room in stream_memory before it is closed; 0 for as long as it takes",
    },
    Setting {
        name: "tape_keep_bytes",
        kind: Kind::BytesOrNone,
        default: "256MB",
        about: "how much of the tape stays, with parts that were merged since, for subscriptions that resume; 0 for nothing. Where the disk is full, it goes",
    },
    Setting {
        name: "tape_keep_age",
        kind: Kind::Time,
        default: "1h",
        about: "how long that stays; 0 for as long as there is room",
    },
    Setting {
        name: "qwp_message_bytes_max",
        kind: Kind::Bytes,
        default: "16MB",
        about: "the longest message of rows over QWP; clients are told, and cut theirs accordingly",
    },
    Setting {
        name: "qwp_deferred_bytes_max",
        kind: Kind::Bytes,
        default: "256MB",
        about: "how much the messages of one transaction over QWP may take",
    },
    Setting {
        name: "flight_handles_max",
        kind: Kind::Count,
        default: "4096",
        about: "the most sessions and transactions, and the most prepared statements, that clients of Flight SQL may hold",
    },
    Setting {
        name: "flight_idle_timeout",
        kind: Kind::Time,
        default: "10m",
        about: "how long a session, transaction or prepared statement of Flight SQL is kept that nobody uses; 0 for always",
    },
    Setting {
        name: "mcp_rows_max",
        kind: Kind::Count,
        default: "1000",
        about: "the most rows that an assistant gets of a statement over MCP",
    },
    Setting {
        name: "mcp_answer_bytes_max",
        kind: Kind::Bytes,
        default: "128KB",
        about: "about how much of a statement's rows an assistant gets over MCP",
    },
    Setting {
        name: "mcp_cell_chars_max",
        kind: Kind::Count,
        default: "1000",
        about: "the characters that an assistant gets of one value over MCP",
    },
    Setting {
        name: "mcp_timeout",
        kind: Kind::Time,
        default: "30s",
        about: "how long a tool of MCP may take; 0 for as long as it takes",
    },
    Setting {
        name: "files",
        kind: Kind::Text,
        default: "",
        about: "the directory that statements may name files in (COPY, FROM 'file'); none where it is empty",
    },
    Setting {
        name: "auto_create_tables",
        kind: Kind::Switch,
        default: "true",
        about: "whether rows make tables that are not there",
    },
    Setting {
        name: "auto_create_columns",
        kind: Kind::Switch,
        default: "true",
        about: "whether rows make columns that are not there",
    },
    Setting {
        name: "auto_create_streams",
        kind: Kind::Switch,
        default: "true",
        about: "whether opening a stream makes one that is not there",
    },
    Setting {
        name: "shutdown_timeout",
        kind: Kind::Time,
        default: "10s",
        about: "how long connections may go on when the server is told to stop",
    },
    Setting {
        name: "log_format",
        kind: Kind::Text,
        default: "text",
        about: "how the log is written: text or json",
    },
    Setting {
        name: "log_level",
        kind: Kind::Text,
        default: "info",
        about: "what is logged: error, warn, info, debug or trace",
    },
];

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody said.
    Default,
    /// The configuration file.
    File,
    /// The environment.
    Environment,
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Default => "default",
            Origin::File => "file",
            Origin::Environment => "environment",
            Origin::Flag => "flag",
        })
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SettingError {
    message: String,
}

impl SettingError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The value of every setting, and where it comes from.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Default for Settings {
    fn default() -> Self {
        let of = |setting: &Setting| (setting.name, (setting.default.to_string(), Origin::Default));
        Self { values: SETTINGS.iter().map(of).collect() }
    }
}

impl Settings {
    /// Sets one, unless something stronger has said what it is.
    ///
    /// # Errors
    /// Where there is no such setting, or it cannot be this.
    pub fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), SettingError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let near = nearest(name).map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            return Err(SettingError::new(format!("there is no setting '{name}'{near}")));
        };
        check(setting, value)?;
        let held = self.values.entry(setting.name).or_insert_with(|| (String::new(), Origin::Default));
        if origin >= held.1 {
            *held = (value.to_string(), origin);
        }
        Ok(())
    }

    /// Takes the settings of a configuration file (TOML: `name = value`).
    ///
    /// # Errors
    /// Where it is no TOML, with the line, and as [`Self::set`].
    pub fn read_file(&mut self, text: &str) -> Result<(), SettingError> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| SettingError::new(error.to_string()))?;
        for (name, value) in &table {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(switch) => switch.to_string(),
                toml::Value::Float(number) => number.to_string(),
                _ => return Err(SettingError::new(format!("'{name}' is no setting: write name = value"))),
            };
            self.set(name, &value, Origin::File)?;
        }
        Ok(())
    }

    /// Takes the settings of variables of the environment: `TICKSTONE_HTTP_PORT`.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn read_environment(
        &mut self,
        mut variable: impl FnMut(&str) -> Option<String>,
    ) -> Result<(), SettingError> {
        for setting in SETTINGS {
            let name = format!("{VARIABLES}{}", setting.name.to_ascii_uppercase());
            if let Some(value) = variable(&name) {
                let set = self.set(setting.name, &value, Origin::Environment);
                set.map_err(|error| SettingError::new(format!("{name}: {error}")))?;
            }
        }
        Ok(())
    }

    /// Each setting with its value and where that comes from.
    pub fn all(&self) -> impl Iterator<Item = (&'static Setting, &str, Origin)> {
        SETTINGS.iter().map(|setting| {
            let (value, origin) = &self.values[setting.name];
            (setting, value.as_str(), *origin)
        })
    }

    /// All of them, for SHOW CONFIG.
    pub(crate) fn shown(&self) -> Vec<ShownSetting> {
        let shown = |(setting, value, origin): (&Setting, &str, Origin)| ShownSetting {
            name: setting.name.to_string(),
            value: value.to_string(),
            default: setting.default.to_string(),
            unit: String::new(),
            origin: origin.to_string(),
            description: setting.about.to_string(),
        };
        self.all().map(shown).collect()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(value, _)| value)
    }

    /// Which files statements may name: those of one directory, or none.
    pub(crate) fn allowed_files(&self) -> Allowed {
        match self.text("files") {
            "" => Allowed::Nothing,
            directory => Allowed::Below(directory.into()),
        }
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or(0)
    }

    /// The address that ports are bound to.
    pub(crate) fn host(&self) -> Option<IpAddr> {
        address(self.text("host"))
    }

    /// The number of a port; `None` where it is off.
    pub(crate) fn port(&self, name: &str) -> Option<u16> {
        self.text(name).parse().ok()
    }

    pub(crate) fn bytes(&self, name: &str) -> usize {
        parse_bytes(self.text(name)).unwrap_or(0)
    }

    /// A time; `None` where it is 0.
    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        parse_time(self.text(name)).filter(|time| !time.is_zero())
    }
}

fn check(setting: &Setting, value: &str) -> Result<(), SettingError> {
    let (fits, wanted) = match setting.kind {
        Kind::Text => (word_fits(setting.name, value), words(setting.name).unwrap_or("a text")),
        Kind::Switch => (matches!(value, "true" | "false"), "true or false"),
        Kind::Count => (value.parse::<u32>().is_ok_and(|count| count > 0), "a whole number from 1"),
        Kind::Port => (value == "off" || value.parse::<u16>().is_ok(), "the number of a port, or off"),
        Kind::Bytes => (parse_bytes(value).is_some_and(|bytes| bytes > 0), "a size, as in 64MB"),
        Kind::BytesOrNone => (parse_bytes(value).is_some(), "a size, as in 64MB, or 0"),
        Kind::Time => (parse_time(value).is_some(), "a time, as in 1ms or 30s"),
    };
    if fits {
        return Ok(());
    }
    Err(SettingError::new(format!("{} = '{value}' cannot be: it wants {wanted}", setting.name)))
}

fn words(name: &str) -> Option<&'static str> {
    match name {
        "log_format" => Some("text or json"),
        "log_level" => Some("error, warn, info, debug or trace"),
        "host" => Some("an address, as in 127.0.0.1 or 0.0.0.0, or localhost"),
        "files" => Some("a directory that is there"),
        "audit" => Some("off, changes or all"),
        "insecure" => Some("false, users, tls, or true for both"),
        "audit_ttl" => Some("a time to live, as in 90d or 12 months, or 0"),
        _ => None,
    }
}

/// An address, or that of `localhost`.
fn address(host: &str) -> Option<IpAddr> {
    match host.eq_ignore_ascii_case("localhost") {
        true => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        false => host.parse().ok(),
    }
}

/// Warns of variables of the environment that look like settings and are none. They may be of whatever runs the server:
/// where a service of Kubernetes is called `tickstone`, each container has TICKSTONE_SERVICE_HOST.
pub(crate) fn warn_of_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_no_setting(name)) {
        let near = nearest(&name[VARIABLES.len()..].to_ascii_lowercase());
        let near = near.map_or(String::new(), |near| {
            format!("; did you mean {VARIABLES}{}?", near.to_ascii_uppercase())
        });
        warn!("the variable {name} is no setting, and changes nothing{near}");
    }
}

fn is_no_setting(variable: &str) -> bool {
    let is = |name: &str| SETTINGS.iter().any(|setting| setting.name.to_ascii_uppercase() == name);
    variable.strip_prefix(VARIABLES).is_some_and(|name| !is(name))
}

fn word_fits(name: &str, value: &str) -> bool {
    match name {
        "log_format" => matches!(value, "text" | "json"),
        "log_level" => matches!(value, "error" | "warn" | "info" | "debug" | "trace"),
        "host" => address(value).is_some(),
        "files" => value.is_empty() || Path::new(value).is_dir(),
        "audit" => matches!(value, "off" | "changes" | "all"),
        "insecure" => matches!(value, "false" | "users" | "tls" | "true"),
        "audit_ttl" => value == "0" || Ttl::parse(value).is_ok(),
        _ => true,
    }
}

/// A size in bytes, as the options of streams have them.
fn parse_bytes(text: &str) -> Option<usize> {
    usize::try_from(parse_size(text)?).ok()
}

/// A time: `500us`, `1ms`, `30s`, `5m`, `1h`, and `0`.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count = digits.trim().parse::<u64>().ok()?;
    let micros = match &text[digits.len()..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "" if count == 0 => 1,
        _ => return None,
    };
    Some(Duration::from_micros(count.checked_mul(micros)?))
}

/// The setting whose name is nearest to a word that is none.
fn nearest(word: &str) -> Option<&'static str> {
    let shared = |name: &str| {
        let pieces: Vec<&str> = name.split('_').collect();
        word.split(['_', '-', '.']).filter(|piece| pieces.contains(piece)).count()
    };
    SETTINGS
        .iter()
        .map(|setting| setting.name)
        // Of those that are as near, the first.
        .rev()
        .max_by_key(|name| shared(name))
        .filter(|name| shared(name) > 0)
}

#[cfg(test)]
mod tests;
