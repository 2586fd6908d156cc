//! Passwords and tokens as they are kept: nobody can tell them from what is.

use crate::error::{QueryError, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::agreement::{self, ECDH_P256, EphemeralPrivateKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;
use std::sync::OnceLock;
use tickstone_engine::ErrorKind;

/// What the texts of verifiers begin with.
const MECHANISM: &str = "SCRAM-SHA-256";
/// Rounds of hashing of a new password: PostgreSQL's.
const ITERATIONS: u32 = 4096;
/// Most rounds of a verifier that is handed over: more would hold up who connects.
const ITERATIONS_MAX: u32 = 1_000_000;
/// Bytes of a SHA-256.
const HASH: usize = 32;
/// Bytes of a coordinate of a point of P-256, and of a private key.
const COORDINATE: usize = 32;
/// What tokens begin with, so that programs which look for secrets know them.
const TOKEN: &str = "tick_";

/// What a password is proved by, without being it (RFC 5802, RFC 7677).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Rounds of hashing.
    pub iterations: u32,
    /// What makes equal passwords differ.
    pub salt: Vec<u8>,
    /// The hash of what the client proves to have.
    pub stored_key: [u8; HASH],
    /// What the server proves to have.
    pub server_key: [u8; HASH],
}

impl Verifier {
    /// That of a new password.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn of_password(password: &str) -> Result<Self> {
        let salt = random::<16>()?;
        Ok(Self::with(password, &salt, ITERATIONS))
    }

    /// One for nobody, of a salt that only depends on the name: who tries names cannot tell that there is none.
    pub fn of_nobody(name: &str, key: &[u8]) -> Self {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), name.as_bytes());
        let (stored_key, server_key) = ([0; HASH], [0; HASH]);
        Self { iterations: ITERATIONS, salt: tag.as_ref()[..16].to_vec(), stored_key, server_key }
    }

    fn with(password: &str, salt: &[u8], iterations: u32) -> Self {
        // What cannot be prepared is taken as it is, as PostgreSQL does (RFC 4013).
        let prepared = stringprep::saslprep(password);
        let prepared = prepared.as_deref().unwrap_or(password);
        let mut salted = [0; HASH];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, prepared.as_bytes(), &mut salted);
        let stored_key = sha256(&mac(&salted, b"Client Key"));
        Self { iterations, salt: salt.to_vec(), stored_key, server_key: mac(&salted, b"Server Key") }
    }

    /// Whether a password is the one.
    pub fn is_of(&self, password: &str) -> bool {
        let other = Self::with(password, &self.salt, self.iterations);
        is_same(&other.stored_key, &self.stored_key)
    }

    /// As text, as PostgreSQL writes it: `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    pub fn to_text(&self) -> String {
        let encode = |bytes: &[u8]| STANDARD.encode(bytes);
        let (salt, stored) = (encode(&self.salt), encode(&self.stored_key));
        format!("{MECHANISM}${}:{salt}${stored}:{}", self.iterations, encode(&self.server_key))
    }

    /// Reads [`Self::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (how, keys) = rest.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (how.split_once(':')?, keys.split_once(':')?);
        let iterations = iterations.parse().ok().filter(|rounds| (1..=ITERATIONS_MAX).contains(rounds))?;
        let decode = |text: &str| STANDARD.decode(text).ok();
        let key = |text: &str| decode(text)?.try_into().ok();
        Some(Self { iterations, salt: decode(salt)?, stored_key: key(stored)?, server_key: key(server)? })
    }
}

/// A new token: its text, which is shown once, and its hash.
///
/// # Errors
/// Where the system has no random numbers.
pub(crate) fn new_token() -> Result<(String, String)> {
    let text = format!("{TOKEN}{}", URL_SAFE_NO_PAD.encode(random::<32>()?));
    let hash = token_hash(&text);
    Ok((text, hash))
}

/// What a token is kept as. Tokens are random: no salt, and no rounds.
pub(crate) fn token_hash(text: &str) -> String {
    STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// The public key of a pair for ES256 (ECDSA on P-256 with SHA-256, RFC 7518), as clients of line protocol are given it:
/// the two coordinates of its point in base64url, 32 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicKey {
    pub(crate) x: String,
    pub(crate) y: String,
}

impl PublicKey {
    /// One of two coordinates; `None` where they are not 32 bytes each.
    pub(crate) fn of(x: &str, y: &str) -> Option<Self> {
        let key = Self { x: x.to_string(), y: y.to_string() };
        key.point().map(|_| key)
    }

    /// One that somebody hands over: its point is one of P-256.
    pub(crate) fn given(x: &str, y: &str) -> Option<Self> {
        let key = Self::of(x, y)?;
        let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).ok()?;
        // Agreeing on a secret looks whether the other key is on the curve (NIST SP 800-56A, 5.6.2.3.3); nothing else in
        // ring tells it.
        let other = agreement::UnparsedPublicKey::new(&ECDH_P256, key.point()?);
        agreement::agree_ephemeral(own, &other, |_| ()).ok()?;
        Some(key)
    }

    /// A new pair: the private key in base64url, which is shown once, and the public one.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub(crate) fn new_pair() -> Result<(String, Self)> {
        /// What stands before the private key in the ECPrivateKey (RFC 5915) of a PKCS #8 document: a text of 32 bytes.
        const BEFORE: [u8; 2] = [0x04, 0x20];
        let none = || QueryError::new(ErrorKind::Report, "the system made no key");
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
        let document = document.map_err(|_| none())?;
        let bytes = document.as_ref();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, bytes, &random);
        let pair = pair.map_err(|_| none())?;
        let point = pair.public_key().as_ref();
        let private = bytes.windows(BEFORE.len() + COORDINATE).find_map(|window| {
            let private = window.strip_prefix(&BEFORE)?;
            // Only the private key of this public one makes a pair with it.
            EcdsaKeyPair::from_private_key_and_public_key(
                &ECDSA_P256_SHA256_ASN1_SIGNING,
                private,
                point,
                &random,
            )
            .ok()?;
            Some(URL_SAFE_NO_PAD.encode(private))
        });
        let [_, coordinates @ ..] = point else { return Err(none()) };
        let (x, y) = coordinates.split_at_checked(COORDINATE).ok_or_else(none)?;
        let public = Self { x: URL_SAFE_NO_PAD.encode(x), y: URL_SAFE_NO_PAD.encode(y) };
        Ok((private.ok_or_else(none)?, public))
    }

    /// The point, uncompressed (SEC 1, 2.3.3).
    fn point(&self) -> Option<Vec<u8>> {
        let coordinate = |text: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
            (bytes.len() == COORDINATE).then_some(bytes)
        };
        Some([vec![4], coordinate(&self.x)?, coordinate(&self.y)?].concat())
    }

    /// Whether its private key signed a message. A signature of 64 bytes is two numbers, any other is ASN.1.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let Some(point) = self.point() else { return false };
        let algorithm: &dyn VerificationAlgorithm = match signature.len() {
            64 => &ECDSA_P256_SHA256_FIXED,
            _ => &ECDSA_P256_SHA256_ASN1,
        };
        UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
    }
}

/// So many random bytes.
///
/// # Errors
/// Where the system has none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let none = |_| QueryError::new(ErrorKind::Report, "the system gave no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(none)?;
    Ok(bytes)
}

/// A text that nobody guesses.
///
/// # Errors
/// Where the system has no random numbers.
pub fn random_text() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<24>()?))
}

/// A key that only this process has.
///
/// # Errors
/// Where the system has no random numbers.
fn process_key() -> Result<[u8; HASH]> {
    static KEY: OnceLock<[u8; HASH]> = OnceLock::new();
    match KEY.get() {
        Some(key) => Ok(*key),
        None => {
            let made = random()?;
            Ok(*KEY.get_or_init(|| made))
        }
    }
}

/// What a user and a password are known by in this process.
///
/// # Errors
/// As [`process_key`].
pub(super) fn known_by(user: &str, password: &str) -> Result<[u8; HASH]> {
    Ok(mac(&process_key()?, format!("{}:{user}:{password}", user.len()).as_bytes()))
}

fn mac(key: &[u8], message: &[u8]) -> [u8; HASH] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().unwrap_or([0; HASH])
}

fn sha256(bytes: &[u8]) -> [u8; HASH] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or([0; HASH])
}

/// Whether two secrets are the same, in a time that does not depend on where they differ.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_know_what_they_signed() {
        let (private, public) = PublicKey::new_pair().expect("random numbers");
        assert_eq!(PublicKey::of(&public.x, &public.y).as_ref(), Some(&public));
        let (private, point) =
            (URL_SAFE_NO_PAD.decode(private).expect("base64"), public.point().expect("a point"));
        let random = SystemRandom::new();
        let fixed = &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        for algorithm in [&ECDSA_P256_SHA256_ASN1_SIGNING, fixed] {
            let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, &point, &random);
            let signature = pair.expect("a pair").sign(&random, b"challenge").expect("random numbers");
            assert!(public.has_signed(b"challenge", signature.as_ref()));
            assert!(!public.has_signed(b"challengE", signature.as_ref()));
            assert!(!public.has_signed(b"challenge", &signature.as_ref()[1..]));
        }
        let (_, other) = PublicKey::new_pair().expect("random numbers");
        assert_ne!(other, public);
        assert_eq!(PublicKey::given(&public.x, &public.y).as_ref(), Some(&public));
        let zero = URL_SAFE_NO_PAD.encode([0; COORDINATE]);
        for (x, y) in [(&public.x, &other.y), (&public.y, &public.x), (&zero, &zero)] {
            assert!(PublicKey::of(x, y).is_some());
            assert_eq!(PublicKey::given(x, y), None, "{x} {y} is no point");
        }
        for (x, y) in [("", ""), (&*public.x, "AAAA"), (&*public.x, "!"), ("tick_", &*public.y)] {
            assert_eq!(PublicKey::of(x, y), None);
        }
    }

    #[test]
    fn passwords_are_known_by_their_verifiers() {
        let verifier = Verifier::of_password("pencil").expect("random numbers");
        assert!(verifier.is_of("pencil"));
        assert!(!verifier.is_of("Pencil") && !verifier.is_of(""));
        assert_eq!(Verifier::parse(&verifier.to_text()), Some(verifier.clone()));
        assert_ne!(Verifier::of_password("pencil").expect("random numbers").salt, verifier.salt);
        // Soft hyphens and wide letters are prepared away (RFC 4013).
        assert!(Verifier::of_password("\u{ff49}\u{ad}x").expect("random numbers").is_of("ix"));
    }

    #[test]
    fn verifiers_of_the_rfc_are_right() {
        // RFC 7677, section 3: password "pencil".
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::with("pencil", &salt, 4096);
        assert_eq!(STANDARD.encode(verifier.stored_key), "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
        assert_eq!(STANDARD.encode(verifier.server_key), "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
        for wrong in ["", "SCRAM-SHA-256$0:a$b:c", "md5abc", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ=="] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_differ_and_are_not_kept() {
        let ((one, hash), (other, _)) = (new_token().expect("random"), new_token().expect("random"));
        assert!(one.starts_with(TOKEN) && one != other);
        assert!(!hash.contains(&one[TOKEN.len()..]) && token_hash(&one) == hash);
    }

    #[test]
    fn equal_secrets_are_told() {
        assert!(is_same(b"abc", b"abc") && is_same(b"", b""));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"abc", b"ab") && !is_same(b"", b"a"));
    }
}
