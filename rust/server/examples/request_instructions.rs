//! Server without an interpreter, for an instruction counter: one model whose handler is a closure, and one client.
//!
//! The client sends COUNT requests of FP32[1,16] over one connection, one after the other. The difference of two runs,
//! divided by the difference of their counts, is the instructions of one request, the client's few included:
//!
//! ```text
//! valgrind --tool=callgrind request_instructions json|bin|grpc COUNT
//! ```
//!
//! The numbers repeat within some parts in a thousand for one build, whatever else the machine does.

use penstock_core::{
    Inputs, Model, Outputs, Result,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, run_closure, values},
};
use penstock_server::{Address, Config, Listener, Server};
use smallvec::smallvec;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

fn double(inputs: Inputs, _rows: usize) -> Result<Outputs> {
    let tensor = inputs[0].as_ref().expect("a required input");
    let doubled: Vec<f32> = values(tensor).iter().map(|value| value * 2.0).collect();
    Ok(smallvec![fp32(tensor.shape(), &doubled)])
}

/// Sends requests over HTTP/1.1 and reads each response.
fn http(stream: TcpStream, request: &[u8], count: usize) {
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

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Sends calls over HTTP/2 and reads each response and its trailers.
fn grpc(stream: TcpStream, message: &[u8], count: usize) {
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

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count: usize = arguments[2].parse().expect("COUNT is a number");
    let metrics = Arc::new(Metrics::default());
    let model = Arc::new(Model::new(fp32_spec("double", &[Some(16)], Some(batching(32))), &metrics));
    let registry = Arc::new(penstock_core::Registry::default());
    registry.insert(Arc::clone(&model)).expect("a running server");
    let threads = run_closure(&model, double);
    let listener = Listener {
        address: Address::Tcp("127.0.0.1:0".parse().expect("a running server")),
        rest: true,
        grpc: true,
        metrics: false,
    };
    let server =
        Server::start(Config { listeners: vec![listener], io_threads: 1, ..Config::default() }, registry, metrics)
            .expect("a running server");
    server.set_ready();
    let Address::Tcp(address) = server.listeners()[0].address.clone() else { panic!("a TCP listener") };
    let stream = TcpStream::connect(address).expect("a running server");
    stream.set_nodelay(true).expect("a running server");
    let row: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let raw: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
    match arguments[1].as_str() {
        "json" => {
            let data: Vec<String> = row.iter().map(|value| format!("{value:.1}")).collect();
            let body = format!(
                r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,16],"data":[{}]}}]}}"#,
                data.join(",")
            );
            let request = format!(
                "POST /v2/models/double/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            http(stream, request.as_bytes(), count);
        }
        "bin" => {
            let head = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,16],"parameters":{"binary_data_size":64}}],"parameters":{"binary_data_output":true}}"#;
            let mut request = format!("POST /v2/models/double/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\ninference-header-content-length: {}\r\n\r\n{head}", head.len() + 64, head.len()).into_bytes();
            request.extend(&raw);
            http(stream, &request, count);
        }
        _ => {
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
            grpc(stream, &message, count);
        }
    }
    drop(server);
    model.queue().close();
    threads.into_iter().for_each(|thread| thread.join().expect("a running server"));
}
