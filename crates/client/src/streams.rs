//! Raw streams of a server, by CakeDB's protocol: blocking, documents in and out.

use crate::address::Address;
use crate::error::{ClientError, Result as ClientResult};
use crate::tls;
use std::fmt::Debug;
use std::io::{self, BufWriter, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use tickstone_wire::stream::{Request, put};

/// The port of raw streams where none is said.
pub const STREAM_PORT: u16 = 8888;

/// Bytes of requests that wait to be sent together.
const SEND_BYTES: usize = 256 << 10;

/// A connection. A server that does not like what it is sent closes it without a word: its log says why.
#[derive(Debug)]
pub struct StreamClient {
    out: BufWriter<Box<dyn Socket>>,
    request: Vec<u8>,
}

/// A connection, in the clear or over TLS.
trait Socket: Read + Write + Send + Debug {}

impl<S: Read + Write + Send + Debug> Socket for S {}

/// The id of a stream on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u16);

/// A document that was read: its time (µs since the Unix epoch), and itself.
pub type Document = (u64, Vec<u8>);

impl StreamClient {
    /// Connects.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Box::new(socket)))
    }

    /// Connects to an address, and says who connects where the address has that. A server that does not know them closes
    /// the connection.
    ///
    /// # Errors
    /// Where authorities cannot be read, where no server answers there, or one whose certificate is not trusted.
    pub fn connect_to(address: &Address) -> ClientResult<Self> {
        let mut client = Self::reach(address)?;
        if let Some(credentials) = &address.credentials {
            let said = credentials.header()?;
            client.prove(said.as_bytes()).map_err(|error| ClientError::request(error.to_string()))?;
        }
        Ok(client)
    }

    fn reach(address: &Address) -> ClientResult<Self> {
        let Some(trust) = &address.trust else {
            return Self::connect((address.host_name(), address.port)).map_err(tls::unreached(address));
        };
        Ok(Self::over(Box::new(tls::connect(address, trust)?)))
    }

    fn over(socket: Box<dyn Socket>) -> Self {
        Self { out: BufWriter::with_capacity(SEND_BYTES, socket), request: Vec::new() }
    }

    fn send(&mut self, request: &Request<'_>) -> io::Result<()> {
        self.request.clear();
        put(&mut self.request, request);
        self.out.write_all(&self.request)
    }

    /// Says who connects; the server does not answer.
    fn prove(&mut self, credentials: &[u8]) -> io::Result<()> {
        self.send(&Request::Prove { credentials })
    }

    /// The stream of this name, which the server makes where it is missing and it may.
    ///
    /// # Errors
    /// Those of the operating system; `UnexpectedEof` where the server closed the connection.
    pub fn open(&mut self, name: &str) -> io::Result<StreamId> {
        self.send(&Request::Open { name })?;
        self.out.flush()?;
        let mut id = [0; 2];
        self.out.get_mut().read_exact(&mut id)?;
        Ok(StreamId(u16::from_be_bytes(id)))
    }

    /// Appends a document. It is sent with the next ones, or by [`Self::flush`]; it is never acknowledged.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn append(&mut self, stream: StreamId, document: &[u8]) -> io::Result<()> {
        self.send(&Request::Append { stream: stream.0, document })
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Waits until what was appended is on stable storage: the answer to any question says so.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn settle(&mut self, stream: StreamId) -> io::Result<()> {
        self.ask(&Request::LastBefore { stream: stream.0, at: u64::MAX }).map(drop)
    }

    /// Documents of these times (µs since the Unix epoch, both inclusive).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn range(&mut self, stream: StreamId, from: u64, to: u64) -> io::Result<Vec<Document>> {
        self.ask(&Request::Range { stream: stream.0, from, to })
    }

    /// All documents after a time (µs since the Unix epoch).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn since(&mut self, stream: StreamId, from: u64) -> io::Result<Vec<Document>> {
        self.ask(&Request::Since { stream: stream.0, from })
    }

    /// The newest document before a time (µs since the Unix epoch), or none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn last_before(&mut self, stream: StreamId, at: u64) -> io::Result<Option<Document>> {
        Ok(self.ask(&Request::LastBefore { stream: stream.0, at })?.pop())
    }

    fn ask(&mut self, request: &Request<'_>) -> io::Result<Vec<Document>> {
        self.send(request)?;
        self.out.flush()?;
        let socket = self.out.get_mut();
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut body =
            io::BufReader::with_capacity(SEND_BYTES, socket.take(u64::from(u32::from_be_bytes(length))));
        let mut documents = Vec::new();
        loop {
            let mut header = [0; 12];
            match body.read(&mut header[..1])? {
                0 if body.get_ref().limit() == 0 => return Ok(documents),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => body.read_exact(&mut header[1..])?,
            }
            let [a, b, c, d, e, f, g, h, i, j, k, l] = header;
            let mut document = vec![0; u32::from_be_bytes([i, j, k, l]) as usize];
            body.read_exact(&mut document)?;
            documents.push((u64::from_be_bytes([a, b, c, d, e, f, g, h]), document));
        }
    }
}
