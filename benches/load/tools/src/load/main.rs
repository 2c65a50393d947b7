//! A load generator that costs little: one thread, one outstanding request a connection.
//!
//! Closed loop by default. With `--rate` it is an open loop: requests start at fixed intervals, and latency counts
//! from the intended start, so that a slow server cannot hide the requests that it delayed. Prints one
//! line of JSON; latencies are in microseconds.
#![forbid(unsafe_code)]

mod arrivals;
mod grpc;
mod http;
mod options;
mod pace;
mod tally;

use clap::Parser;
use options::{Options, Wire};
use pace::Pace;
use std::{
    cell::RefCell,
    error::Error,
    rc::Rc,
    time::{Duration, Instant},
};
use tally::Tally;
use tokio::{runtime, task::LocalSet, time::timeout_at};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time after the end in which the last responses may arrive.
const GRACE: Duration = Duration::from_secs(5);

/// Shared state of a run's connections.
struct Run {
    options: Options,
    body: bytes::Bytes,
    pace: Pace,
    tally: RefCell<Tally>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let body = std::fs::read(&options.body).map_err(|error| format!("{}: {error}", options.body.display()))?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let start = Instant::now();
    let pace = Pace::new(&options, start);
    let tally = RefCell::new(Tally::new(&options)?);
    let run = Rc::new(Run { body: body.into(), pace, tally, options });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, connections(&run))?;
    println!("{}", run.tally.borrow().summary());
    Ok(())
}

async fn connections(run: &Rc<Run>) -> Result<(), Box<dyn Error>> {
    let calls = match run.options.wire {
        Wire::Http => http::spawn(run),
        Wire::Grpc => grpc::spawn(run)?,
    };
    let end = run.pace.end() + run.options.timeout().min(GRACE);
    for call in calls {
        // A request still in flight then is not counted: its connection is closed.
        if let Ok(finished) = timeout_at(end.into(), call).await {
            finished?;
        }
    }
    Ok(())
}
