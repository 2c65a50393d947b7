//! The whole server with a closure instead of a Python handler: the upper bound for every benchmark.
//!
//! `cargo run --release -p penstock-server --example echo -- 127.0.0.1:8000 127.0.0.1:8001`
//! serves model `m1` (FP32[16] doubled, one call a request) and `m1b` (the same, batched).

use penstock_core::{
    Inputs, Model, Outputs, Registry, Result,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, run_closure, values},
};
use penstock_server::{Address, Config, Listener, Server, Serves};
use smallvec::smallvec;
use std::{sync::Arc, thread, time::Duration};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn double(inputs: Inputs, _rows: usize) -> Result<Outputs> {
    let Some(Some(tensor)) = inputs.first() else { return Ok(Outputs::new()) };
    let doubled: Vec<f32> = values(tensor).iter().map(|value| value * 2.0).collect();
    Ok(smallvec![fp32(tensor.shape(), &doubled)])
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let http = arguments.next().unwrap_or_else(|| "127.0.0.1:8000".to_owned()).parse()?;
    let grpc = arguments.next().unwrap_or_else(|| "127.0.0.1:8001".to_owned()).parse()?;
    let config = Config {
        listeners: vec![
            Listener {
                address: Address::Tcp(http),
                serves: Serves { rest: true, ..Serves::default() },
                tls: false,
                proxied: false,
            },
            Listener {
                address: Address::Tcp(grpc),
                serves: Serves { grpc: true, ..Serves::default() },
                tls: false,
                proxied: false,
            },
        ],
        ..Config::default()
    };
    let (registry, metrics) = (Arc::new(Registry::default()), Arc::new(Metrics::default()));
    for (name, batching) in [("m1", batching(1)), ("m1b", batching(32))] {
        let model = Arc::new(Model::new(fp32_spec(name, &[Some(16)], Some(batching)), &metrics));
        run_closure(&model, double);
        registry.insert(model)?;
    }
    let server = Server::start(config, registry, metrics)?;
    server.set_ready();
    println!("serving {:?}", server.listeners());
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
