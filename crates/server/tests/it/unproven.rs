//! Fuzz tests for every parser that a client reaches before it logs in. A stranger gets no row and no name of a table,
//! changes nothing, and makes the server hold little memory; other clients are served meanwhile.
//!
//! The fuzz test changes valid beginnings of every protocol at random. `TICKSTONE_FUZZ_CASES` sets the number of changed
//! ones of each, `TICKSTONE_SEED` repeats a run. Each test runs in its own process, because it measures resident memory and
//! counts panics of all threads.

mod beginnings;
mod changes;
mod held;

use crate::{PATIENCE, Served};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use beginnings::{ALL, Beginning, Step, Who, flight, ticket};
use changes::{Random, change};
use memchr::memmem;
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tickstone_query::arrow::util::pretty::pretty_format_batches;
use tickstone_query::{Access, Database, DatabaseOptions, Session, listed};

/// Canaries: the name of a table, and a value in another table. The Huffman code of HPACK has five bits for each of their
/// characters (RFC 7541, appendix B).
const NAME: &str = "tacitoasis20";
const VALUE: &str = "ecstatic0sociates1";

/// The environment variable that names the test a child process runs.
const ALONE: &str = "TICKSTONE_UNPROVEN";

/// Runs a test in its own process: the parent starts this binary again, the child runs `test`.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|of| of == name) {
        note_panics();
        // Format log lines as a server does, and discard them.
        tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(io::sink).init();
        test();
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(panics.is_empty(), "threads of the server panicked: {panics:#?}");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--include-ignored", "--nocapture"]).env(ALONE, name);
    let ran = command.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{}\n{out}\n{error}", ran.status);
    println!("{out}");
}

/// The panics of threads of the server and of the database.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with("tickstone") || name.starts_with("tokio")) {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        }
        before(panic);
    }));
}

/// A server with users, tables with the canaries, and a TLS certificate that clients need not use.
struct Guarded {
    served: Served,
    admin: Who,
    /// Credentials that are all wrong.
    stranger: Who,
    _files: TempDir,
}

impl Guarded {
    fn new(settings: &[(&str, &str)]) -> Self {
        let database = Database::in_memory(DatabaseOptions::default()).unwrap();
        let key = |sign: &mut dyn FnMut(&[u8])| {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
            let pair = pair.unwrap();
            sign(&pair.public_key().as_ref()[1..]);
            Arc::new(pair)
        };
        let mut owner = Access::of_owner(&database).session();
        for sql in [
            "CREATE TABLE t (ts TIMESTAMP, name VARCHAR) TIMESTAMP(ts)".to_string(),
            format!("INSERT INTO t VALUES ('2024-01-01T10:00:00Z', '{VALUE}')"),
            format!("CREATE TABLE {NAME} (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)"),
            "CREATE USER root PASSWORD 'a-long-secret' IN ROLE admin".to_string(),
        ] {
            ran(&mut owner, &sql);
        }
        let made = ran(&mut owner, "CREATE TOKEN feed FOR root");
        let token =
            made.split(['|', ' ']).find(|word| word.starts_with("tick_")).expect("a token").to_string();
        let own = key(&mut |point| {
            let [x, y] = [&point[..32], &point[32..]].map(|number| URL_SAFE_NO_PAD.encode(number));
            ran(&mut owner, &format!("CREATE TOKEN lines FOR root TYPE ES256 KEY ('{x}', '{y}')"));
        });
        let stream = database.engine().streams().create("s", Default::default()).unwrap();
        stream.push([VALUE.as_bytes()]).unwrap();

        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_string();
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        std::fs::write(path("key.pem"), pair.serialize_pem()).unwrap();
        std::fs::write(path("server.pem"), params.self_signed(&pair).unwrap().pem()).unwrap();
        let (certificate, pem) = (path("server.pem"), path("key.pem"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
        let tls = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());

        let own_settings = [("tls_certificate", certificate.as_str()), ("tls_key", &pem)];
        let served = Served::over(database, &[&own_settings[..], settings].concat());
        let (user, password) = ("root".to_string(), "a-long-secret".to_string());
        let admin = Who { user, password, token, key: own, tls: Arc::clone(&tls) };
        let stranger = Who {
            user: "stranger".to_string(),
            password: "no secret".to_string(),
            token: "tick_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_string(),
            key: key(&mut |_| {}),
            tls,
        };
        Self { served, admin, stranger, _files: files }
    }

    /// A stranger with a new user name, or sometimes the admin's.
    fn stranger(&self, random: &mut Random) -> Who {
        // Wrong passwords for one user are answered ever later, until that user logs in.
        let user = if random.one_in(40) { "root".to_string() } else { format!("u{}", random.next()) };
        Who { user, ..self.stranger.clone() }
    }

    /// The row counts of all tables and streams, and all users, tokens and grants.
    fn state(&self) -> Vec<String> {
        let database = &self.served.database;
        let access = Access::of_owner(database);
        let snapshot = access.snapshot().unwrap();
        let mut session = access.session();
        let names: Vec<_> = listed(&snapshot).map(|table| table.schema().name().to_string()).collect();
        let counts = names.iter().map(|name| format!("SELECT '{name}' AS t, count(*) AS n FROM \"{name}\""));
        let streams = database.engine().streams().all().unwrap();
        let streams = streams
            .iter()
            .map(|stream| format!("SELECT '{0}' AS s, count(*) AS n FROM stream('{0}')", stream.name()));
        let more = ["SHOW USERS", "SHOW TOKENS", "SHOW GRANTS"].map(str::to_string);
        let asked: Vec<_> = counts.chain(streams).chain(more).collect();
        asked.iter().map(|sql| ran(&mut session, sql)).collect()
    }

    /// Asserts that the server answers `/ping`, serves the admin over PostgreSQL's port, and has not panicked.
    fn lives(&self) {
        assert_eq!(self.served.ask("http_port", "GET /ping", b"").0, 204);
        let login = ALL.iter().find(|beginning| beginning.name == "SCRAM").unwrap();
        self.shows(login);
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(panics.is_empty(), "threads of the server panicked: {panics:#?}");
    }

    /// Waits until no other connection is open. A wrong password holds its connection for a minute at most.
    fn all_end(&self) {
        let asks = format!("GET /metrics\nAuthorization: {}", self.admin.basic());
        let begun = Instant::now();
        loop {
            let (_, metrics) = self.served.ask("http_port", &asks, b"");
            let open = metrics.lines().find_map(|line| line.strip_prefix("tickstone_connections_open "));
            if open == Some("1") {
                return;
            }
            assert!(begun.elapsed() < PATIENCE * 4, "{open:?} connections stay open");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asserts that the admin is answered as [`Beginning::shows`] says.
    fn shows(&self, beginning: &Beginning) {
        let how = How { quiet: PATIENCE, shows: Some(beginning.shows), ..How::default() };
        let played = self.play(beginning.port, (beginning.steps)(&self.admin), &how, &mut |_, _| true);
        let came = String::from_utf8_lossy(&played.came);
        assert!(has(&played.came, beginning.shows), "{}, {}: {came:?}", beginning.port, beginning.name);
    }

    /// Sends all steps over a new connection and reads the answers. `change` may change each step, and returns whether
    /// more steps follow.
    fn play(
        &self,
        port: &str,
        steps: Vec<Step>,
        how: &How,
        change: &mut dyn FnMut(usize, &mut Vec<u8>) -> bool,
    ) -> Played {
        let mut played = Played::default();
        let mut wire = match self.wire(port, how) {
            Ok(wire) => wire,
            Err(error) => panic!("{port} takes no connection: {error}"),
        };
        for (at, step) in steps.into_iter().enumerate() {
            let mut bytes = match step {
                Step::Say(bytes) => bytes,
                Step::Answer(answer) => loop {
                    if let Some(bytes) = answer(&played.came) {
                        break bytes;
                    }
                    if !wire.hear(&mut played.came, how.answers) {
                        break Vec::new();
                    }
                },
            };
            let goes_on = change(at, &mut bytes) && !bytes.is_empty();
            let sent = match how.piecemeal {
                true => bytes.chunks(1).take(400).try_for_each(|byte| wire.say(byte)),
                false => wire.say(&bytes),
            };
            played.sent.push(bytes);
            if sent.is_err() || !goes_on {
                break;
            }
        }
        if how.vanishes {
            return played;
        }
        let begun = Instant::now();
        let is_enough = |came: &[u8]| how.shows.is_some_and(|wanted| has(came, wanted));
        while !is_enough(&played.came)
            && begun.elapsed() < how.quiet.max(QUIET_MAX)
            && wire.hear(&mut played.came, how.quiet)
        {}
        wire.end();
        if how.shows.is_none() {
            while begun.elapsed() < how.quiet + QUIET_MAX && wire.hear(&mut played.came, QUIET_MAX) {}
        }
        played
    }

    /// A new connection, from the loopback address and with or without TLS as `how` says.
    fn wire(&self, port: &str, how: &How) -> io::Result<Wire> {
        let to = self.served.address(port);
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        // Systems other than Linux have one loopback address.
        let _ = socket.bind(&SocketAddr::new(IpAddr::from([127, how.from[0], how.from[1], 1]), 0).into());
        socket.connect(&to.into())?;
        let mut stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_millis(300)))?;
        if !how.is_encrypted {
            return Ok(Wire::Plain(stream));
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        if port == "pg_port" {
            stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
            stream.read_exact(&mut [0])?;
        }
        let name = ServerName::try_from("localhost").unwrap();
        let mut client =
            ClientConnection::new(Arc::clone(&self.stranger.tls), name).map_err(io::Error::other)?;
        while client.is_handshaking() {
            client.complete_io(&mut stream)?;
        }
        Ok(Wire::Tls(Box::new(StreamOwned::new(client, stream))))
    }
}

/// How long a client of the fuzz test waits for more bytes.
const QUIET_MAX: Duration = Duration::from_millis(250);

/// How a client sends.
struct How {
    /// The second and third byte of the client's address. The server delays wrong passwords by address.
    from: [u8; 2],
    is_encrypted: bool,
    /// Sends each byte by itself.
    piecemeal: bool,
    /// How long it waits for bytes that a step answers.
    answers: Duration,
    /// How long it waits for bytes after its last step.
    quiet: Duration,
    /// Closes after its last step without reading.
    vanishes: bool,
    /// Stops reading once these bytes came.
    shows: Option<&'static [u8]>,
}

impl Default for How {
    fn default() -> Self {
        let from = [0, 0];
        let (answers, quiet) = (PATIENCE, PATIENCE);
        Self { from, is_encrypted: false, piecemeal: false, answers, quiet, vanishes: false, shows: None }
    }
}

/// What a client sent and what came back.
#[derive(Default)]
struct Played {
    came: Vec<u8>,
    sent: Vec<Vec<u8>>,
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn tcp(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.write_all(bytes),
            Wire::Tls(stream) => stream.write_all(bytes),
        }
    }

    /// Reads once; whether bytes came within `patience`.
    fn hear(&mut self, came: &mut Vec<u8>, patience: Duration) -> bool {
        let mut bytes = [0; 16 << 10];
        if patience.is_zero() || self.tcp().set_read_timeout(Some(patience)).is_err() {
            return false;
        }
        let read = match self {
            Wire::Plain(stream) => stream.read(&mut bytes),
            Wire::Tls(stream) => stream.read(&mut bytes),
        };
        let count = read.unwrap_or(0);
        came.extend(&bytes[..count]);
        count > 0 && came.len() < 4 << 20
    }

    /// Closes the sending side.
    fn end(&mut self) {
        if let Wire::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.tcp().shutdown(Shutdown::Write);
    }
}

#[track_caller]
fn ran(session: &mut Session, sql: &str) -> String {
    let runtime = session.database().runtime().handle().clone();
    let batches = runtime.block_on(session.query(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    pretty_format_batches(&batches).unwrap().to_string()
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    memmem::find(bytes, wanted).is_some()
}

/// Whether bytes contain a canary, plain or in the Huffman code of HPACK.
fn leaks(bytes: &[u8], canary: &str) -> bool {
    let place = |letter: u8| b"012aceiost".iter().position(|known| *known == letter).expect("five bits");
    let bits =
        || canary.bytes().map(place).flat_map(|code| (0..5).rev().map(move |bit| code >> bit & 1 == 1));
    let packed = |skipped: usize| -> Vec<u8> {
        let bits: Vec<bool> = bits().skip(skipped).collect();
        let of = |byte: &[bool]| byte.iter().fold(0, |all, bit| all << 1 | u8::from(*bit));
        bits.chunks_exact(8).map(of).collect()
    };
    has(bytes, canary.as_bytes()) || (0..8).any(|skipped| has(bytes, &packed(skipped)))
}

#[test]
fn canaries_are_found_in_huffman_code() {
    assert!(leaks(b"a tacitoasis20", NAME) && !leaks(b"a tacitoasis2", NAME));
    let all: u128 = NAME.bytes().fold(1, |all, letter| {
        all << 5 | b"012aceiost".iter().position(|known| *known == letter).expect("five bits") as u128
    });
    for shift in 0..8 {
        assert!(leaks(&(all << shift).to_be_bytes(), NAME), "{shift}");
        assert!(!leaks(&((all ^ 1 << 30) << shift).to_be_bytes(), NAME), "{shift}");
    }
}

fn of_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Changed beginnings of each kind in an ordinary run.
const CASES: u64 = 150;
/// Clients that send at the same time.
const CLIENTS: usize = 96;

#[test]
fn beginnings_of_the_admin_show_what_strangers_look_for() {
    alone("unproven::beginnings_of_the_admin_show_what_strangers_look_for", || {
        let guarded = Guarded::new(&[]);
        for beginning in ALL {
            guarded.shows(beginning);
        }
        // An error of gRPC stands in a header, in Huffman code.
        let missing =
            flight("DoGet", Some(&guarded.admin.basic()), &ticket(&format!("SELECT * FROM {NAME}0")));
        let how = How { quiet: Duration::from_secs(2), ..How::default() };
        let played = guarded.play("flight_port", missing, &how, &mut |_, _| true);
        assert!(leaks(&played.came, NAME) && !has(&played.came, NAME.as_bytes()), "{:?}", played.came);
        // Line protocol over TCP has no answers.
        let begun = Instant::now();
        let mut owner = Access::of_owner(&guarded.served.database).session();
        while !ran(&mut owner, "SELECT count(*) FROM made").contains("| 46 ") {
            assert!(begun.elapsed() < PATIENCE, "{:?}", guarded.state());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn strangers_get_nothing_whatever_they_send() {
    alone("unproven::strangers_get_nothing_whatever_they_send", || {
        let seed =
            of_environment("TICKSTONE_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("TICKSTONE_SEED={seed}");
        let cases = of_environment("TICKSTONE_FUZZ_CASES").unwrap_or(CASES);
        let guarded = Guarded::new(&[("idle_timeout", "3s"), ("send_timeout", "3s")]);
        guarded.lives();
        let before = guarded.state();
        for (place, beginning) in ALL.iter().enumerate() {
            let begun = Instant::now();
            let cuts = cuts(&(beginning.steps)(&guarded.stranger), cases as usize);
            let next = AtomicUsize::new(0);
            let all = cuts.len() + cases as usize;
            std::thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        loop {
                            let case = next.fetch_add(1, Ordering::Relaxed);
                            if case >= all {
                                return;
                            }
                            // The seed of a case does not depend on the thread that runs it.
                            let number = (place as u64) << 32 | case as u64;
                            let mut random = Random(Random(seed ^ number).next());
                            let told = one(&guarded, beginning, cuts.get(case).copied(), &mut random);
                            assert!(told.is_none(), "TICKSTONE_SEED={seed}, case {case}: {}", told.unwrap());
                        }
                    });
                }
            });
            println!("{:>6} ms {}, {}", begun.elapsed().as_millis(), beginning.port, beginning.name);
            let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert!(panics.is_empty(), "{}, {}: {panics:#?}", beginning.port, beginning.name);
            guarded.lives();
        }
        assert_eq!(guarded.state(), before, "a stranger changed something");
        let begun = Instant::now();
        guarded.all_end();
        println!("{:>6} ms until all connections had ended", begun.elapsed().as_millis());
        guarded.lives();
    });
}

/// Places to cut a beginning at, each a step and the bytes of it that are sent: all of them, or `most` that are evenly
/// spaced.
fn cuts(steps: &[Step], most: usize) -> Vec<(usize, usize)> {
    let lengths = steps.iter().map(|step| match step {
        Step::Say(bytes) => bytes.len(),
        // Its length depends on the server's answer.
        Step::Answer(_) => 150,
    });
    let all: Vec<_> =
        lengths.enumerate().flat_map(|(step, length)| (0..length).map(move |at| (step, at))).collect();
    all.iter().step_by(all.len().div_ceil(most.max(1)).max(1)).copied().collect()
}

/// Sends one changed beginning; `Some` says which canary came back.
fn one(
    guarded: &Guarded,
    beginning: &Beginning,
    cut: Option<(usize, usize)>,
    random: &mut Random,
) -> Option<String> {
    let who = guarded.stranger(random);
    let mut steps = (beginning.steps)(&who);
    let own_tls = beginning.name == "TLS" || beginning.name == "SSLRequest";
    let mut how = How {
        from: [random.next() as u8, random.next() as u8],
        is_encrypted: cut.is_none() && !own_tls && random.one_in(16),
        answers: QUIET_MAX,
        quiet: Duration::from_millis(if cut.is_some() { 0 } else { *random.one_of(&[0, 3, 80]) }),
        ..How::default()
    };
    if cut.is_none() {
        (how.piecemeal, how.vanishes) = (random.one_in(16), random.one_in(12));
        if random.one_in(10) {
            // Put another beginning before or after it, of the same protocol or of any.
            let same = ALL.iter().filter(|other| other.port == beginning.port).collect::<Vec<_>>();
            let other = if random.one_in(2) { *random.one_of(&same) } else { random.one_of(ALL) };
            let at = *random.one_of(&[0, steps.len()]);
            steps.splice(at..at, (other.steps)(&who));
        }
        if random.one_in(20) {
            let (one, other) = (random.below(steps.len()), random.below(steps.len()));
            steps.swap(one, other);
        }
    }
    let changed = random.below(steps.len());
    let played = guarded.play(beginning.port, steps, &how, &mut |step, bytes| match cut {
        Some((at, length)) if at == step => {
            bytes.truncate(length);
            false
        }
        Some(_) => true,
        None => {
            if step == changed || random.one_in(8) {
                change(bytes, random);
            }
            true
        }
    });
    let seen = [NAME, VALUE].into_iter().find(|canary| leaks(&played.came, canary))?;
    let sent: Vec<_> = played.sent.iter().map(|bytes| bytes.escape_ascii().to_string()).collect();
    let came = played.came.escape_ascii();
    Some(format!("{}, {} saw {seen}\nsent {sent:#?}\ncame {came}", beginning.port, beginning.name))
}
