use super::*;
use crate::{Options, RawRequest, Target};
use bytes::Bytes;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

const LONG: Duration = Duration::from_secs(60);

/// An HTTP server, and the bodies that it has read.
struct Server {
    url: String,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server that responds to the n-th request with the whole response `respond(n)`.
    fn start(respond: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            Self { url: format!("http://{}", listener.local_addr().unwrap()), bodies: Arc::new(Mutex::default()) };
        let (bodies, respond) = (Arc::clone(&server.bodies), Arc::new(respond));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, bodies, respond) = (stream.unwrap(), Arc::clone(&bodies), Arc::clone(&respond));
                thread::spawn(move || serve(stream, &bodies, &*respond));
            }
        });
        server
    }

    fn count(&self) -> u64 {
        self.bodies.lock().unwrap().len() as u64
    }

    fn plan(&self, load: Load) -> LoadPlan {
        LoadPlan {
            target: Target::parse(&self.url).unwrap(),
            options: Options::default(),
            requests: vec![json("1")],
            load,
            threads: 1,
            connections: 1,
            timeout: LONG,
            validate: false,
            warmup: Duration::ZERO,
            duration: None,
            limit: Some(100),
        }
    }
}

fn serve(stream: TcpStream, bodies: &Mutex<Vec<String>>, respond: &dyn Fn(usize) -> String) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let number = {
            let mut bodies = bodies.lock().unwrap();
            bodies.push(String::from_utf8(body).unwrap());
            bodies.len() - 1
        };
        let response = respond(number);
        reader.get_mut().write_all(response.as_bytes()).ok()?;
        if response.contains("Connection: close") {
            return None;
        }
    }
}

fn json(body: &str) -> LoadRequest {
    let body = Bytes::from(body.to_owned());
    LoadRequest::Json(RawRequest { method: "POST".to_owned(), path: "/".to_owned(), body, repeatable: false })
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn closed(concurrency: usize) -> Load {
    Load::Closed { concurrency }
}

fn open(rate: f64, max_in_flight: usize) -> Load {
    Load::Open(OpenLoad { rate, arrivals: Arrivals::Constant, max_in_flight, seed: 0 })
}

fn measure(plan: LoadPlan) -> Measured {
    let run = LoadRun::start(plan).unwrap();
    assert!(run.wait_warm(LONG));
    run.measure();
    assert!(run.wait(LONG));
    run.measured().unwrap()
}

fn failed(measured: &Measured) -> u64 {
    measured.errors.iter().map(|error| error.count).sum()
}

#[test]
fn closed_loop_counts_as_the_server_does() {
    for (threads, concurrency) in [(1, 1), (1, 8), (3, 8), (4, 2)] {
        let server = Server::start(|_| response(200, "{}"));
        let plan = server.plan(closed(concurrency));
        let requests = vec![json("1"), json("22")];
        let measured = measure(LoadPlan { threads, requests, limit: Some(101), ..plan });
        assert_eq!((server.count(), measured.latencies.count(), measured.in_time), (101, 101, 101));
        assert_eq!((measured.bytes, measured.sizes, failed(&measured)), (202, Some((2, 2)), 0));
        let short = server.bodies.lock().unwrap().iter().filter(|body| *body == "1").count();
        assert!((50..=53).contains(&short), "requests are sent in rotation: {short}");
    }
}

#[test]
fn warm_up_is_not_measured() {
    let server = Server::start(|_| response(200, "{}"));
    let plan = LoadPlan { warmup: Duration::from_millis(50), limit: Some(10), ..server.plan(closed(4)) };
    let run = LoadRun::start(plan).unwrap();
    assert!(run.wait_warm(LONG));
    let before = server.count();
    assert!(before > 0 && run.progress().succeeded == before);
    run.measure();
    assert!(run.wait(LONG));
    assert_eq!((server.count() - before, run.measured().unwrap().latencies.count()), (10, 10));
}

#[test]
fn errors_are_counted_by_kind_with_the_first_message() {
    let server = Server::start(|number| match number % 4 {
        0 => response(429, &format!("{{\"error\": \"full {number}\"}}")),
        1 => response(500, "no"),
        2 => response(200, ""),
        _ => response(200, "{}"),
    });
    let measured = measure(server.plan(closed(1)));
    let kinds: Vec<_> = measured.errors.iter().map(|error| (error.kind, error.status, error.count)).collect();
    assert_eq!((measured.latencies.count(), kinds.len()), (25, 3));
    for (kind, status, first) in [
        ("overloaded", Some(429), "full 0"),
        ("handler", Some(500), "no"),
        ("internal", None, "the server's answer has no body"),
    ] {
        let error = measured.errors.iter().find(|error| (error.kind, error.status) == (kind, status)).expect(kind);
        assert_eq!((error.count, error.first.as_str()), (25, first));
    }
}

#[test]
fn validation_decodes_responses() {
    let server = Server::start(|_| response(200, "{"));
    assert_eq!(failed(&measure(server.plan(closed(1)))), 0);
    let measured = measure(LoadPlan { validate: true, ..server.plan(closed(1)) });
    assert_eq!((failed(&measured), measured.latencies.count()), (100, 0));
    assert!(measured.errors[0].first.starts_with("the server's answer is not JSON: "));
}

#[test]
fn closed_connections_are_opened_again() {
    let server = Server::start(|_| "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".to_owned());
    let measured = measure(server.plan(closed(2)));
    assert_eq!((measured.latencies.count(), failed(&measured)), (100, 0));
}

#[test]
fn server_that_is_down_is_an_error_of_each_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let server = Server { url: url.clone(), bodies: Arc::default() };
    let measured = measure(LoadPlan { limit: Some(3), ..server.plan(closed(1)) });
    assert_eq!((measured.errors[0].kind, measured.errors[0].status, failed(&measured)), ("unavailable", None, 3));
    assert!(measured.errors[0].first.starts_with(&format!("cannot connect to {url}")));
}

#[test]
fn responses_after_the_timeout_are_errors() {
    let server = Server::start(|number| {
        thread::sleep(if number == 0 { Duration::from_millis(500) } else { Duration::ZERO });
        response(200, "{}")
    });
    let timeout = Duration::from_millis(100);
    let measured = measure(LoadPlan { timeout, limit: Some(2), ..server.plan(closed(1)) });
    assert_eq!((measured.errors[0].kind, failed(&measured), measured.latencies.count()), ("timeout", 1, 1));
}

#[test]
fn open_loop_measures_from_the_scheduled_time() {
    let server = Server::start(|_| {
        thread::sleep(Duration::from_millis(5));
        response(200, "{}")
    });
    // The last of 40 requests is scheduled after 39 ms, and cannot be answered before 200 ms.
    let measured = measure(LoadPlan { limit: Some(40), ..server.plan(open(1000.0, 1)) });
    assert_eq!((server.count(), measured.latencies.count(), measured.unsent), (40, 40, 0));
    let (_, longest) = measured.latencies.range().unwrap();
    assert!(longest >= 161_000_000, "{longest} ns");
    assert!(measured.late >= 38, "{}", measured.late);
}

#[test]
fn open_loop_counts_requests_that_were_not_sent() {
    let server = Server::start(|_| {
        thread::sleep(Duration::from_millis(20));
        response(200, "{}")
    });
    for threads in [1, 2] {
        let before = server.count();
        let plan = server.plan(open(1000.0, 2));
        let measured = measure(LoadPlan { threads, limit: None, duration: Some(Duration::from_millis(100)), ..plan });
        let sent = measured.latencies.count();
        assert_eq!((server.count() - before, sent + measured.unsent), (sent, 100));
        assert!((2..=12).contains(&sent), "{sent}");
        assert!(measured.in_time <= sent && measured.duration == Duration::from_millis(100));
    }
}

#[test]
fn open_loop_opens_connections_as_it_needs_them() {
    let server = Server::start(|_| {
        thread::sleep(Duration::from_millis(20));
        response(200, "{}")
    });
    let measured = measure(LoadPlan { limit: Some(100), threads: 2, ..server.plan(open(2000.0, 1000)) });
    assert_eq!((server.count(), measured.latencies.count(), measured.unsent), (100, 100, 0));
}

#[test]
fn stopped_run_keeps_its_part() {
    let server = Server::start(|_| response(200, "{}"));
    for load in [closed(2), open(500.0, 2)] {
        let before = server.count();
        let run = LoadRun::start(LoadPlan { limit: None, duration: Some(LONG), ..server.plan(load) }).unwrap();
        assert!(run.wait_warm(LONG));
        run.measure();
        while run.progress().succeeded < 5 {
            assert!(!run.wait(Duration::from_millis(1)));
        }
        run.stop();
        assert!(run.wait(LONG));
        let measured = run.measured().unwrap();
        assert_eq!(measured.latencies.count(), server.count() - before);
        assert!(measured.duration < LONG);
    }
}

#[test]
fn plans_that_cannot_be_run_are_refused() {
    let server = Server { url: "http://127.0.0.1:1".to_owned(), bodies: Arc::default() };
    let plan = || server.plan(closed(1));
    let refusal = |plan| LoadRun::start(plan).unwrap_err().message().to_owned();
    for (plan, message) in [
        (server.plan(closed(0)), "concurrency is 0, expected 1 to 1048576"),
        (server.plan(open(0.0, 1)), "rate is 0, expected more than 0 and at most 1e9"),
        (server.plan(open(f64::NAN, 1)), "rate is NaN, expected more than 0 and at most 1e9"),
        (server.plan(open(1.0, 0)), "max_in_flight is 0, expected 1 to 1048576"),
        (LoadPlan { threads: 0, ..plan() }, "threads is 0, expected 1 to 256"),
        (LoadPlan { connections: 0, ..plan() }, "connections is 0, expected 1 to 1048576"),
        (LoadPlan { requests: Vec::new(), ..plan() }, "there are no requests to send"),
        (LoadPlan { limit: None, ..plan() }, "the measurement has no end: expected a duration or a number of requests"),
        (LoadPlan { target: Target::parse("grpc://h:1").unwrap(), ..plan() }, "gRPC has no JSON bodies: use tensors"),
        (
            LoadPlan {
                options: Options { headers: vec![("te".to_owned(), "a".to_owned())], ..Options::default() },
                ..plan()
            },
            "header 'te' is the client's own",
        ),
    ] {
        assert_eq!(refusal(plan), message);
    }
}
