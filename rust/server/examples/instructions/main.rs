//! Server without an interpreter, for an instruction counter: models whose handlers are closures, and one client.
//!
//! The client sends COUNT requests over one connection, one after the other; `stream` and `grpc-stream` read COUNT pieces
//! of one response.
//! The difference of two runs, divided by the difference of their counts, is the instructions of one request or piece,
//! the client's few included:
//!
//! ```text
//! valgrind --tool=callgrind instructions SCENARIO COUNT
//! ```
//!
//! `python -m benches.instructions` runs and compares all of them.

mod grpc;
mod http;
mod keys;

use penstock_core::{
    Inputs, InterpreterTimes, Model, ModelSpec, Outputs, Readiness, Registry, Result, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, run_closure, values},
};
use penstock_server::{Address, Config, Listener, Server, Serves};
use smallvec::smallvec;
use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

/// Elements of the requests with many numbers as text.
const MANY: usize = 150_000;

/// Elements of an image of 4.9 MB.
const IMAGE: usize = 1_228_800;

/// Time of a batch beyond which an instance does not spin for the next one. It would, for some batches under callgrind
/// and not for others, and the counts would not repeat.
const NOT_SHORT: Duration = Duration::from_micros(500);

fn double(inputs: Inputs, _rows: usize) -> Result<Outputs> {
    thread::sleep(NOT_SHORT);
    let tensor = inputs[0].as_ref().expect("a required input");
    let doubled: Vec<f32> = values(tensor).iter().map(|value| value * 2.0).collect();
    Ok(smallvec![fp32(tensor.shape(), &doubled)])
}

fn first(inputs: Inputs, rows: usize) -> Result<Outputs> {
    thread::sleep(NOT_SHORT);
    let tensor = inputs[0].as_ref().expect("a required input");
    let bytes = tensor.as_slice()[..4].try_into().expect("an element");
    Ok(smallvec![fp32(&[rows, 1], &vec![f32::from_le_bytes(bytes); rows])])
}

/// Streams as many pieces as the input's first element says.
fn run_stream(model: &Arc<Model>) -> thread::JoinHandle<()> {
    model.set_readiness(Readiness::Ready);
    let queue = Arc::clone(model.queue());
    thread::spawn(move || {
        while let Some(work) = queue.next(0) {
            let Work::Batch(mut job) = work else { continue };
            let inputs = job.gather();
            let count = values(inputs[0].as_ref().expect("a required input"))[0] as usize;
            let mut streaming = job.stream();
            for piece in 1..=count {
                if streaming.is_full() {
                    streaming.wait_for_room();
                }
                let outputs = smallvec![fp32(&[1, 1], &[piece as f32])];
                streaming.send(outputs, &Vec::new(), piece == count).expect("outputs as declared");
            }
            streaming.finish(Ok(InterpreterTimes::default()));
        }
    })
}

/// Starts the models, and returns their threads.
fn models(registry: &Registry, metrics: &Metrics) -> (Vec<Arc<Model>>, Vec<thread::JoinHandle<()>>) {
    let add = |spec: ModelSpec| {
        let model = Arc::new(Model::new(spec, metrics));
        registry.insert(Arc::clone(&model)).expect("an unknown name");
        model
    };
    let small = add(fp32_spec("double", &[Some(16)], Some(batching(32))));
    let large = add(fp32_spec("large", &[None], Some(batching(32))));
    let mut image = fp32_spec("image", &[Some(IMAGE)], Some(batching(32)));
    image.outputs[0].dims = vec![Some(1)];
    let image = add(image);
    let tokens = add(ModelSpec { streams: true, ..fp32_spec("tokens", &[Some(1)], Some(batching(1))) });
    let mut threads = run_closure(&small, double);
    threads.extend(run_closure(&large, double));
    threads.extend(run_closure(&image, first));
    threads.push(run_stream(&tokens));
    (vec![small, large, image, tokens], threads)
}

fn numbers(data: &[f32]) -> String {
    data.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",")
}

fn json(model: &str, shape: &str, data: &[f32]) -> Vec<u8> {
    let tensor = format!(r#""name":"x","datatype":"FP32","shape":[{shape}],"data":[{}]"#, numbers(data));
    http::request(&format!("/v2/models/{model}/infer"), &format!(r#"{{"inputs":[{{{tensor}}}]}}"#), &[])
}

fn binary(model: &str, elements: usize, raw: &[u8]) -> Vec<u8> {
    let size = raw.len();
    let tensor =
        format!(r#""name":"x","datatype":"FP32","shape":[1,{elements}],"parameters":{{"binary_data_size":{size}}}"#);
    let json = format!(r#"{{"inputs":[{{{tensor}}}],"parameters":{{"binary_data_output":true}}}}"#);
    http::request(&format!("/v2/models/{model}/infer"), &json, raw)
}

fn send(address: SocketAddr, scenario: &str, count: usize) {
    let stream = TcpStream::connect(address).expect("a running server");
    stream.set_nodelay(true).expect("a running server");
    let row: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let raw: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
    match scenario {
        "json" => http::exchange(stream, &json("double", "1,16", &row), count),
        "json-key" => {
            let plain = json("double", "1,16", &row);
            let with_key = http::with_header(&plain, &format!("authorization: Bearer {}", keys::LAST));
            http::exchange(stream, &with_key, count);
        }
        "plain" => {
            let body = format!(r#"{{"x":[[{}]]}}"#, numbers(&row));
            http::exchange(stream, &http::request("/models/double", &body, &[]), count);
        }
        "binary" => http::exchange(stream, &binary("double", 16, &raw), count),
        "grpc" => grpc::exchange(stream, "ModelInfer", &grpc::message("double", &raw), count, raw.len()),
        "json-150k" => {
            let data: Vec<f32> = (0..MANY).map(|index| index as f32 * 0.37).collect();
            http::exchange(stream, &json("large", &format!("1,{MANY}"), &data), count);
        }
        "binary-4.9mb" => http::exchange(stream, &binary("image", IMAGE, &vec![0; IMAGE * 4]), count),
        "grpc-4.9mb" => {
            let message = grpc::message("image", &vec![0; IMAGE * 4]);
            grpc::exchange(stream, "ModelInfer", &message, count, 4);
        }
        "grpc-stream" => {
            let message = grpc::message("tokens", &(count as f32).to_le_bytes());
            grpc::exchange(stream, "ModelStreamInfer", &message, 1, 4 * count);
        }
        "stream" => http::read_stream(stream, &{
            let body = format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,1],"data":[{count}]}}]}}"#);
            http::request("/v2/models/tokens/generate_stream", &body, &[])
        }),
        other => panic!("no scenario {other}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, scenario, count] = &arguments[..] else { panic!("expected a scenario and a count") };
    let count = count.parse().expect("a number");
    let (metrics, registry) = (Arc::new(Metrics::default()), Arc::new(Registry::default()));
    let (models, threads) = models(&registry, &metrics);
    let listener = Listener {
        address: Address::Tcp("127.0.0.1:0".parse().expect("an address")),
        serves: Serves { rest: true, grpc: true, ..Serves::default() },
        tls: false,
        proxied: false,
    };
    let keys = (scenario == "json-key").then(keys::settings);
    let config = Config { listeners: vec![listener], io_threads: 1, keys, ..Config::default() };
    let server = Server::start(config, registry, metrics).expect("a free port");
    server.set_ready();
    let Address::Tcp(address) = server.listeners()[0].address.clone() else { panic!("a TCP listener") };
    send(address, scenario, count);
    drop(server);
    models.iter().for_each(|model| model.queue().close());
    threads.into_iter().for_each(|thread| thread.join().expect("a handler that returns"));
}
