//! Client of gRPC over HTTP/2, with as few instructions as possible.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::TcpStream,
};

/// Builds `ModelInfer`'s message: model `double`, input `x` of FP32[1,16].
pub(crate) fn message(raw: &[u8]) -> Vec<u8> {
    // model_name = 1; inputs = 5 { name = 1, datatype = 2, shape = 3 packed }; raw_input_contents = 7.
    let mut message = vec![0x0a, 6];
    message.extend(b"double");
    let mut input = vec![0x0a, 1, b'x', 0x12, 4];
    input.extend(b"FP32");
    input.extend([0x1a, 2, 1, 16]);
    message.extend([0x2a, input.len() as u8]);
    message.extend(input);
    message.extend([0x3a, 64]);
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

/// Sends calls over HTTP/2 and reads each response and its trailers.
pub(crate) fn exchange(stream: TcpStream, message: &[u8], count: usize) {
    let mut writer = stream.try_clone().expect("a running server");
    let mut reader = BufReader::new(stream);
    writer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("a running server");
    writer.write_all(&frame(4, 0, 0, &[])).expect("a running server");
    writer.write_all(&frame(8, 0, 0, &(1_u32 << 30).to_be_bytes())).expect("a running server");
    let mut head = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/inference.GRPCInferenceService/ModelInfer"),
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
    for number in 0..count as u32 {
        let id = 2 * number + 1;
        let mut call = frame(1, 4, id, &head);
        call.extend(frame(0, 1, id, &data));
        writer.write_all(&call).expect("a running server");
        let mut got = 0;
        loop {
            let mut top = [0; 9];
            reader.read_exact(&mut top).expect("a running server");
            let length = u32::from_be_bytes([0, top[0], top[1], top[2]]) as usize;
            body.resize(length, 0);
            reader.read_exact(&mut body).expect("a running server");
            match top[3] {
                0 => got += length,
                4 if top[4] & 1 == 0 => writer.write_all(&frame(4, 1, 0, &[])).expect("a running server"),
                6 if top[4] & 1 == 0 => writer.write_all(&frame(6, 1, 0, &body)).expect("a running server"),
                3 | 7 => panic!("reset {body:?}"),
                _ => {}
            }
            if top[3] <= 1 && top[4] & 1 == 1 {
                break;
            }
        }
        assert!(got > 64, "no response: {got}");
    }
}
