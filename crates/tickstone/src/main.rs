//! The `tickstone` program: command line over the embedded database.
//!
//! Owns arguments, terminals and exit codes; everything else is [`tickstone_query::Database`]'s. Never
//! touches a table's files itself.
//!
//! Exit codes: 0 done, 1 error, 2 usage, 130 interrupted.
//!
//! Enter at [`cli::Cli`], then the module of each command.

mod backup;
mod cert;
mod check;
mod cli;
mod demo;
mod export;
mod failure;
mod r#gen;
mod import;
mod interrupt;
mod mcp;
mod open;
mod output;
mod replay;
mod secret;
mod serve;
mod sql;
mod stream;
mod units;
mod user;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Batches come and go by the thousand; the system's allocator gives their pages back to the kernel each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Sql(args) => sql::run(&args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Gen(args) => r#gen::run(&args).map_err(failure::Failure::from),
        Command::Demo(args) => demo::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::User(args) => user::run(&args),
        Command::Cert(args) => cert::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Replay(args) => replay::run(args),
        Command::Stream(args) => stream::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
