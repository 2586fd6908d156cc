//! Who sends lines over TCP: a user whose key signs what the server made up (ES256), as QuestDB's clients do.
//!
//! ```text
//! client: the user's name, a newline
//! server: a challenge of printable characters, a newline
//! client: the signature of the challenge in base64, a newline; lines follow
//! ```
//!
//! A client whose certificate names a user sends lines at once.

use crate::logins::{BASE64, Credentials, PATIENCE, access_by};
use crate::shared::Shared;
use crate::transport::Transport;
use base64::Engine as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tickstone_query::audit::Origin;
use tickstone_query::{Access, random_text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The longest name, or signature, that is read.
const LINE_BYTES_MAX: usize = 512;
/// The access of whoever connected, and what of their lines has come; that of nobody where there are no users.
///
/// # Errors
/// Why it is refused, in words for the log.
pub(super) async fn access(
    shared: &Arc<Shared>,
    stream: &mut Transport,
    peer: SocketAddr,
) -> Result<(Access, Vec<u8>), String> {
    let origin = Origin { protocol: "line protocol", address: Some(peer.ip()) };
    let mut bytes = Vec::new();
    if !shared.database.has_users().map_err(|error| error.to_string())? {
        return Ok((Access::of_nobody(&shared.database).from(origin), bytes));
    }
    if let Some(name) = stream.certified() {
        let proved = access_by(shared, Credentials::Certificate(name), origin, true).await;
        return proved.map(|access| (access, bytes)).map_err(|error| error.to_string());
    }
    let user = line(stream, &mut bytes, "the name of its user").await?;
    let user = String::from_utf8(user).map_err(|_| "the name of its user is no text".to_string())?;
    let challenge = challenge().map_err(|error| error.to_string())?;
    let sent = async {
        stream.write_all(format!("{challenge}\n").as_bytes()).await?;
        stream.flush().await
    };
    sent.await.map_err(|_| "the client is gone".to_string())?;
    let signature = line(stream, &mut bytes, "what its key signed").await?;
    let signature = BASE64.decode(signature).map_err(|_| "its signature is no base64".to_string())?;
    let message = challenge.into_bytes();
    let proved = access_by(shared, Credentials::Signature { user, message, signature }, origin, true).await;
    proved.map(|access| (access, bytes)).map_err(|error| error.to_string())
}

/// A text of 128 characters that was never asked before.
fn challenge() -> Result<String, tickstone_query::QueryError> {
    Ok([random_text()?, random_text()?, random_text()?, random_text()?].concat())
}

/// The next line, without its end; what has come behind it stays in `bytes`.
async fn line(stream: &mut Transport, bytes: &mut Vec<u8>, what: &str) -> Result<Vec<u8>, String> {
    let read = async {
        loop {
            if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let rest = bytes.split_off(end + 1);
                let mut line = std::mem::replace(bytes, rest);
                line.pop();
                return Ok(line);
            }
            if bytes.len() > LINE_BYTES_MAX {
                return Err(format!("there are users, and it did not send {what}"));
            }
            match stream.read_buf(bytes).await {
                Ok(1..) => {}
                _ => return Err(format!("there are users, and it ended before {what}")),
            }
        }
    };
    let late = || Err(format!("there are users, and {what} did not come for {PATIENCE:?}"));
    timeout(PATIENCE, read).await.unwrap_or_else(|_| late())
}
