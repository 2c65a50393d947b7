//! HTTP/1.1 over persistent connections, written and read by hand: a client library would cost more than the servers.

use crate::{Run, tally::Outcome};
use httparse::{EMPTY_HEADER, Response, Status};
use std::{
    io::{self, Error, ErrorKind},
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};

/// Bodies below this go out with the head, in one packet.
const JOINED: usize = 64 << 10;
const READ_SIZE: usize = 64 << 10;
const MAX_HEADERS: usize = 64;
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// One task for each connection.
pub(crate) fn spawn(run: &Rc<Run>) -> Vec<JoinHandle<()>> {
    let head: Rc<[u8]> = head(run).into_bytes().into();
    (0..run.options.connections).map(|_| spawn_local(connection(Rc::clone(run), Rc::clone(&head)))).collect()
}

fn head(run: &Run) -> String {
    let options = &run.options;
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\nContent-Length: {}\r\n",
        options.path,
        options.address,
        run.body.len()
    );
    for header in &options.headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head
}

async fn connection(run: Rc<Run>, head: Rc<[u8]>) {
    let mut wire: Option<Connection> = None;
    let mut connected_before = false;
    while let Some(start) = run.pace.turn().await {
        let count = |outcome: &Outcome<'_>| run.tally.borrow_mut().count(&run.pace, start, outcome);
        let open = match wire.take() {
            Some(open) => Ok(open),
            None => Connection::open(&run.options.address).await,
        };
        let mut open = match open {
            Ok(open) => open,
            Err(error) => {
                count(&Outcome::Bad { code: "connect", text: error.to_string().as_bytes() });
                sleep(RETRY_AFTER).await;
                continue;
            }
        };
        if open.fresh && connected_before {
            run.tally.borrow_mut().reconnected();
        }
        (open.fresh, connected_before) = (false, true);
        let leaves = run.pace.leaves();
        let patience = if leaves { run.options.patience() } else { run.options.timeout() };
        match timeout(patience, open.call(&head, &run.body)).await {
            Ok(Ok(answer)) => {
                let code = answer.code.to_string();
                let body = open.body(&answer);
                count(&if (200..300).contains(&answer.code) {
                    Outcome::Good { code: &code, body }
                } else {
                    Outcome::Bad { code: &code, text: body }
                });
                if answer.keep {
                    wire = Some(open);
                }
            }
            Ok(Err(error)) => {
                count(&Outcome::Bad { code: &format!("io: {:?}", error.kind()), text: error.to_string().as_bytes() });
            }
            Err(_) if leaves => count(&Outcome::Bad { code: "left", text: b"" }),
            Err(_) => count(&Outcome::Bad { code: "timeout", text: b"the client gave up" }),
        }
    }
}

/// The ranges of a response in its connection's buffers.
struct Answer {
    code: u16,
    start: usize,
    end: usize,
    chunked: bool,
    keep: bool,
}

/// The framing of a response, as its head has it.
struct Head {
    code: u16,
    len: usize,
    body: Framing,
    keep: bool,
}

enum Framing {
    Length(usize),
    Chunked,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// A decoded chunked body.
    joined: Vec<u8>,
    fresh: bool,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(READ_SIZE), joined: Vec::new(), fresh: true })
    }

    fn body(&self, answer: &Answer) -> &[u8] {
        let whole = if answer.chunked { &self.joined } else { &self.received };
        &whole[answer.start..answer.end]
    }

    async fn call(&mut self, head: &[u8], body: &[u8]) -> io::Result<Answer> {
        if body.len() < JOINED {
            self.stream.write_all(&[head, body].concat()).await?;
        } else {
            self.stream.write_all(head).await?;
            self.stream.write_all(body).await?;
        }
        self.received.clear();
        let head = loop {
            self.read_more().await?;
            let Some(head) = parse(&self.received)? else { continue };
            if head.code != 100 {
                break head;
            }
            self.received.drain(..head.len);
        };
        let Head { code, len, body, keep } = head;
        match body {
            Framing::Length(length) => {
                let end = len + length;
                self.received.reserve(end.saturating_sub(self.received.len()));
                self.read_until(end).await?;
                Ok(Answer { code, start: len, end, chunked: false, keep })
            }
            Framing::Chunked => {
                self.join_chunks(len).await?;
                Ok(Answer { code, start: 0, end: self.joined.len(), chunked: true, keep })
            }
        }
    }

    async fn join_chunks(&mut self, mut position: usize) -> io::Result<()> {
        self.joined.clear();
        loop {
            let parsed = httparse::parse_chunk_size(&self.received[position..]);
            let Status::Complete((prefix, size)) = parsed.map_err(|_| broken("a chunk has no size"))? else {
                self.read_more().await?;
                continue;
            };
            let size = usize::try_from(size).map_err(|_| broken("a chunk is too large"))?;
            let (start, end) = (position + prefix, position + prefix + size);
            // Each chunk, the last empty one too, ends with a line break.
            self.read_until(end + 2).await?;
            self.joined.extend_from_slice(&self.received[start..end]);
            position = end + 2;
            if size == 0 {
                return Ok(());
            }
        }
    }

    async fn read_until(&mut self, len: usize) -> io::Result<()> {
        while self.received.len() < len {
            self.read_more().await?;
        }
        Ok(())
    }

    async fn read_more(&mut self) -> io::Result<()> {
        if self.received.capacity() - self.received.len() < READ_SIZE / 4 {
            self.received.reserve(READ_SIZE);
        }
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }
}

/// Parses the head of a response; `None` while it is incomplete.
fn parse(received: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = Response::new(&mut headers);
    let Status::Complete(len) = response.parse(received).map_err(|error| broken(&error.to_string()))? else {
        return Ok(None);
    };
    let mut head = Head { code: response.code.unwrap_or(0), len, body: Framing::Length(0), keep: true };
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            head.body = Framing::Length(value.parse().map_err(|_| broken("Content-Length is no number"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.body = Framing::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.keep = !value.eq_ignore_ascii_case("close");
        }
    }
    Ok(Some(head))
}

fn broken(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}
