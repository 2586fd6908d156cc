//! `tickstone cert`: certificates of servers and users for labs and tests, of an authority of one's own.

use crate::failure::{Failure, Result};
use chrono::{DateTime, Datelike, Days, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use x509_parser::extensions::GeneralName;

const EXAMPLES: &str = "\
Examples:
  tickstone cert                                    for localhost, in ./certificates
  tickstone cert --out /etc/tickstone ticks.example.com 10.0.0.7
  tickstone serve --tls-certificate certificates/server.pem --tls-key certificates/server-key.pem
  psql 'host=localhost port=8812 user=me sslmode=verify-full sslrootcert=certificates/ca.pem'
  tickstone cert --user ann                         ann.pem and ann-key.pem, by which ann connects without a password
  tickstone serve … --tls-client-ca certificates/ca.pem

Run again it makes another certificate of the same authority, for the same names where none are said, which a server that runs takes up by itself. Whoever has
ca-key.pem can make certificates that your clients trust: keep it away from the server, or use those of your own
authority instead. docs/server/tls.md has more.";

/// What a certificate is for where nobody says.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long the authority holds, in days.
const CA_DAYS: u64 = 3650;

/// Make a certificate authority and a certificate of a server or a user, for labs and tests.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The names and addresses that clients reach the server by [default: those of the certificate that is there, else
    /// localhost 127.0.0.1 ::1]
    #[arg(value_name = "NAME", conflicts_with = "user", value_parser = parse_host)]
    names: Vec<String>,
    /// Make the certificate of this user instead of the server's
    #[arg(long, value_name = "NAME", value_parser = parse_user)]
    user: Option<String>,
    /// The directory of the files
    #[arg(long, value_name = "DIR", default_value = "certificates")]
    out: PathBuf,
    /// How many days the certificate holds
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3650))]
    days: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let out = &args.out;
    fs::create_dir_all(out).map_err(|source| Failure::Io { action: "make", path: out.clone(), source })?;
    let authority = authority(out)?;
    let names = match (&args.user, args.names.as_slice()) {
        (Some(_), _) => Vec::new(),
        // Clients that reach it by them go on.
        (None, []) => {
            let before = names_of(&out.join("server.pem"));
            if before.is_empty() { NAMES.map(str::to_string).to_vec() } else { before }
        }
        (None, names) => names.to_vec(),
    };
    let (file, named, purpose, trusted_by) = match &args.user {
        Some(user) => (
            user.as_str(),
            user.as_str(),
            ExtendedKeyUsagePurpose::ClientAuth,
            "the server trusts (tls_client_ca)",
        ),
        None => {
            let named = names.first().map_or("", String::as_str);
            ("server", named, ExtendedKeyUsagePurpose::ServerAuth, "clients trust")
        }
    };
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names.clone()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, named);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    holds(&mut params, args.days);
    let certificate = params.signed_by(&key, &authority).map_err(failed)?;
    let (certificate_file, key_file) = (out.join(format!("{file}.pem")), out.join(format!("{file}-key.pem")));
    write(&key_file, &key.serialize_pem(), true)?;
    write(&certificate_file, &certificate.pem(), false)?;
    let holder = if args.user.is_some() { format!("user {named}") } else { names.join(", ") };
    println!("{}: a certificate for {holder}", certificate_file.display());
    println!("{}: its key", key_file.display());
    println!("{}: what {trusted_by}", out.join("ca.pem").display());
    Ok(())
}

/// A name or an address that a certificate can be of; `*.` may stand before a name.
fn parse_host(name: &str) -> std::result::Result<String, String> {
    match ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)) {
        Ok(_) => Ok(name.to_string()),
        Err(_) => Err("it is neither the name of a host nor an address".to_string()),
    }
}

/// The names and addresses that a certificate is of; none where there is none.
fn names_of(path: &Path) -> Vec<String> {
    let Ok(certificate) = CertificateDer::from_pem_file(path) else { return Vec::new() };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_string()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(four) => Some(IpAddr::from(four).to_string()),
            Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
        },
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).collect()
}

/// A user whose files have names of their own.
fn parse_user(name: &str) -> std::result::Result<String, String> {
    let is_taken =
        ["ca", "server"].iter().any(|taken| name.eq_ignore_ascii_case(taken)) || name.ends_with("-key");
    if name.is_empty()
        || is_taken
        || name.starts_with('.')
        || name.contains(['/', '\\'])
        || name.contains(char::is_control)
    {
        return Err(
            "it is the name of files too: not ca, server or a path, and no -key at its end".to_string()
        );
    }
    Ok(name.to_string())
}

/// The authority of a directory, which is made where it is not there.
fn authority(out: &Path) -> Result<Issuer<'static, KeyPair>> {
    let (certificate_file, key_file) = (out.join("ca.pem"), out.join("ca-key.pem"));
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Tickstone authority for labs and tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    match (certificate_file.exists(), key_file.exists()) {
        (true, true) => {
            let read = |path: &Path| {
                fs::read_to_string(path).map_err(|source| Failure::Io {
                    action: "read",
                    path: path.to_path_buf(),
                    source,
                })
            };
            let unread = |path: &Path, error: &dyn std::fmt::Display| {
                Failure::Usage(format!("{} is not of an authority: {error}", path.display()))
            };
            let key = KeyPair::from_pem(&read(&key_file)?).map_err(|error| unread(&key_file, &error))?;
            let certificate = CertificateDer::from_pem_slice(read(&certificate_file)?.as_bytes())
                .map_err(|error| unread(&certificate_file, &error))?;
            if !certificate.windows(key.public_key_raw().len()).any(|part| part == key.public_key_raw()) {
                let what = format!("{} is not the key of it", key_file.display());
                return Err(unread(&certificate_file, &what));
            }
            Issuer::from_ca_cert_der(&certificate, key).map_err(|error| unread(&certificate_file, &error))
        }
        (false, false) => {
            let key = KeyPair::generate().map_err(failed)?;
            holds(&mut params, CA_DAYS);
            let certificate = params.self_signed(&key).map_err(failed)?;
            write(&key_file, &key.serialize_pem(), true)?;
            write(&certificate_file, &certificate.pem(), false)?;
            Ok(Issuer::new(params, key))
        }
        _ => Err(Failure::Usage(format!(
            "{} has one of ca.pem and ca-key.pem without the other: name another directory with --out",
            out.display()
        ))),
    }
}

/// From yesterday, as clocks differ, for so many days.
fn holds(params: &mut CertificateParams, days: u64) {
    let day = |at: DateTime<Utc>| {
        let day = at.date_naive();
        date_time_ymd(day.year(), day.month() as u8, day.day() as u8)
    };
    let now = Utc::now();
    params.not_before = day(now.checked_sub_days(Days::new(1)).unwrap_or(now));
    params.not_after = day(now.checked_add_days(Days::new(days + 1)).unwrap_or(now));
}

/// Writes a file that is there whole or not at all; a secret one for its owner alone.
fn write(path: &Path, text: &str, is_secret: bool) -> Result<()> {
    let failed = |source| Failure::Io { action: "write", path: path.to_path_buf(), source };
    let temporary = path.with_extension("tmp");
    // Another's rights would stay on a file that is there.
    let _ = fs::remove_file(&temporary);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if is_secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let mut file = options.open(&temporary).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::Usage(format!("no certificate can be made: {error}"))
}
