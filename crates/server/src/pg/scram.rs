//! SCRAM-SHA-256 (RFC 5802, RFC 7677): the server's half of proving a password that never crosses the wire; over TLS also
//! SCRAM-SHA-256-PLUS, which binds the proof to the certificate that the client sees (RFC 5929, `tls-server-end-point`).
//!
//! ```text
//! client: n,,n=,r=NONCE        server: r=NONCE+MORE,s=SALT,i=ROUNDS
//! client: c=biws,r=…,p=PROOF   server: v=SIGNATURE
//! ```
//!
//! Texts in, texts out: no I/O.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};
use tickstone_query::{Verifier, is_same};

/// The mechanism that is always offered.
const MECHANISM: &str = "SCRAM-SHA-256";
/// The one that binds to the connection.
const BINDING: &str = "SCRAM-SHA-256-PLUS";
/// How the client's first message begins then.
const BINDING_FLAG: &str = "p=tls-server-end-point";

/// The mechanisms that are offered over a connection with this end point, the best first.
pub(super) fn mechanisms(end_point: Option<&[u8]>) -> Vec<String> {
    let all = [end_point.map(|_| BINDING), Some(MECHANISM)];
    all.into_iter().flatten().map(str::to_string).collect()
}

/// What the server waits for after its first answer.
#[derive(Debug)]
pub(super) struct Exchange {
    verifier: Verifier,
    /// Both nonces, one behind the other.
    nonce: String,
    /// What the client's last message says of channel binding: the header of its first, and what it binds to.
    binding: Vec<u8>,
    /// The client's first message without that header, and the server's answer.
    so_far: String,
}

impl Exchange {
    /// Begins with a mechanism and the client's first message; the exchange and the answer. `None` where it is none, and
    /// where its words of channel binding do not go with the mechanisms that were offered: somebody between may have
    /// taken the better one out. `more` is the server's nonce.
    pub(super) fn begin(
        mechanism: &str,
        first: &str,
        end_point: Option<&[u8]>,
        verifier: Verifier,
        more: &str,
    ) -> Option<(Self, String)> {
        // The header ends with the second comma.
        let second = first.match_indices(',').nth(1)?.0;
        let (header, bare) = first.split_at(second + 1);
        let bound = match (mechanism, header.split(',').next()?, end_point) {
            (BINDING, BINDING_FLAG, Some(end_point)) => end_point,
            // "y": the client could bind, and was not offered it.
            (MECHANISM, "n", _) | (MECHANISM, "y", None) => &[],
            _ => return None,
        };
        // The name is that of the startup message, whatever stands here, as with PostgreSQL.
        let nonce = bare.split(',').find_map(|word| word.strip_prefix("r="))?;
        if nonce.is_empty() || bare.starts_with("m=") {
            return None;
        }
        let nonce = format!("{nonce}{more}");
        let salt = STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let so_far = format!("{bare},{answer}");
        let binding = [header.as_bytes(), bound].concat();
        Some((Self { verifier, nonce, binding, so_far }, answer))
    }

    /// Takes the client's last message; what proves the server to it, or `None` where it does not prove the password.
    pub(super) fn finish(&self, last: &str) -> Option<String> {
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let mut words = without_proof.split(',');
        let binding = words.next()?.strip_prefix("c=")?;
        let nonce = words.next()?.strip_prefix("r=")?;
        if STANDARD.decode(binding).ok()? != self.binding || nonce != self.nonce {
            return None;
        }
        let proof = STANDARD.decode(proof).ok().filter(|proof| proof.len() == 32)?;
        let message = format!("{},{without_proof}", self.so_far);
        let signature = sign(&self.verifier.stored_key, &message);
        let client_key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let stored = digest::digest(&digest::SHA256, &client_key);
        if !is_same(stored.as_ref(), &self.verifier.stored_key) {
            return None;
        }
        let signature = sign(&self.verifier.server_key, &message);
        Some(format!("v={}", STANDARD.encode(signature)))
    }
}

fn sign(key: &[u8], message: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes())
}

#[cfg(test)]
mod tests;
