//! `tickstone stream`: raw streams of a database, or of a server by the protocol of streams.

use crate::failure::{Failure, Result, of_client};
use crate::interrupt::Interrupt;
use crate::open::DataArgs;
use crate::output::Output;
use crate::secret;
use crate::units;
use clap::{Subcommand, ValueEnum};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tickstone_client::{Address, STREAM_PORT, StreamClient, StreamId};
use tickstone_engine::streams::{Stream, StreamSettings};
use tickstone_model::format_nanos;
use tickstone_query::Database;
use tickstone_wire::parse_iso;

const EXAMPLES: &str = "\
Examples:
  websocat wss://… | tickstone stream append raw          keep each line as a document
  tickstone stream read raw --from 2024-08-08T09:30:00Z
  tickstone stream since raw 1723109400000000 --connect localhost
  tickstone stream tail raw --times

A time is ISO 8601 or a number of microseconds since the Unix epoch. Without --connect the database of --data is read, also
beside a server that writes it; appending to that needs --connect.";

/// Bytes of documents that are read at once.
const READ_BYTES: u64 = 8 << 20;
/// How often `tail` looks for new documents.
const TAIL_PAUSE: Duration = Duration::from_millis(100);
/// Documents that are handed over together.
const APPENDED_TOGETHER: usize = 1_000;

/// Raw streams: documents as they came.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the streams: documents, bytes, first and last time
    List {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Append each line of a file, or of standard input, as a document; the stream is made where it is missing
    Append {
        /// The stream
        name: String,
        /// The file; standard input without one
        file: Option<PathBuf>,
        /// The whole file is one document
        #[arg(long)]
        whole: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Write documents between two times to standard output
    Read {
        /// The stream
        name: String,
        /// The first time; from the beginning without one
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        from: Option<u64>,
        /// The last time; to the newest without one
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        to: Option<u64>,
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        place: Place,
    },
    /// Write all documents after a time to standard output
    Since {
        /// The stream
        name: String,
        /// The time
        #[arg(value_parser = parse_time)]
        time: u64,
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        place: Place,
    },
    /// Write documents to standard output as they come, until Ctrl-C
    Tail {
        /// The stream
        name: String,
        /// Begin after this time, not with what comes next
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        since: Option<u64>,
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        place: Place,
    },
    /// Drop a stream with all its documents
    Drop {
        /// The stream
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
}

/// Where the streams are.
#[derive(Debug, clap::Args)]
struct Place {
    #[command(flatten)]
    data: DataArgs,
    /// A server's port of streams, 8888 where none is said: host[:port], or tickstone+tls://host[:port][?ca=FILE]
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["data", "memory_budget", "query_memory"])]
    connect: Option<String>,
}

/// How documents are written.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Shown {
    /// How documents are written
    #[arg(long, value_enum, default_value = "lines")]
    format: Format,
    /// Write the time before each document, with --format lines
    #[arg(long)]
    times: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line each
    Lines,
    /// A JSON object each, with its time; `hex` has a document that is no text
    Ndjson,
    /// Nothing but the documents
    Raw,
}

/// A time: ISO 8601, or microseconds since the Unix epoch.
fn parse_time(text: &str) -> std::result::Result<u64, String> {
    let iso = || parse_iso(text.as_bytes()).and_then(|ns| u64::try_from(ns / 1_000).ok());
    let parsed = text.parse().ok().or_else(iso);
    parsed.ok_or_else(|| format!("'{text}' is no time; write 2024-08-08T09:30:00Z, or microseconds"))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::List { data } => list(data),
        Action::Append { name, file, whole, place } => append(place, name, file.as_deref(), *whole),
        Action::Read { name, from, to, shown, place } => {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(u64::MAX));
            let mut source = Opened::open(place, name, false)?;
            let mut out = Output::new();
            source.write(from, to, &mut |ts, document| shown.write(&mut out, ts, document))?;
            out.flush().map_err(unwritten)?;
            source.check_whole(place)
        }
        Action::Since { name, time, shown, place } => {
            let mut source = Opened::open(place, name, false)?;
            let mut out = Output::new();
            let from = time.saturating_add(1);
            source.write(from, u64::MAX, &mut |ts, document| shown.write(&mut out, ts, document))?;
            out.flush().map_err(unwritten)?;
            source.check_whole(place)
        }
        Action::Tail { name, since, shown, place } => tail(place, name, *since, *shown),
        Action::Drop { name, data } => {
            if !data.is_there() {
                return Err(Failure::NoDatabase { path: data.data.clone() });
            }
            let database = data.open(false)?;
            // With what was granted on it, and not where a table reads it.
            let sql = format!("DROP STREAM \"{}\"", name.replace('"', "\"\""));
            database.runtime().block_on(database.session().query(&sql))?;
            eprintln!("dropped stream {name}");
            Ok(())
        }
    }
}

fn unwritten(source: io::Error) -> Failure {
    Failure::Io { action: "write", path: PathBuf::from("standard output"), source }
}

fn list(data: &DataArgs) -> Result<()> {
    let database = data.open(true)?;
    let mut out = Output::new();
    for stream in database.engine().streams().all()? {
        let stats = stream.stats()?;
        let time = |us: u64| format_nanos(i64::try_from(us).unwrap_or(0).saturating_mul(1_000));
        let times = stats.times_us.map(|(first, last)| format!("  {} to {}", time(first), time(last)));
        let (documents, bytes) = (units::count(stats.documents), units::bytes(stats.bytes));
        let times = times.unwrap_or_default();
        writeln!(out, "{:<24} {documents:>15} documents {bytes:>12}{times}", stats.name)
            .map_err(unwritten)?;
    }
    out.flush().map_err(unwritten)
}

/// A stream that is open.
enum Opened {
    Here {
        stream: Stream,
        /// Whether bytes that were to be read are damaged or missing.
        is_lacking: bool,
        /// Closed when it goes.
        _database: Database,
    },
    There(StreamClient, StreamId),
}

fn connect(address: &str, name: &str) -> Result<(StreamClient, StreamId)> {
    let with_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let there = |error: io::Error| Failure::Terminal(format!("{address}: {}", told(&error)));
    let mut client = match (Address::is_meant(address), with_port) {
        (true, _) => {
            let address = Address::parse_or(address, STREAM_PORT).map_err(of_client)?;
            StreamClient::connect_to(&secret::completed(address)?).map_err(of_client)?
        }
        (false, true) => StreamClient::connect(address).map_err(there)?,
        (false, false) => StreamClient::connect((address, STREAM_PORT)).map_err(there)?,
    };
    let id = client.open(name).map_err(there)?;
    Ok((client, id))
}

/// An error of a connection, in words.
fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the server closed the connection; its log says why".to_string()
        }
        _ => error.to_string(),
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::Terminal(told(&error))
}

impl Opened {
    /// Opens a stream to read it, or, where it is to be `written`, to append to it: it is made where it is missing then.
    fn open(place: &Place, name: &str, written: bool) -> Result<Self> {
        if let Some(address) = &place.connect {
            let (client, id) = connect(address, name)?;
            return Ok(Self::There(client, id));
        }
        let database = place.data.open(!written)?;
        let streams = database.engine().streams();
        let stream = match written {
            true => streams.get_or_create(name, StreamSettings::default())?,
            false => streams.get(name)?,
        };
        Ok(Self::Here { stream, is_lacking: false, _database: database })
    }

    /// That documents are lacking, where bytes that were to be read for them are damaged or missing. A server says so in
    /// its log.
    fn check_whole(&self, place: &Place) -> Result<()> {
        match self {
            Self::Here { stream, is_lacking: true, .. } => Err(Failure::Lacking {
                stream: stream.name().to_string(),
                bytes: stream.stats()?.damaged_bytes,
                data: place.data.data.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Hands over the documents between two times, both inside; the time of the last one.
    fn write(
        &mut self,
        mut from: u64,
        to: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<Option<u64>> {
        let mut last = None;
        match self {
            Self::Here { stream, is_lacking, .. } => loop {
                let found = stream.range(from, to, READ_BYTES)?;
                *is_lacking |= found.damaged_bytes() > 0;
                if found.is_empty() || from > to {
                    return Ok(last);
                }
                for (_, entry) in found.entries() {
                    each(entry.ts_us, entry.document).map_err(unwritten)?;
                    last = Some(entry.ts_us);
                    from = entry.ts_us.saturating_add(1);
                }
            },
            Self::There(client, id) => {
                for (ts, document) in client.range(*id, from, to).map_err(lost)? {
                    each(ts, &document).map_err(unwritten)?;
                    last = Some(ts);
                }
                Ok(last)
            }
        }
    }

    /// The time of the newest document.
    fn newest(&mut self) -> Result<u64> {
        match self {
            Self::Here { stream, .. } => {
                let found = stream.last_before(u64::MAX)?;
                let newest = found.entries().map(|(_, entry)| entry.ts_us).next();
                Ok(newest.unwrap_or(0))
            }
            Self::There(client, id) => {
                Ok(client.last_before(*id, u64::MAX).map_err(lost)?.map_or(0, |(ts, _)| ts))
            }
        }
    }

    /// Appends documents.
    fn put(&mut self, documents: &[Vec<u8>]) -> Result<()> {
        match self {
            Self::Here { stream, .. } => {
                stream.append(documents.iter().map(Vec::as_slice))?;
                Ok(())
            }
            Self::There(client, id) => {
                documents.iter().try_for_each(|document| client.append(*id, document)).map_err(lost)?;
                client.flush().map_err(lost)
            }
        }
    }

    /// Waits until all of it is on stable storage.
    fn settle(&mut self) -> Result<()> {
        match self {
            Self::Here { stream, .. } => Ok(stream.flush()?),
            Self::There(client, id) => client.settle(*id).map_err(lost),
        }
    }
}

fn tail(place: &Place, name: &str, since: Option<u64>, shown: Shown) -> Result<()> {
    let interrupt = Interrupt::install();
    let mut source = Opened::open(place, name, false)?;
    let mut seen = match since {
        Some(since) => since,
        None => source.newest()?,
    };
    let mut out = Output::new();
    while !interrupt.flag().load(Ordering::SeqCst) {
        let from = seen.saturating_add(1);
        let last = source.write(from, u64::MAX, &mut |ts, document| shown.write(&mut out, ts, document))?;
        out.flush().map_err(unwritten)?;
        match last {
            Some(last) => seen = last,
            None => std::thread::sleep(TAIL_PAUSE),
        }
    }
    Ok(())
}

impl Shown {
    fn write(self, out: &mut Output, ts: u64, document: &[u8]) -> io::Result<()> {
        let time = || format_nanos(i64::try_from(ts).unwrap_or(0).saturating_mul(1_000));
        match self.format {
            Format::Raw => out.write_all(document),
            Format::Lines => {
                if self.times {
                    write!(out, "{}\t", time())?;
                }
                out.write_all(document)?;
                out.write_all(b"\n")
            }
            Format::Ndjson => match str::from_utf8(document) {
                Ok(text) => writeln!(out, "{{\"ts\":\"{}\",\"document\":{}}}", time(), quoted(text)),
                Err(_) => {
                    let hex: String = document.iter().map(|byte| format!("{byte:02x}")).collect();
                    writeln!(out, "{{\"ts\":\"{}\",\"hex\":\"{hex}\"}}", time())
                }
            },
        }
    }
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn append(place: &Place, name: &str, file: Option<&Path>, whole: bool) -> Result<()> {
    let path = file.unwrap_or(Path::new("standard input"));
    let unread = |source| Failure::Io { action: "read", path: path.to_path_buf(), source };
    let mut input: BufReader<Box<dyn Read>> = BufReader::with_capacity(
        1 << 20,
        match file {
            Some(file) => Box::new(File::open(file).map_err(unread)?),
            None => Box::new(io::stdin()),
        },
    );
    let mut sink = Opened::open(place, name, true)?;
    let mut count = 0;
    if whole {
        let mut document = Vec::new();
        input.read_to_end(&mut document).map_err(unread)?;
        sink.put(&[document])?;
        count = 1;
    } else {
        while let Some(lines) = next_lines(&mut input).map_err(unread)? {
            sink.put(&lines)?;
            count += lines.len() as u64;
        }
    }
    sink.settle()?;
    eprintln!(
        "{} into {name}",
        if count == 1 { "1 document".to_string() } else { format!("{} documents", units::count(count)) }
    );
    Ok(())
}

/// The next lines, without their ends: as many as have come, so that what a slow feed brings is not held back.
fn next_lines(input: &mut BufReader<Box<dyn Read>>) -> io::Result<Option<Vec<Vec<u8>>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(Some(lines).filter(|lines| !lines.is_empty()));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        lines.push(line);
        if lines.len() >= APPENDED_TOGETHER || input.buffer().is_empty() {
            return Ok(Some(lines));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(parse_time("17"), Ok(17));
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(1_000_000));
        assert!(parse_time("soon").is_err());
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n\u{20ac}"), "\"a\\\"b\\\\c\\u000a\u{20ac}\"");
    }
}
