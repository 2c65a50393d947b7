//! HTTP/1.1 by epoll on one thread, without a runtime and without a router.

use crate::http::Answers;
use bytes::{Buf, Bytes};
use httparse::{EMPTY_HEADER, Request, Status};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};
use slab::Slab;
use std::{
    io::{self, Error, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    str::from_utf8,
};

const LISTENER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
const READ_SIZE: usize = 64 << 10;
const MAX_HEADERS: usize = 64;

/// Whole responses, heads included.
struct Responses {
    json: Bytes,
    binary: Bytes,
}

/// Serves until an error of the listener or of epoll; errors of a connection close it.
pub(crate) fn serve(port: u16, answers: &Answers) -> io::Result<()> {
    let responses = Responses {
        json: response("application/json", &answers.json),
        binary: response("application/octet-stream", &answers.binary),
    };
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut connections = Slab::new();
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; READ_SIZE];
    loop {
        retried(|| poll.poll(&mut events, None))?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
            } else if let Some(connection) = connections.get_mut(event.token().0)
                && !matches!(connection.advance(&mut buffer, &responses), Ok(Next::Wait))
            {
                // Closes the socket, which leaves epoll with it.
                connections.remove(event.token().0);
            }
        }
    }
}

fn response(kind: &str, body: &[u8]) -> Bytes {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat().into()
}

fn accept(listener: &TcpListener, poll: &Poll, connections: &mut Slab<Connection>) -> io::Result<()> {
    while let Some((mut stream, _)) = unless_blocked(|| listener.accept())? {
        stream.set_nodelay(true)?;
        let entry = connections.vacant_entry();
        poll.registry().register(&mut stream, Token(entry.key()), Interest::READABLE | Interest::WRITABLE)?;
        entry.insert(Connection { stream, received: Vec::new(), body_left: 0, next: None, unsent: Bytes::new() });
    }
    Ok(())
}

enum Next {
    Wait,
    Close,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// Bytes of the request's body that are still to come.
    body_left: usize,
    /// The response of the request whose body is read.
    next: Option<Bytes>,
    unsent: Bytes,
}

impl Connection {
    /// Reads, answers and writes until the socket blocks.
    fn advance(&mut self, buffer: &mut [u8], responses: &Responses) -> io::Result<Next> {
        let mut drained = false;
        loop {
            while !self.unsent.is_empty() {
                let Some(count) = unless_blocked(|| self.stream.write(&self.unsent))? else { return Ok(Next::Wait) };
                self.unsent.advance(count);
            }
            if self.answer(responses)? {
                continue;
            }
            // A short read leaves the socket empty: a later byte is a new event.
            if drained {
                return Ok(Next::Wait);
            }
            match unless_blocked(|| self.stream.read(buffer))? {
                None => return Ok(Next::Wait),
                Some(0) => return Ok(Next::Close),
                Some(count) => {
                    drained = count < buffer.len();
                    self.received.extend_from_slice(&buffer[..count]);
                }
            }
        }
    }

    /// Takes the next request from what is received. Returns true once it is complete.
    fn answer(&mut self, responses: &Responses) -> io::Result<bool> {
        if self.next.is_none() {
            let Some(head) = parse(&self.received)? else { return Ok(false) };
            self.received.drain(..head.len);
            self.body_left = head.body;
            self.next = Some(if head.binary { responses.binary.clone() } else { responses.json.clone() });
        }
        let count = self.body_left.min(self.received.len());
        self.received.drain(..count);
        self.body_left -= count;
        if self.body_left > 0 {
            return Ok(false);
        }
        self.unsent = self.next.take().unwrap_or_default();
        Ok(true)
    }
}

struct Head {
    len: usize,
    body: usize,
    binary: bool,
}

/// The head of a request; `None` if it is incomplete.
fn parse(received: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    let Status::Complete(len) = request.parse(received).map_err(Error::other)? else { return Ok(None) };
    let (mut body, mut binary) = (0, false);
    for header in request.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = from_utf8(header.value).map_err(Error::other)?;
            body = text.trim().parse().map_err(Error::other)?;
        } else if header.name.eq_ignore_ascii_case("inference-header-content-length") {
            binary = true;
        }
    }
    Ok(Some(Head { len, body, binary }))
}

/// `None` if the socket would block.
fn unless_blocked<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
    match retried(call) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
