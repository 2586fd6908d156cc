//! What the server reads of X.509 certificates: the name of a client's, and what binds a login to the server's own.

use ring::digest::{self, SHA256, SHA384, SHA512};
use x509_parser::oid_registry as oid;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::signature_algorithm::SignatureAlgorithm;

/// The common name of a certificate's subject: the user whose certificate it is. `None` where it has none, more than one,
/// or one that is no text.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let (name, more) = (names.next()?, names.next());
    let name = name.as_str().ok().filter(|name| !name.is_empty() && !name.contains(char::is_control))?;
    more.is_none().then(|| name.to_string())
}

/// What is wrong with the time of a certificate at some second since the Unix epoch: it is over, or will be soon, or has
/// not come.
pub(crate) fn fault_of_time(certificate: &[u8], now: i64) -> Option<String> {
    const DAY: i64 = 86_400;
    /// Authorities that renew by themselves do so before this.
    const SOON_DAYS: i64 = 14;
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let (from, to) = (certificate.validity().not_before, certificate.validity().not_after);
    match (from.timestamp(), to.timestamp()) {
        (from_seconds, _) if now < from_seconds => Some(format!("is valid from {from} on")),
        (_, to_seconds) if now > to_seconds => Some(format!("has expired, {to}")),
        (_, to_seconds) if to_seconds - now < SOON_DAYS * DAY => {
            Some(format!("expires in {} days, {to}", (to_seconds - now) / DAY))
        }
        _ => None,
    }
}

/// What SCRAM binds to with `tls-server-end-point` (RFC 5929, 4.1): the hash of the certificate by the hash function of its
/// signature, SHA-256 in the place of MD5 and SHA-1. `None` where its signature has no such function, as with Ed25519.
pub(crate) fn end_point(der: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let signed_by = &certificate.signature_algorithm;
    let id = &signed_by.algorithm;
    let sha256 = [
        oid::OID_PKCS1_MD5WITHRSAENC,
        oid::OID_PKCS1_SHA1WITHRSA,
        oid::OID_PKCS1_SHA256WITHRSA,
        oid::OID_SIG_ECDSA_WITH_SHA256,
    ];
    let sha384 = [oid::OID_PKCS1_SHA384WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA384];
    let sha512 = [oid::OID_PKCS1_SHA512WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA512];
    let hash = if sha256.contains(id) {
        &SHA256
    } else if sha384.contains(id) {
        &SHA384
    } else if sha512.contains(id) {
        &SHA512
    } else if *id == oid::OID_PKCS1_RSASSAPSS {
        let SignatureAlgorithm::RSASSA_PSS(parameters) = SignatureAlgorithm::try_from(signed_by).ok()? else {
            return None;
        };
        let id = parameters.hash_algorithm_oid();
        match () {
            () if *id == oid::OID_HASH_SHA1 || *id == oid::OID_NIST_HASH_SHA256 => &SHA256,
            () if *id == oid::OID_NIST_HASH_SHA384 => &SHA384,
            () if *id == oid::OID_NIST_HASH_SHA512 => &SHA512,
            () => return None,
        }
    } else {
        return None;
    };
    Some(digest::digest(hash, der).as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm,
    };

    fn certificate(names: &[&str], by: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(by).expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn names() {
        let of = |names: &[&str]| common_name(&certificate(names, &rcgen::PKCS_ECDSA_P256_SHA256));
        assert_eq!(of(&["feed-1.example.com"]), Some("feed-1.example.com".to_string()));
        assert_eq!(of(&["Änne"]), Some("Änne".to_string()));
        for none in [&[][..], &[""], &["admin\0.example.com"], &["a\n"]] {
            assert_eq!(of(none), None, "{none:?}");
        }
        for wrong in [&b""[..], b"0", &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]] {
            assert_eq!((common_name(wrong), end_point(wrong)), (None, None));
        }
    }

    #[test]
    fn times() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 7, 1);
        let der = params.self_signed(&key).expect("a certificate").der().to_vec();
        // 2026-01-01 and 2026-07-01.
        let (from, to) = (1_767_225_600, 1_782_864_000);
        for (at, expected) in [
            (from - 1, Some("is valid from")),
            (from, None),
            (to - 20 * 86_400, None),
            (to - 3 * 86_400, Some("expires in 3 days")),
            (to + 1, Some("has expired")),
        ] {
            let told = fault_of_time(&der, at);
            assert_eq!(told.is_some(), expected.is_some(), "{at}: {told:?}");
            assert!(told.is_none_or(|told| told.starts_with(expected.unwrap_or_default())), "{at}");
        }
        assert_eq!(fault_of_time(b"0", from), None);
    }

    #[test]
    fn hashes_are_those_of_the_signature() {
        let of = |by| {
            let der = certificate(&["x"], by);
            (end_point(&der), der)
        };
        let (hash, der) = of(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(hash, Some(digest::digest(&SHA256, &der).as_ref().to_vec()));
        let (hash, der) = of(&PKCS_ECDSA_P384_SHA384);
        assert_eq!(hash, Some(digest::digest(&SHA384, &der).as_ref().to_vec()));
        assert_eq!(of(&PKCS_ED25519).0, None);
    }
}
