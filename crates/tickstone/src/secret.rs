//! Secrets: asked for at a terminal that does not show them, or read from standard input or the environment.

use crate::failure::{Failure, Result, of_client};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Write};
use tickstone_client::{Address, Credentials};

/// The variables of the environment that have a password, or a token.
const PASSWORD: &str = "TICKSTONE_PASSWORD";
const TOKEN: &str = "TICKSTONE_TOKEN";

/// Reads the address of a server. The password of a user that it names without one comes from TICKSTONE_PASSWORD, or is
/// asked for at a terminal; where it names no user, the token in TICKSTONE_TOKEN says who connects.
///
/// # Errors
/// Where it is no address, and where a password is neither there nor can be asked for.
pub(crate) fn address(text: &str) -> Result<Address> {
    completed(Address::parse(text).map_err(of_client)?)
}

/// The same of an address that was read.
///
/// # Errors
/// As [`address`].
pub(crate) fn completed(mut address: Address) -> Result<Address> {
    let of_environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    address.credentials = match address.credentials {
        Some(Credentials::Password { user, password }) if password.is_empty() => {
            let password = match of_environment(PASSWORD) {
                Some(password) => password,
                None if io::stdin().is_terminal() => asked(&format!("Password of {user}: "))
                    .map_err(|error| Failure::Terminal(format!("cannot ask for the password: {error}")))?,
                None => {
                    let what = format!("there is no password for user '{user}': set {PASSWORD}");
                    return Err(Failure::Terminal(what));
                }
            };
            Some(Credentials::Password { user, password })
        }
        None => of_environment(TOKEN).map(Credentials::Token),
        whole => whole,
    };
    Ok(address)
}

/// A line of standard input.
pub(crate) fn line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_string())
}

/// A line that the terminal does not show.
pub(crate) fn asked(prompt: &str) -> io::Result<String> {
    eprint!("{prompt}");
    io::stderr().flush()?;
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let line = line();
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    eprintln!();
    line
}
