//! The beginning of a connection: TLS where the client asks for it, any user is taken, settings are told.

use super::catalog::Client;
use super::channel::Channel;
use super::error::{Fault, PROTOCOL_VIOLATION};
use super::guc::Guc;
use super::scram::{self, Exchange};
use crate::logins::{access_by_certificate, is_user, tell_certificate, tell_login};
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
use tickstone_query::audit::Origin;
use tickstone_query::{Access, QueryError, SqlState};

const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;

/// The longest first message, as PostgreSQL has it.
const STARTUP_BYTES_MAX: usize = 10_000;

/// How a connection begins.
pub(super) enum Begun {
    /// As a session with these settings.
    Session(Box<(Channel, Guc, super::cancel::Registered, Arc<Client>, Access)>),
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
                    let address = channel.peer();
                    let encrypted = channel.encrypted(tls.handshake(Inside::Postgres)).await;
                    let made = if encrypted.is_ok() { Counter::TlsConnections } else { Counter::TlsRefused };
                    shared.metrics.add(made, 1);
                    if let Err(error) = &encrypted {
                        let origin = Origin { protocol: "postgresql", address };
                        tell_certificate(shared, error, origin).await;
                    }
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
    let access = match access_of(&mut channel, shared, &user).await? {
        Ok(access) => access,
        Err(Some(fault)) => {
            refuse(&mut channel, fault).await?;
            return Ok(Begun::Over);
        }
        Err(None) => return Ok(Begun::Over),
    };
    let (guc, user) = (guc.of_superuser(access.is_admin()), access.user().map_or(user, str::to_string));
    let registered = shared.cancels.register();
    channel.put(&Authentication::Ok);
    for (name, value) in guc.told() {
        channel.put(&ParameterStatus::new(name.to_string(), value.to_string()));
    }
    channel.put(&BackendKeyData::new(registered.number, SecretKey::I32(registered.key)));
    let client = Arc::new(Client::new(user, database, registered.number, access.clone()));
    Ok(Begun::Session(Box::new((channel, guc, registered, client, access))))
}

/// Has a client prove that it is the user it says, by its certificate or by SCRAM; anybody is served where there are no
/// users. What to tell it where it does not, or nothing where it went.
///
/// # Errors
/// Where the connection breaks.
async fn access_of(
    channel: &mut Channel,
    shared: &Shared,
    user: &str,
) -> io::Result<Result<Access, Option<Fault>>> {
    let told = |error: &QueryError| Some(Fault::new(error.sql_state().code(), error.to_string()));
    let from = channel.peer();
    let origin = Origin { protocol: "postgresql", address: from };
    let verifier = match shared.database.has_users() {
        Ok(false) => return Ok(Ok(Access::of_nobody(&shared.database).from(origin))),
        Ok(true) if channel.certified().is_some_and(|name| is_user(&name, user)) => {
            let access = access_by_certificate(&shared.database, user).map(|access| access.from(origin));
            return Ok(tell_login(shared, user, access, origin, true).map_err(|error| told(&error)));
        }
        Ok(true) => shared.database.verifier(user),
        Err(error) => Err(error),
    };
    let verifier = match verifier {
        Ok(verifier) => verifier,
        Err(error) => return Ok(Err(told(&error))),
    };
    let end_point = channel.end_point();
    channel.put(&Authentication::SASL(scram::mechanisms(end_point.as_deref())));
    channel.send().await?;
    let Some(first) = password_message(channel).await? else { return Ok(Err(None)) };
    let more = match tickstone_query::random_text() {
        Ok(more) => more,
        Err(error) => return Ok(Err(told(&error))),
    };
    let begun = initial_response(&first).and_then(|(mechanism, first)| {
        Exchange::begin(mechanism, first, end_point.as_deref(), verifier, &more)
    });
    let Some((exchange, answer)) = begun else {
        let what =
            "the client does not begin SCRAM-SHA-256 as RFC 5802 has it, or binds it to another connection";
        return Ok(Err(Some(Fault::new(PROTOCOL_VIOLATION, what))));
    };
    channel.put(&Authentication::SASLContinue(answer.into()));
    channel.send().await?;
    let Some(last) = password_message(channel).await? else { return Ok(Err(None)) };
    let proof = std::str::from_utf8(&last).ok().and_then(|last| exchange.finish(last));
    let access = proof.and_then(|proof| Some((proof, shared.database.access_of(user).ok()?)));
    let (proof, access) = access.map(|(proof, access)| (proof, access.from(origin))).unzip();
    let wrong =
        || QueryError::request(format!("wrong user or password for '{user}'")).state(SqlState::WrongPassword);
    let access = tell_login(shared, user, access.ok_or_else(wrong), origin, true);
    match (proof, access) {
        (Some(proof), Ok(access)) => {
            shared.guesses.right(user);
            channel.put(&Authentication::SASLFinal(proof.into()));
            Ok(Ok(access))
        }
        (Some(_), Err(error)) => Ok(Err(told(&error))),
        (None, _) => {
            shared.metrics.add(Counter::LoginsRefused, 1);
            tokio::time::sleep(shared.guesses.wrong(user, from)).await;
            Ok(Err(Some(Fault::new("28P01", format!("wrong user or password for '{user}'")))))
        }
    }
}

/// The body of a message that proves something (`p`); `None` where the client goes. It is short: nobody has proved
/// anything yet.
async fn password_message(channel: &mut Channel) -> io::Result<Option<Vec<u8>>> {
    loop {
        let input = channel.input();
        if let Some(head) = input.get(..5) {
            let length = usize::try_from((&head[1..]).get_i32()).unwrap_or(0);
            if head[0] != b'p' || !(4..=STARTUP_BYTES_MAX).contains(&length) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the client proves nothing"));
            }
            if input.len() > length {
                return Ok(Some(input.split_to(length + 1)[5..].to_vec()));
            }
        }
        if !channel.read_more().await? {
            return Ok(None);
        }
    }
}

/// The mechanism that the client chose and its first message: the mechanism, NUL, the length of the message, itself.
fn initial_response(body: &[u8]) -> Option<(&str, &str)> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let mechanism = std::str::from_utf8(&body[..end]).ok()?;
    let (length, first) = body[end + 1..].split_at_checked(4)?;
    let length = usize::try_from(i32::from_be_bytes(length.try_into().ok()?)).ok()?;
    let first = std::str::from_utf8(first).ok().filter(|first| first.len() == length)?;
    Some((mechanism, first))
}

/// Tells a client why it is not served.
pub(super) async fn refuse(channel: &mut Channel, fault: Fault) -> io::Result<()> {
    channel.put(&fault.response("FATAL"));
    channel.send().await
}
