//! `tickstone mcp`: the database behind the Model Context Protocol on standard input and output, a message a line.
//!
//! ```text
//! stdin ─► thread ─► a task a message ─► thread ─► stdout
//! ```
//!
//! Nothing but messages is written to standard output; the log goes to standard error. It ends when the input does and
//! what was asked is answered, or when nobody reads the output.

use crate::failure::{Failure, Result};
use crate::open::DataArgs;
use crate::serve::{SettingArgs, start_log};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use tickstone_server::mcp::Service;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages that wait to be looked at, and answers that wait to be written.
const WAITING: usize = 16;

/// What `tickstone mcp` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    settings: SettingArgs,
}

/// A line of the input.
enum Line {
    Message(Vec<u8>),
    /// One past the limit; it was passed over.
    TooLong,
}

/// Answers until the input ends.
pub(crate) fn run(args: &Args) -> Result<()> {
    let settings = args.settings.settings()?;
    start_log(&settings);
    let database = args.data.open(true)?;
    let service = Arc::new(Service::new(database, settings));
    let cannot = |error: std::io::Error| Failure::Terminal(format!("cannot start threads: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let (lines, incoming) = mpsc::channel(WAITING);
    let (answers, outgoing) = mpsc::channel(WAITING);
    let bytes_max = service.message_bytes_max();
    // It may wait for a line for ever, and ends with the process.
    std::thread::spawn(move || read(BufReader::new(std::io::stdin()), bytes_max, &lines));
    let writer = std::thread::spawn(move || write(std::io::stdout(), outgoing));
    runtime.block_on(serve(&service, incoming, answers));
    // It ends with the answers; where it fails, nobody is there to be told.
    let _ = writer.join();
    Ok(())
}

async fn serve(service: &Arc<Service>, mut incoming: mpsc::Receiver<Line>, answers: mpsc::Sender<String>) {
    let mut tasks = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = incoming.recv() => line,
            Some(_) = tasks.join_next() => continue,
            () = answers.closed() => return,
        };
        let Some(line) = line else { break };
        let (service, answers) = (Arc::clone(service), answers.clone());
        tasks.spawn(async move {
            let answer = match line {
                Line::Message(message) => service.answer(&message).await,
                Line::TooLong => Some(service.too_long()),
            };
            if let Some(answer) = answer {
                // Nobody reads it where this fails.
                let _ = answers.send(answer).await;
            }
        });
    }
    tokio::select! {
        () = answers.closed() => {}
        () = async { while tasks.join_next().await.is_some() {} } => {}
    }
}

/// Hands the lines of an input on, empty ones left out.
fn read(mut input: impl BufRead, bytes_max: usize, lines: &mpsc::Sender<Line>) {
    loop {
        let mut message = Vec::new();
        match input.by_ref().take(bytes_max as u64 + 1).read_until(b'\n', &mut message) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_too_long = message.len() > bytes_max && message.last() != Some(&b'\n');
        if is_too_long && input.skip_until(b'\n').is_err() {
            return;
        }
        let line = if is_too_long { Line::TooLong } else { Line::Message(message) };
        let is_empty = matches!(&line, Line::Message(message) if message.trim_ascii().is_empty());
        if !is_empty && lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Writes each answer as a line.
fn write(mut output: impl Write, mut answers: mpsc::Receiver<String>) {
    while let Some(mut answer) = answers.blocking_recv() {
        answer.push('\n');
        if output.write_all(answer.as_bytes()).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_input() {
        let input = b"{}\n\n  \r\n12345678\n123456789\n[1]\n1234567890123\nend";
        let (send, mut lines) = mpsc::channel(WAITING);
        read(&input[..], 8, &send);
        drop(send);
        let mut read = Vec::new();
        while let Some(line) = lines.blocking_recv() {
            read.push(match line {
                Line::Message(message) => String::from_utf8(message).expect("text").trim_end().to_string(),
                Line::TooLong => "too long".to_string(),
            });
        }
        assert_eq!(read, ["{}", "12345678", "too long", "[1]", "too long", "end"]);
    }
}
