//! What the server counts, as `/metrics` gives it to Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that grow, or go up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Connections,
    ConnectionsRefused,
    ConnectionsOpen,
    TlsConnections,
    TlsRefused,
    LoginsRefused,
    AuditDeeds,
    AuditLost,
    IlpTcpBytes,
    IlpTcpRows,
    IlpTcpRowsLost,
    IlpTcpBadLines,
    IlpHttpRequests,
    IlpHttpRows,
    IlpHttpRefused,
    StreamBytes,
    StreamDocuments,
    StreamWaits,
    StreamConnectionsCut,
    QwpMessages,
    QwpBytes,
    QwpRows,
    QwpRefused,
    QwpResultBytes,
    FlightRows,
    CopyRows,
    UploadRows,
    HttpRequests,
    HttpForbidden,
    Statements,
    StatementsFailed,
    StatementRows,
    StatementMicroseconds,
}

/// Each counter: its name, whether it only grows, and what it is.
const COUNTERS: [(Counter, &str, bool, &str); 33] = [
    (Counter::Connections, "connections_total", true, "connections that were taken"),
    (
        Counter::ConnectionsRefused,
        "connections_refused_total",
        true,
        "connections past connections_max, closed at once",
    ),
    (Counter::ConnectionsOpen, "connections_open", false, "connections that are open"),
    (Counter::TlsConnections, "tls_connections_total", true, "connections over TLS"),
    (
        Counter::TlsRefused,
        "tls_refused_total",
        true,
        "connections whose TLS handshake failed, or that had none where require_tls is set",
    ),
    (
        Counter::LoginsRefused,
        "logins_refused_total",
        true,
        "connections and requests refused for a wrong user, password or token, or for none",
    ),
    (Counter::AuditDeeds, "audit_deeds_total", true, "rows that were written to the audit log"),
    (
        Counter::AuditLost,
        "audit_lost_total",
        true,
        "rows that the audit log lacks, since it could not be written",
    ),
    (Counter::IlpTcpBytes, "ilp_tcp_bytes_total", true, "bytes of line protocol over TCP"),
    (Counter::IlpTcpRows, "ilp_tcp_rows_total", true, "rows of line protocol over TCP that were stored"),
    (
        Counter::IlpTcpRowsLost,
        "ilp_tcp_rows_lost_total",
        true,
        "rows of line protocol over TCP that could not be stored",
    ),
    (
        Counter::IlpTcpBadLines,
        "ilp_tcp_bad_lines_total",
        true,
        "bad lines of line protocol over TCP, each the end of its connection",
    ),
    (Counter::IlpHttpRequests, "ilp_http_requests_total", true, "requests of line protocol over HTTP"),
    (Counter::IlpHttpRows, "ilp_http_rows_total", true, "rows of line protocol over HTTP that were stored"),
    (
        Counter::IlpHttpRefused,
        "ilp_http_refused_total",
        true,
        "requests of line protocol over HTTP that were refused",
    ),
    (Counter::StreamBytes, "stream_bytes_total", true, "bytes of requests of raw streams"),
    (Counter::StreamDocuments, "stream_documents_total", true, "documents of raw streams that were taken"),
    (
        Counter::StreamWaits,
        "stream_waits_total",
        true,
        "times that a connection of raw streams was read no further for want of stream_memory",
    ),
    (
        Counter::StreamConnectionsCut,
        "stream_connections_cut_total",
        true,
        "connections of raw streams that were closed for what came, or for waiting too long",
    ),
    (Counter::QwpMessages, "qwp_messages_total", true, "messages of rows over QWP"),
    (Counter::QwpBytes, "qwp_bytes_total", true, "bytes of messages of rows over QWP"),
    (Counter::QwpRows, "qwp_rows_total", true, "rows over QWP that were stored"),
    (
        Counter::QwpRefused,
        "qwp_refused_total",
        true,
        "messages of rows over QWP that were refused, each the end of its connection",
    ),
    (Counter::QwpResultBytes, "qwp_result_bytes_total", true, "bytes of results over QWP"),
    (
        Counter::FlightRows,
        "flight_rows_total",
        true,
        "rows that were ingested over Flight; those of a transaction may be rolled back",
    ),
    (
        Counter::CopyRows,
        "copy_rows_total",
        true,
        "rows that COPY FROM STDIN took; those of a transaction may be rolled back",
    ),
    (Counter::UploadRows, "upload_rows_total", true, "rows of files over HTTP, at /imp, that were stored"),
    (Counter::HttpRequests, "http_requests_total", true, "requests of all kinds over HTTP"),
    (Counter::HttpForbidden, "http_forbidden_total", true, "requests of other web pages, or for other hosts"),
    (Counter::Statements, "statements_total", true, "statements of SQL"),
    (Counter::StatementsFailed, "statements_failed_total", true, "statements of SQL that gave an error"),
    (Counter::StatementRows, "statement_rows_total", true, "rows that statements gave"),
    (
        Counter::StatementMicroseconds,
        "statement_microseconds_total",
        true,
        "time of statements until their last row was handed over",
    ),
];

/// The counters of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    values: [AtomicU64; COUNTERS.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        Self { values: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Metrics {
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        self.values[counter as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn less(&self, counter: Counter) {
        self.values[counter as usize].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    /// The text of Prometheus; `more` are numbers that others count: name, whether it only grows, what it is, value.
    pub(crate) fn text(&self, more: &[(&str, bool, &str, u64)]) -> String {
        let mut text = String::new();
        let mut put = |name: &str, kind: &str, about: &str, value: u64| {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "# HELP tickstone_{name} {about}\n# TYPE tickstone_{name} {kind}\ntickstone_{name} {value}"
            );
        };
        for (counter, name, grows, about) in COUNTERS {
            put(name, if grows { "counter" } else { "gauge" }, about, self.get(counter));
        }
        for (name, grows, about, value) in more {
            put(name, if *grows { "counter" } else { "gauge" }, about, *value);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_stands_at_its_place() {
        for (place, (counter, ..)) in COUNTERS.iter().enumerate() {
            assert_eq!(*counter as usize, place);
        }
        let metrics = Metrics::default();
        metrics.add(Counter::Statements, 3);
        let text = metrics.text(&[("tables", false, "tables there are", 7)]);
        assert!(text.contains("\ntickstone_statements_total 3\n"), "{text}");
        assert!(text.contains("# TYPE tickstone_tables gauge\ntickstone_tables 7\n"), "{text}");
    }
}
