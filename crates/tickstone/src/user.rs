//! `tickstone user`: who may connect, of a database that no server has open.

use crate::failure::{Failure, Result};
use crate::open::DataArgs;
use crate::output::Output;
use crate::secret::{asked, line};
use clap::Subcommand;
use std::error::Error;
use std::io::{self, IsTerminal, Write as _};
use std::path::PathBuf;
use tickstone_engine::EngineError;
use tickstone_query::arrow::util::pretty::pretty_format_batches;
use tickstone_query::{Access, Database, DatabaseOptions, QueryError};

const EXAMPLES: &str = "\
Examples:
  tickstone user add root --admin                   asks for a password
  tickstone user add feed --role writer < password.txt
  tickstone user password root
  tickstone user drop feed

While a server has the database open, the same is done in SQL: CREATE USER, ALTER USER, DROP USER, GRANT. The first user is
an admin; from then on everybody says who they are. docs/server/users.md has more.";

/// Users of a database that no server has open.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a user; the password is asked for, or read from standard input
    Add {
        /// The name
        name: String,
        /// May do everything
        #[arg(long)]
        admin: bool,
        /// A role it has: reader, writer, or one of CREATE ROLE
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Give a user another password
    Password {
        /// The name
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Drop a user
    Drop {
        /// The name
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
    /// List the users and roles
    List {
        #[command(flatten)]
        data: DataArgs,
    },
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::Add { name, admin, role, data } => {
            let roles: Vec<String> =
                admin.then(|| "admin".to_string()).into_iter().chain(role.clone()).collect();
            let roles = roles.iter().map(|role| quoted(role)).collect::<Vec<_>>().join(", ");
            let roles = if roles.is_empty() { roles } else { format!(" IN ROLE {roles}") };
            let password = literal(&password()?);
            change(data, &format!("CREATE USER {} PASSWORD {password}{roles}", quoted(name)), false)?;
            eprintln!("made user {}", folded(name));
        }
        Action::Password { name, data } => {
            let password = literal(&password()?);
            change(data, &format!("ALTER USER {} PASSWORD {password}", quoted(name)), true)?;
            eprintln!("changed the password of {}", folded(name));
        }
        Action::Drop { name, data } => {
            change(data, &format!("DROP USER {}", quoted(name)), true)?;
            eprintln!("dropped user {}", folded(name));
        }
        Action::List { data } => {
            if !data.is_there() {
                return Err(Failure::NoDatabase { path: data.data.clone() });
            }
            let database = data.open(true)?;
            let mut session = Access::of_owner(&database).session();
            let users = database.runtime().block_on(session.query("SHOW USERS"))?;
            let table = pretty_format_batches(&users).map_err(QueryError::from)?;
            let mut out = Output::new();
            let written = writeln!(out, "{table}").and_then(|()| out.flush());
            let path = PathBuf::from("standard output");
            written.map_err(|source| Failure::Io { action: "write", path, source })?;
        }
    }
    Ok(())
}

fn change(data: &DataArgs, sql: &str, wants_database: bool) -> Result<()> {
    if !data.is_there() {
        if wants_database {
            return Err(Failure::NoDatabase { path: data.data.clone() });
        }
        // What is refused leaves no directory.
        run_in(&Database::in_memory(DatabaseOptions::default())?, sql)?;
    }
    let database = data.open(false).map_err(|error| match &error {
        Failure::Query(locked) if is_locked(locked) => {
            let what = format!("{} is open in another process", data.data.display());
            let hint =
                "while a server has it, users are changed in SQL there: CREATE USER, ALTER USER, DROP USER";
            QueryError::request(what).hint(hint).into()
        }
        _ => error,
    })?;
    run_in(&database, sql)
}

fn run_in(database: &Database, sql: &str) -> Result<()> {
    let mut session = Access::of_owner(database).session();
    database.runtime().block_on(session.query(sql))?;
    Ok(())
}

/// Whether another process has the database open.
fn is_locked(error: &QueryError) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<EngineError>());
    matches!(cause, Some(EngineError::Locked { .. }))
}

/// A name as CREATE USER has it where it is not quoted.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", folded(name).replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A password: asked for twice at a terminal, which does not show it; else the first line of standard input.
fn password() -> Result<String> {
    let failed = |source| Failure::Io { action: "read", path: PathBuf::from("standard input"), source };
    if !io::stdin().is_terminal() {
        return line().map_err(failed);
    }
    let first = asked("Password: ").map_err(failed)?;
    match asked("The same once more: ").map_err(failed)? == first {
        true => Ok(first),
        false => Err(QueryError::request("the two passwords differ").into()),
    }
}
