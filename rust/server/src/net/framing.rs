//! Framing of a connection's requests: incomplete heads and contradicting lengths, parsed in addition to hyper, which
//! exposes neither. Bodies are skipped.

use super::handshake::HANDSHAKE;
use memchr::memchr;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a line that are parsed: enough for the two names and a length.
const MAX_LINE_BYTES: usize = 64;

/// Marker instead of a request's number: a length was too long to parse, so every chunked request may contradict it.
pub(crate) const UNSURE: u32 = u32::MAX;

/// A connection's framing.
#[derive(Debug)]
pub(crate) struct Framing {
    protocol: ConnectionProtocol,
    /// Heads that have begun.
    begun: u32,
    /// Set until the last of them ends.
    open: bool,
    /// Set where the first byte begins a TLS handshake.
    tls: bool,
}

#[derive(Debug)]
enum ConnectionProtocol {
    /// Number of bytes that match HTTP/2's preface.
    Either(usize),
    Http1(Http1),
    Http2(Http2),
}

impl Framing {
    pub(crate) fn new() -> Self {
        Self { protocol: ConnectionProtocol::Either(0), begun: 0, open: false, tls: false }
    }

    /// Parses received bytes.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) {
        if let ConnectionProtocol::Either(matched) = &mut self.protocol {
            self.tls |= *matched == 0 && bytes.first() == Some(&HANDSHAKE);
            let same = PREFACE[*matched..].iter().zip(bytes).take_while(|(a, b)| a == b).count();
            *matched += same;
            bytes = &bytes[same..];
            if *matched == PREFACE.len() {
                self.protocol = ConnectionProtocol::Http2(Http2::default());
            } else if !bytes.is_empty() {
                let mut http1 = Http1::default();
                http1.read(&PREFACE[..*matched]);
                self.protocol = ConnectionProtocol::Http1(http1);
            }
        }
        let (ended, open) = match &mut self.protocol {
            ConnectionProtocol::Either(matched) => (false, *matched > 0),
            ConnectionProtocol::Http1(http1) => (http1.read(bytes), http1.is_in_head()),
            ConnectionProtocol::Http2(http2) => (http2.read(bytes), http2.is_in_head()),
        };
        self.begun = self.begun.wrapping_add(u32::from(open && (ended || !self.open)));
        self.open = open;
    }

    /// Returns the number of the head that is being received, from 1 on; 0 between heads.
    pub(crate) fn open_head(&self) -> u32 {
        if self.open { self.begun.max(1) } else { 0 }
    }

    /// Reports whether the client speaks TLS, which only hyper's error would show.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self.protocol, ConnectionProtocol::Http2(_))
    }

    /// Returns the first chunked HTTP/1.1 request with a `Content-Length`, counted from 1; 0 for none.
    pub(crate) fn contradiction(&self) -> u32 {
        if let ConnectionProtocol::Http1(http1) = &self.protocol { http1.contradiction } else { 0 }
    }
}

/// Parser of HTTP/1.1 heads.
#[derive(Debug)]
struct Http1 {
    part: Part,
    /// Bytes of a body to skip.
    skip: u64,
    line: [u8; MAX_LINE_BYTES],
    /// Length of the line so far; only its start is stored.
    len: usize,
    lines: u32,
    chunked: bool,
    length: Option<u64>,
    chunked_requests: u32,
    contradiction: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Head,
    ChunkSize,
    Trailers,
    /// Not HTTP: hyper refuses it.
    Lost,
}

impl Default for Http1 {
    fn default() -> Self {
        Self {
            part: Part::Head,
            skip: 0,
            line: [0; MAX_LINE_BYTES],
            len: 0,
            lines: 0,
            chunked: false,
            length: None,
            chunked_requests: 0,
            contradiction: 0,
        }
    }
}

impl Http1 {
    fn is_in_head(&self) -> bool {
        self.part == Part::Head && (self.lines > 0 || self.len > 0)
    }

    /// Parses bytes; returns true if a head has ended.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() && self.part != Part::Lost {
            if self.skip > 0 {
                let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.skip -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            let end = memchr(b'\n', bytes);
            let line = &bytes[..end.unwrap_or(bytes.len())];
            let Some(end) = end else {
                self.buffer(line);
                break;
            };
            bytes = &bytes[end + 1..];
            if self.len == 0 {
                ended |= self.end_line(line, false);
            } else {
                self.buffer(line);
                let (buffered, len) = (self.line, self.len);
                self.len = 0;
                ended |= self.end_line(&buffered[..len.min(MAX_LINE_BYTES)], len > MAX_LINE_BYTES);
            }
        }
        ended
    }

    fn buffer(&mut self, bytes: &[u8]) {
        if let Some(room) = self.line.get_mut(self.len..) {
            let buffered = bytes.len().min(room.len());
            room[..buffered].copy_from_slice(&bytes[..buffered]);
        }
        self.len = self.len.saturating_add(bytes.len());
    }

    /// Parses a line, whose end may be cut; returns true if a head ends with it.
    fn end_line(&mut self, line: &[u8], cut: bool) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.part {
            // Empty lines before a request are skipped.
            Part::Head if line.is_empty() => self.lines > 0 && self.end_head(),
            Part::Head => {
                self.lines += 1;
                if value(line, b"transfer-encoding").is_some() {
                    self.chunked = true;
                } else if let Some(length) = value(line, b"content-length") {
                    if cut {
                        self.contradiction = UNSURE;
                    }
                    let length = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
                    // hyper refuses an invalid length.
                    self.length = Some(length.unwrap_or(0));
                }
                false
            }
            Part::ChunkSize => {
                let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                if cut && digits == line.len() {
                    self.contradiction = UNSURE;
                }
                let size =
                    std::str::from_utf8(&line[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                match size {
                    Some(0) => self.part = Part::Trailers,
                    // A line end follows the chunk.
                    Some(size) => self.skip = size.saturating_add(2),
                    None => self.part = Part::Lost,
                }
                false
            }
            Part::Trailers => {
                if line.is_empty() {
                    self.part = Part::Head;
                }
                false
            }
            Part::Lost => false,
        }
    }

    fn end_head(&mut self) -> bool {
        let length = self.length.take();
        if std::mem::take(&mut self.chunked) {
            self.chunked_requests = self.chunked_requests.wrapping_add(1);
            if length.is_some() && self.contradiction == 0 {
                self.contradiction = self.chunked_requests;
            }
            self.part = Part::ChunkSize;
        } else {
            self.skip = length.unwrap_or(0);
        }
        self.lines = 0;
        true
    }
}

/// Returns the value of a header, if the line has its name.
fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (own, rest) = line.split_at_checked(name.len())?;
    rest.strip_prefix(b":").filter(|_| own.eq_ignore_ascii_case(name))
}

/// Parser of HTTP/2 frames after the preface. Data frames are not heads, however slowly they arrive.
#[derive(Debug, Default)]
struct Http2 {
    header: [u8; 9],
    have: usize,
    /// Bytes of the frame's payload that are not received.
    left: usize,
    /// Set once the first frame, SETTINGS, is received.
    began: bool,
    in_block: bool,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

impl Http2 {
    fn is_in_head(&self) -> bool {
        // A frame's header is stored until its payload is received.
        !self.began || self.in_block || (self.have > 0 && (self.have < 9 || self.header[3] != DATA))
    }

    /// Parses bytes; returns true if a head, or another frame, has ended.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        loop {
            if self.have < 9 {
                let taken = bytes.len().min(9 - self.have);
                self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
                if self.have < 9 {
                    return ended;
                }
                let [a, b, c, kind, ..] = self.header;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.in_block |= kind == HEADERS;
            }
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            if self.left > 0 {
                return ended;
            }
            let (kind, flags) = (self.header[3], self.header[4]);
            if matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0 {
                self.in_block = false;
            }
            ended |= !self.in_block;
            (self.began, self.have) = (true, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The framing after these bytes, read whole and byte by byte.
    fn framing_after(bytes: &[u8]) -> Framing {
        let (mut whole, mut slow) = (Framing::new(), Framing::new());
        whole.read(bytes);
        bytes.iter().for_each(|byte| slow.read(std::slice::from_ref(byte)));
        assert_eq!(
            (whole.open, whole.is_http2(), whole.contradiction()),
            (slow.open, slow.is_http2(), slow.contradiction()),
            "{}",
            String::from_utf8_lossy(bytes)
        );
        whole
    }

    #[test]
    fn head_is_open_from_its_first_byte_to_its_blank_line() {
        for (bytes, open) in [
            ("", false),
            ("\r\n\r\n", false),
            ("P", true),
            ("PRI", true),
            ("POST / HTTP/1.1\r\n", true),
            ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", false),
            ("\r\nGET / HTTP/1.1\n\n", false),
            ("POST / HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\na\n\n", false),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcG", true),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nG", true),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nabc", false),
        ] {
            assert_eq!(framing_after(bytes.as_bytes()).open_head() != 0, open, "{bytes:?}");
        }
    }

    #[test]
    fn new_head_has_a_new_number() {
        let mut framing = Framing::new();
        framing.read(b"GET / HTTP/1.1\r\n");
        assert_eq!(framing.open_head(), 1);
        framing.read(b"A: b\r\n");
        assert_eq!(framing.open_head(), 1);
        framing.read(b"\r\nGET");
        assert_eq!(framing.open_head(), 2);
    }

    #[test]
    fn conflicting_body_lengths_are_detected_in_any_order() {
        let [te, cl] = ["transfer-Encoding: chunked\r\n", "Content-Length:5\r\n"];
        let head = |lines: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let long = format!("X: {}\r\n", "content-length: 5 ".repeat(20));
        let plain = head(cl) + "12345";
        let chunked = head(&(long + te)) + "12\r\ncontent-length: 5\n\r\n0\r\n\r\n";
        for (bytes, expected) in [
            (plain.clone() + &chunked, 0),
            (head(&format!("{te}{cl}")), 1),
            (head(&format!("{cl}{te}")), 1),
            (plain + &chunked + &head(&format!("{cl}{te}")), 2),
        ] {
            assert_eq!(framing_after(bytes.as_bytes()).contradiction(), expected, "{bytes}");
        }
    }

    #[test]
    fn http2_heads_are_open_until_end_headers() {
        let frame = |kind: u8, flags: u8, payload: &[u8]| {
            let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, 1];
            frame.extend_from_slice(payload);
            frame
        };
        let opening = [PREFACE, &frame(4, 0, b"")].concat();
        for (rest, open) in [
            (frame(DATA, 0, b"abc")[..10].to_vec(), false),
            (frame(HEADERS, END_HEADERS, b"abc"), false),
            (frame(HEADERS, END_HEADERS, b"abc")[..10].to_vec(), true),
            (frame(HEADERS, 0, b"abc"), true),
            ([frame(HEADERS, 0, b"abc"), frame(CONTINUATION, 0, b"")].concat(), true),
            ([frame(HEADERS, 0, b"abc"), frame(CONTINUATION, END_HEADERS, b"")].concat(), false),
            (frame(6, 0, b"12345678")[..4].to_vec(), true),
            (frame(6, 0, b"12345678"), false),
        ] {
            let framing = framing_after(&[&opening[..], &rest].concat());
            assert!(framing.is_http2());
            assert_eq!(framing.open_head() != 0, open, "{rest:?}");
        }
        assert_ne!(framing_after(PREFACE).open_head(), 0, "the settings are missing");
    }
}
