//! Client of gRPC over HTTP/2, with as few instructions as possible.

use std::{
    io::{BufReader, Read, Write as _},
    net::TcpStream,
};

/// Payload of a DATA frame; the server accepts larger ones, clients send this by default.
const FRAME_BYTES: usize = 16 << 10;

/// Windows of the client's connection and streams: responses are never delayed.
const WINDOW: u32 = 1 << 30;

/// Appends a varint of protobuf.
fn put_varint(message: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Builds a request's message: input `x` of FP32[1,elements].
pub(crate) fn message(model: &str, raw: &[u8]) -> Vec<u8> {
    // model_name = 1; inputs = 5 { name = 1, datatype = 2, shape = 3 packed }; raw_input_contents = 7.
    let mut message = vec![0x0a, model.len() as u8];
    message.extend(model.as_bytes());
    let mut shape = vec![1];
    put_varint(&mut shape, raw.len() / 4);
    let mut input = vec![0x0a, 1, b'x', 0x12, 4];
    input.extend(b"FP32");
    input.extend([0x1a, shape.len() as u8]);
    input.extend(shape);
    message.extend([0x2a, input.len() as u8]);
    message.extend(input);
    message.push(0x3a);
    put_varint(&mut message, raw.len());
    message.extend(raw);
    message
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads a frame: its header, and its payload into `body`.
fn read_frame(reader: &mut impl Read, body: &mut Vec<u8>) -> [u8; 9] {
    let mut top = [0; 9];
    reader.read_exact(&mut top).expect("a running server");
    body.resize(u32::from_be_bytes([0, top[0], top[1], top[2]]) as usize, 0);
    reader.read_exact(body).expect("a running server");
    top
}

/// Sends calls over HTTP/2 and reads each response and its trailers: at least `expected` bytes of messages.
pub(crate) fn exchange(stream: TcpStream, call: &str, message: &[u8], count: usize, expected: usize) {
    let mut writer = stream.try_clone().expect("a running server");
    let mut reader = BufReader::new(stream);
    writer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("a running server");
    // SETTINGS_INITIAL_WINDOW_SIZE = 4.
    let window = [&4_u16.to_be_bytes()[..], &WINDOW.to_be_bytes()].concat();
    writer.write_all(&frame(4, 0, 0, &window)).expect("a running server");
    writer.write_all(&frame(8, 0, 0, &WINDOW.to_be_bytes())).expect("a running server");
    let path = format!("/inference.GRPCInferenceService/{call}");
    let mut head = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path.as_str()),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ] {
        head.extend([0, name.len() as u8]);
        head.extend(name.as_bytes());
        head.push(value.len() as u8);
        head.extend(value.as_bytes());
    }
    let mut data = vec![0];
    data.extend((message.len() as u32).to_be_bytes());
    data.extend(message);
    let mut body = Vec::new();
    // Streams have the server's window from the acknowledgement of its first frame, SETTINGS, on; the connection has
    // 64 KiB until its WINDOW_UPDATE, and larger messages end it.
    assert_eq!(read_frame(&mut reader, &mut body)[3], 4, "the first frame is SETTINGS");
    writer.write_all(&frame(4, 1, 0, &[])).expect("a running server");
    while read_frame(&mut reader, &mut body)[3] != 8 {}
    for number in 0..count as u32 {
        let id = 2 * number + 1;
        let mut call = frame(1, 4, id, &head);
        let mut parts = data.chunks(FRAME_BYTES).peekable();
        while let Some(part) = parts.next() {
            call.extend(frame(0, u8::from(parts.peek().is_none()), id, part));
        }
        writer.write_all(&call).expect("a running server");
        let mut got = 0;
        loop {
            let top = read_frame(&mut reader, &mut body);
            match top[3] {
                0 => got += body.len(),
                6 if top[4] & 1 == 0 => writer.write_all(&frame(6, 1, 0, &body)).expect("a running server"),
                3 | 7 => panic!("reset {body:?}"),
                _ => {}
            }
            if top[3] <= 1 && top[4] & 1 == 1 {
                break;
            }
        }
        assert!(got >= expected, "{got} bytes of messages, expected {expected}");
    }
}
