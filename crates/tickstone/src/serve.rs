//! `tickstone serve`: the database behind the protocols of QuestDB and InfluxDB, until it is told to stop.

use crate::failure::{Failure, Result};
use crate::open::DataArgs;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::net::SocketAddr;
use std::path::PathBuf;
use tickstone_server::Server;
use tickstone_server::settings::{Kind, Origin, SETTINGS, SettingError, Settings};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What `tickstone serve` is told.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Settings, and the file that has more of them.
#[derive(Debug, Args)]
pub(crate) struct SettingArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// One flag a setting.
#[derive(Debug, Default)]
struct Flags {
    given: Vec<(&'static str, String)>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            let value = match setting.kind {
                Kind::Text => "TEXT",
                Kind::Switch => "BOOL",
                Kind::Count => "NUMBER",
                Kind::Port => "PORT",
                Kind::Bytes | Kind::BytesOrNone => "SIZE",
                Kind::Time => "TIME",
            };
            let help = format!("{} [default: {}]", setting.about, setting.default);
            let flag = Arg::new(setting.name).long(setting.name.replace('_', "-"));
            command.arg(flag.value_name(value).help(help).help_heading("Settings"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone())));
        Ok(Self { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Serves until SIGINT or SIGTERM; a second one ends at once.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let settings = args.settings.settings()?;
    start_log(&settings);
    let signals = Signals::take_over()?;
    let needs_tls =
        settings.all().any(|(setting, value, _)| setting.name == "require_tls" && value == "true");
    let database = args.data.open(false)?;
    let server = Server::start(database.clone(), settings)?;
    println!("Tickstone serves {} until Ctrl-C.", args.data.data.display());
    for (name, address) in server.addresses() {
        println!("  {name:<12} {address}");
    }
    println!("{}", to_paste(server.addresses(), needs_tls, database.has_users()?));
    signals.wait();
    eprintln!("stopping: connections end after what they are at");
    let ended = server.stop();
    let closed = database.close(std::time::Duration::from_secs(5));
    if !ended || !closed {
        eprintln!("some connections had not ended; what was acknowledged is safe");
    }
    Ok(())
}

/// Commands to try it with, for the ports there are.
fn to_paste(addresses: &[(&str, SocketAddr)], needs_tls: bool, has_users: bool) -> String {
    // Whose certificates are trusted, docs/server/tls.md says.
    let (curl, http_scheme, scheme) = match needs_tls {
        true => ("curl --cacert ca.pem", "https", "tickstone+tls"),
        false => ("curl", "http", "tickstone"),
    };
    let authority = if needs_tls { "?ca=ca.pem" } else { "" };
    let (curl_user, user) = if has_users { (" -u USER", "USER@") } else { ("", "") };
    // Certificates are of names, and 0.0.0.0 is no address of a server.
    let host = |address: &SocketAddr| match address.ip().is_unspecified()
        || needs_tls && address.ip().is_loopback()
    {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    };
    let port =
        |name: &str| addresses.iter().find(|(setting, _)| *setting == name).map(|(_, address)| address);
    let mut lines = String::new();
    if let Some(http) = port("http_port").map(host) {
        lines += &format!(
            "\nAsk:    {curl}{curl_user} -G {http_scheme}://{http}/exec --data-urlencode \"query=SHOW TABLES\"\n\
             Store:  {curl}{curl_user} {http_scheme}://{http}/write --data-binary 'hello,symbol=BTC-USD price=61500.5'"
        );
    }
    if let Some(flight) = port("flight_port").map(host) {
        lines += &format!("\nShell:  tickstone sql --connect '{scheme}://{user}{flight}{authority}'");
    }
    // With users its clients sign.
    if let Some(ilp) = port("ilp_port").filter(|_| !needs_tls && !has_users) {
        let ip = if ilp.ip().is_unspecified() { "localhost".to_string() } else { ilp.ip().to_string() };
        lines += &format!("\nStream: echo 'hello,symbol=ETH-USD price=2500.5' | nc -N {ip} {}", ilp.port());
    }
    lines
}

impl SettingArgs {
    /// All settings: of the flags, the environment and the file.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        let wrong = |error: SettingError| Failure::Usage(error.to_string());
        for (name, value) in &self.flags.given {
            settings.set(name, value, Origin::Flag).map_err(wrong)?;
        }
        settings.read_environment(|name| std::env::var(name).ok()).map_err(wrong)?;
        if let Some(path) = &self.config {
            let unread = |source| Failure::Io { action: "read", path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(unread)?;
            let wrong = |error: SettingError| Failure::Usage(format!("{}: {error}", path.display()));
            settings.read_file(&text).map_err(wrong)?;
        }
        Ok(settings)
    }
}

/// Starts the log, on standard error.
pub(crate) fn start_log(settings: &Settings) {
    let of =
        |name| settings.all().find(|(setting, ..)| setting.name == name).map_or("", |(_, value, _)| value);
    let level = of("log_level").parse().unwrap_or(LevelFilter::INFO);
    let ours = Targets::new().with_target("tickstone_server", level);
    let registry = tracing_subscriber::registry().with(ours);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    // It fails only where a log was started before.
    let _ = match of("log_format") {
        "json" => registry.with(lines.json()).try_init(),
        _ => registry.with(lines).try_init(),
    };
}

/// SIGINT and SIGTERM, taken over from here on.
struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn take_over() -> Result<Self> {
        let cannot = |error: std::io::Error| Failure::Terminal(format!("cannot wait for signals: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let taken = |kind| runtime.block_on(async { signal(kind) }).map_err(cannot);
        let (interrupt, terminate) = (taken(SignalKind::interrupt())?, taken(SignalKind::terminate())?);
        Ok(Self { runtime, interrupt, terminate })
    }

    /// Waits for one; the next SIGINT ends the process.
    fn wait(self) {
        let Self { runtime, mut interrupt, mut terminate } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        std::thread::spawn(move || {
            runtime.block_on(interrupt.recv());
            std::process::exit(130);
        });
    }
}
