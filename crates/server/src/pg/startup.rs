//! The beginning of a connection: TLS where the client asks for it, any user is taken, settings are told.

use super::catalog::Client;
use super::channel::Channel;
use super::error::{Fault, PROTOCOL_VIOLATION};
use super::guc::Guc;
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::tls::Inside;
use bytes::Buf;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// The longest first message, as PostgreSQL has it.
const STARTUP_BYTES_MAX: usize = 10_000;

/// How a connection begins.
pub(super) enum Begun {
    /// As a session with these settings.
    Session(Box<(Channel, Guc, super::cancel::Registered, Arc<Client>)>),
    /// As nothing more: it cancelled another, or went.
    Over,
}

/// Reads the first messages and answers them.
///
/// # Errors
/// Where the connection breaks.
pub(super) async fn begin(
    mut channel: Channel,
    shared: &Shared,
    statement_timeout: Option<Duration>,
) -> io::Result<Begun> {
    loop {
        let Some(body) = first_message(&mut channel).await? else { return Ok(Begun::Over) };
        let mut rest = &body[..];
        match rest.get_i32() {
            TLS if !channel.is_encrypted() && shared.tls.is_some() => {
                channel.out.extend_from_slice(b"S");
                channel.send().await?;
                if let Some(tls) = &shared.tls {
                    let encrypted = channel.encrypted(tls.acceptor(Inside::Postgres)).await;
                    let made = if encrypted.is_ok() { Counter::TlsConnections } else { Counter::TlsRefused };
                    shared.metrics.add(made, 1);
                    channel = encrypted?;
                }
            }
            TLS | GSS => {
                channel.out.extend_from_slice(b"N");
                channel.send().await?;
            }
            CANCEL if rest.len() >= 8 => {
                shared.cancels.cancel(rest.get_i32(), rest.get_i32());
                return Ok(Begun::Over);
            }
            version if version >> 16 == 3 && shared.needs_tls() && !channel.is_encrypted() => {
                shared.metrics.add(Counter::TlsRefused, 1);
                let what = format!(
                    "protocol {}.{} in the clear is not spoken here (require_tls): connect with sslmode=require",
                    version >> 16,
                    version & 0xFFFF
                );
                refuse(&mut channel, Fault::new("28000", what)).await?;
                return Ok(Begun::Over);
            }
            version if version >> 16 == 3 => {
                return session(channel, shared, version, rest, statement_timeout).await;
            }
            other => {
                let what = format!("protocol {}.{} is not spoken, but 3.0", other >> 16, other & 0xFFFF);
                refuse(&mut channel, Fault::new("0A000", what)).await?;
                return Ok(Begun::Over);
            }
        }
    }
}

/// The body of the first message, from its code on; `None` where the client goes before it has ended.
async fn first_message(channel: &mut Channel) -> io::Result<Option<Vec<u8>>> {
    loop {
        let input = channel.input();
        if let Some(mut head) = input.get(..4) {
            let length = usize::try_from(head.get_i32()).unwrap_or(0);
            if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "this is not the PostgreSQL protocol",
                ));
            }
            if input.len() >= length {
                return Ok(Some(input.split_to(length)[4..].to_vec()));
            }
        }
        if !channel.read_more().await? {
            return Ok(None);
        }
    }
}

async fn session(
    mut channel: Channel,
    shared: &Shared,
    version: i32,
    parameters: &[u8],
    statement_timeout: Option<Duration>,
) -> io::Result<Begun> {
    let Ok(parameters) = std::str::from_utf8(parameters) else {
        refuse(&mut channel, Fault::new("22021", "the startup parameters are no UTF-8")).await?;
        return Ok(Begun::Over);
    };
    let mut words = parameters.split('\0');
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (words.next().filter(|name| !name.is_empty()), words.next()) {
        pairs.push((name, value));
    }
    if !pairs.iter().any(|(name, _)| *name == "user") {
        refuse(&mut channel, Fault::new(PROTOCOL_VIOLATION, "the client names no user")).await?;
        return Ok(Begun::Over);
    }
    let unknown: Vec<String> = pairs
        .iter()
        .filter(|(name, _)| name.starts_with("_pq_."))
        .map(|(name, _)| name.to_string())
        .collect();
    if version & 0xFFFF != 0 || !unknown.is_empty() {
        channel.put(&NegotiateProtocolVersion::new(0, unknown));
    }
    let named =
        |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    let user = named("user").unwrap_or_default();
    let database = named("database").unwrap_or_else(|| user.clone());
    let guc = match Guc::of_startup(pairs.into_iter(), statement_timeout) {
        Ok(guc) => guc,
        Err(fault) => {
            refuse(&mut channel, fault).await?;
            return Ok(Begun::Over);
        }
    };
    let registered = shared.cancels.register();
    channel.put(&Authentication::Ok);
    for (name, value) in guc.told() {
        channel.put(&ParameterStatus::new(name.to_string(), value.to_string()));
    }
    channel.put(&BackendKeyData::new(registered.number, SecretKey::I32(registered.key)));
    let client = Arc::new(Client::new(user, database, registered.number));
    Ok(Begun::Session(Box::new((channel, guc, registered, client))))
}

/// Tells a client why it is not served.
pub(super) async fn refuse(channel: &mut Channel, fault: Fault) -> io::Result<()> {
    channel.put(&fault.response("FATAL"));
    channel.send().await
}
