//! Client of HTTP/1.1, with as few instructions as possible.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

/// Builds a request with a body of JSON, and raw tensors behind it.
pub(crate) fn request(path: &str, json: &str, raw: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", json.len() + raw.len());
    if !raw.is_empty() {
        bytes.push_str(&format!("inference-header-content-length: {}\r\n", json.len()));
    }
    bytes.push_str("\r\n");
    bytes.push_str(json);
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(raw);
    bytes
}

/// Adds a header to a request.
pub(crate) fn with_header(request: &[u8], header: &str) -> Vec<u8> {
    let line = request.windows(2).position(|pair| pair == b"\r\n").expect("a request line") + 2;
    [&request[..line], header.as_bytes(), b"\r\n", &request[line..]].concat()
}

/// Sends requests over HTTP/1.1 and reads each response.
pub(crate) fn exchange(stream: TcpStream, request: &[u8], count: usize) {
    let mut writer = stream.try_clone().expect("a running server");
    let mut reader = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    for _ in 0..count {
        writer.write_all(request).expect("a running server");
        line.clear();
        reader.read_line(&mut line).expect("a running server");
        assert!(line.contains(" 200 "), "{line}");
        let mut size = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a running server");
            if line.trim().is_empty() {
                break;
            }
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                size = length.trim().parse().expect("a running server");
            }
        }
        body.resize(size, 0);
        reader.read_exact(&mut body).expect("a running server");
    }
}

/// Sends one request, and reads its streamed response to the end.
pub(crate) fn read_stream(mut stream: TcpStream, request: &[u8]) {
    stream.write_all(request).expect("a running server");
    let (mut chunk, mut tail) = (vec![0; 64 << 10], Vec::new());
    while !tail.ends_with(b"\r\n0\r\n\r\n") {
        let count = stream.read(&mut chunk).expect("a running server");
        assert!(count > 0, "the response has an end");
        tail.extend_from_slice(&chunk[count.saturating_sub(16)..count]);
        tail.drain(..tail.len().saturating_sub(16));
    }
}
