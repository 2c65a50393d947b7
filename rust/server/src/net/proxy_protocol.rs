//! PROXY protocol, versions 1 and 2: the header by which a proxy names the client of a connection.
//!
//! HAProxy's `proxy-protocol.txt` defines it.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// First bytes of version 2. No header of version 1 is shorter than that.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Longest line of version 1, in bytes.
const LONGEST_LINE: usize = 107;

/// Longest rest of version 2, in bytes: addresses, and fields that are not read.
const LONGEST_REST: usize = 4096;

/// Reads the header, and nothing after it.
///
/// Returns the address of the client; `None` for a connection of the proxy's own, such as a health check, and for
/// clients of other networks.
///
/// # Errors
/// The connection's error, or `InvalidData` for another protocol.
pub(crate) async fn read<S: AsyncRead + Unpin>(socket: &mut S) -> io::Result<Option<SocketAddr>> {
    let mut start = [0; SIGNATURE.len()];
    socket.read_exact(&mut start).await?;
    if start == SIGNATURE {
        let mut fixed = [0; 4];
        socket.read_exact(&mut fixed).await?;
        let [command, family, length @ ..] = fixed;
        let length = usize::from(u16::from_be_bytes(length));
        if length > LONGEST_REST {
            return Err(invalid("a header of the PROXY protocol is too long"));
        }
        let mut rest = vec![0; length];
        socket.read_exact(&mut rest).await?;
        return version_2(command, family, &rest);
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LONGEST_LINE || !line.starts_with(b"PROXY ") {
            return Err(invalid("the connection does not begin with a header of the PROXY protocol"));
        }
        // Byte by byte: what follows belongs to the request.
        line.push(socket.read_u8().await?);
    }
    version_1(&line)
}

fn version_1(line: &[u8]) -> io::Result<Option<SocketAddr>> {
    let wrong = || invalid("the line of the PROXY protocol is malformed");
    let line = std::str::from_utf8(line).map_err(|_| wrong())?.trim_end_matches("\r\n");
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, port, to] => {
            let addresses: Result<[IpAddr; 2], _> =
                source.parse().and_then(|source| Ok([source, destination.parse()?]));
            let ports: Result<[u16; 2], _> = port.parse().and_then(|port| Ok([port, to.parse()?]));
            let (Ok(addresses), Ok([port, _])) = (addresses, ports) else { return Err(wrong()) };
            if addresses.iter().any(|address| address.is_ipv4() != (*family == "TCP4")) {
                return Err(wrong());
            }
            Ok(Some(SocketAddr::new(addresses[0], port)))
        }
        _ => Err(wrong()),
    }
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> io::Result<Option<SocketAddr>> {
    let wrong = || invalid("the header of the PROXY protocol is malformed");
    match command {
        // LOCAL: the proxy speaks for itself.
        0x20 => return Ok(None),
        0x21 => {}
        _ => return Err(wrong()),
    }
    // Source and destination, then their ports.
    let port = |at: usize| rest.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let client = match family {
        0x11 => {
            let source = rest.first_chunk::<4>().ok_or_else(wrong)?;
            SocketAddr::from((Ipv4Addr::from(*source), port(8).ok_or_else(wrong)?))
        }
        0x21 => {
            let source = rest.first_chunk::<16>().ok_or_else(wrong)?;
            SocketAddr::from((Ipv6Addr::from(*source), port(32).ok_or_else(wrong)?))
        }
        // Not TCP over IP: a receiver is to accept it, without an address.
        _ => return Ok(None),
    };
    Ok(Some(client))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads from bytes: the result, and what is left.
    fn read_bytes(bytes: &[u8]) -> (io::Result<Option<SocketAddr>>, &[u8]) {
        let mut left = bytes;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(read(&mut left));
        (found, left)
    }

    fn client(bytes: &[u8]) -> Option<String> {
        let request = [bytes, b"GET / HTTP/1.1\r\n"].concat();
        let (found, left) = read_bytes(&request);
        assert_eq!(left, b"GET / HTTP/1.1\r\n", "the request is left");
        found.unwrap().map(|client| client.to_string())
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn lines_of_version_1_name_the_client() {
        assert_eq!(client(b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n").unwrap(), "192.0.2.1:4711");
        assert_eq!(client(b"PROXY TCP6 2001:db8::1 ::1 65535 80\r\n").unwrap(), "[2001:db8::1]:65535");
        assert_eq!(client(b"PROXY UNKNOWN\r\n"), None);
        assert_eq!(client(b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), None);
    }

    #[test]
    fn headers_of_version_2_name_the_client() {
        let four = [192, 0, 2, 1, 10, 0, 0, 1, 18, 103, 0, 80];
        assert_eq!(client(&binary(0x21, 0x11, &four)).unwrap(), "192.0.2.1:4711");
        let with_fields = [&four[..], &[4, 0, 1, 9]].concat();
        assert_eq!(client(&binary(0x21, 0x11, &with_fields)).unwrap(), "192.0.2.1:4711");
        let six = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[18, 103, 0, 80]].concat();
        assert_eq!(client(&binary(0x21, 0x21, &six)).unwrap(), "[::1]:4711");
        assert_eq!(client(&binary(0x20, 0x00, &[])), None);
        assert_eq!(client(&binary(0x21, 0x31, &[0; 216])), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let long = format!("PROXY TCP4 {}\r\n", "1".repeat(107));
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80 1\r\n",
            b"PROXY TCP4 2001:db8::1 ::1 4711 80\r\n",
            b"PROXY TCP6 192.0.2.1 10.0.0.1 4711 80\r\n",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 70000 80\r\n",
            b"PROXY UDP4 192.0.2.1 10.0.0.1 4711 80\r\n",
            b"PROXY  TCP4 192.0.2.1 10.0.0.1 4711 80\r\n",
            long.as_bytes(),
            &binary(0x31, 0x11, &[0; 12]),
            &binary(0x22, 0x11, &[0; 12]),
            &binary(0x21, 0x11, &[0; 9]),
            &binary(0x21, 0x21, &[0; 33]),
            &binary(0x21, 0x11, &[0; 5000]),
        ] {
            let (found, _) = read_bytes(bytes);
            assert_eq!(found.unwrap_err().kind(), ErrorKind::InvalidData, "{bytes:?}");
        }
        for bytes in [&b"PROXY TC"[..], b"PROXY TCP4 192.0.2.1", &SIGNATURE, &binary(0x21, 0x11, &[0; 12])[..20]] {
            assert_eq!(read_bytes(bytes).0.unwrap_err().kind(), ErrorKind::UnexpectedEof, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_bytes(&bytes);
            let _ = read_bytes(&[&SIGNATURE[..], &bytes].concat());
            let _ = read_bytes(&[b"PROXY TCP4 ", &bytes[..]].concat());
        }
    }
}
