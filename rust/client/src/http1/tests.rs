use super::*;
use crate::{
    blocking::{Step, drive},
    socket::Socket,
};
use penstock_core::Kind;
use penstock_wire::coding::Coding;
use socket2::{Domain, Socket as RawSocket, Type};
use std::{
    future::Future,
    io::{Read as _, Write as _},
    pin::pin,
    time::{Duration, Instant},
};

/// A connection, and the other end of it.
fn pair() -> (Http1, RawSocket) {
    let (ours, theirs) = RawSocket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    (Http1::new(Stream::Plain(Socket::blocking(ours))), theirs)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    match drive(pin!(future), Some(Instant::now() + Duration::from_secs(20))) {
        Step::Ready(done) => done,
        Step::Interrupted => panic!("no signal was sent"),
    }
}

/// Reads a response that arrives in chunks of that size and then ends.
fn read(response: &[u8], size: usize) -> Result<(Head, Vec<u8>)> {
    let (mut connection, mut theirs) = pair();
    let response = response.to_vec();
    let server = std::thread::spawn(move || response.chunks(size).all(|chunk| theirs.write_all(chunk).is_ok()));
    let read = block_on(async {
        let mut head = connection.head(false).await?;
        let body = connection.body(&mut head.framing, 1000).await?;
        Ok((head, body))
    });
    server.join().unwrap();
    read
}

fn error_message(response: &[u8]) -> String {
    read(response, response.len()).unwrap_err().error.message().to_owned()
}

#[test]
fn bodies_end_as_their_framing_headers_declare() {
    for (response, body, keep) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"[..], &b"abc"[..], true),
        (b"HTTP/1.1 200 OK\r\ncontent-length:3\r\nConnection: close\r\n\r\nabc", b"abc", false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", false),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", b"abc", false),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", true),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", true),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: 1\r\n\r\n",
            b"abc",
            true,
        ),
    ] {
        for size in [1, 7, response.len()] {
            let (head, read) = read(response, size).unwrap();
            assert_eq!((read.as_slice(), head.keep_alive), (body, keep), "{}", response.escape_ascii());
        }
    }
}

#[test]
fn response_head_fields_are_parsed() {
    let response = b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\nInference-Header-Content-Length: 12\r\n\
        content-encoding: gzip\r\ncontent-length: 0\r\n\r\n";
    let (head, _) = read(response, 5).unwrap();
    assert_eq!((head.status, head.json_len, head.encoding), (429, Some(12), Some(Coding::Gzip)));
    assert_eq!(head.retry_after, Some(Duration::from_secs(7)));
}

#[test]
fn malformed_responses_are_errors_with_a_reason() {
    let malformed = |why: &str| format!("the server's answer is not HTTP/1.1: {why}");
    for (response, why) in [
        (&b"SSH-2.0-x\r\n\r\n"[..], malformed("invalid HTTP version")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", malformed("its content length is not a number")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", malformed("it has two content lengths")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", malformed("its transfer encoding is not known")),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: x-own\r\n\r\n", malformed("its content encoding is not known")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", malformed("a chunk's size is not a number")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na", malformed("a chunk's size is not a number")),
    ] {
        assert_eq!(error_message(response), why);
    }
    let endless = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'a'; 99_000]].concat();
    assert_eq!(error_message(&endless), malformed("its head has no end"));
}

#[test]
fn truncated_response_is_a_lost_connection() {
    for response in [
        &b"HTTP/1.1 200 OK\r\nContent-Le"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let failure = read(response, 10).unwrap_err();
        assert_eq!((failure.error.kind(), failure.stage), (Kind::Unavailable, Stage::Unknown));
        assert_eq!(
            failure.error.message(),
            "the connection was lost while an answer was awaited: the server closed the connection"
        );
    }
}

#[test]
fn body_over_the_limit_is_refused() {
    let too_long = [b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".to_vec(), vec![0; 1001]].concat();
    assert!(error_message(&too_long).starts_with("the server's answer has more than 1000 bytes"));
}

#[test]
fn request_head_and_chunks_are_written_in_full() {
    let (mut connection, mut theirs) = pair();
    let chunks = [Bytes::from(vec![1; 300_000]), Bytes::new(), Bytes::from(vec![2; 5])];
    let server = std::thread::spawn(move || {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).unwrap();
        all
    });
    block_on(connection.send(b"head", &chunks)).unwrap();
    drop(connection);
    let all = server.join().unwrap();
    assert_eq!(all, [b"head".as_slice(), &chunks.concat()].concat());
}

#[test]
fn closed_connection_is_not_idle() {
    let (connection, mut theirs) = pair();
    assert!(connection.is_idle());
    theirs.write_all(b"x").unwrap();
    assert!(!connection.is_idle());
    let (connection, theirs) = pair();
    drop(theirs);
    assert!(!connection.is_idle());
}

#[test]
fn deadline_ends_a_pending_read() {
    let (mut connection, _theirs) = pair();
    let start = Instant::now();
    let timeout = Duration::from_millis(60);
    let Step::Ready(Err(failure)) = drive(pin!(connection.head(false)), Some(start + timeout)) else {
        panic!("it waits")
    };
    assert_eq!(failure.error.kind(), Kind::Timeout);
    assert!((timeout..timeout * 20).contains(&start.elapsed()));
}
