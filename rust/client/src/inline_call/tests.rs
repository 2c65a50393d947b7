use super::*;
use crate::{CallOptions, Client, ClientRequest, Failure, Mode, Options, RawRequest, RawResponse, Retries, Target};
use bytes::Bytes;
use penstock_core::Kind;
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

type Answered = Result<RawResponse, Failure>;

const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    listener: TcpListener,
    client: Arc<Client>,
    again: Receiver<()>,
    told: Arc<dyn Fn() + Send + Sync>,
}

impl Fixture {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let retries = Retries { attempts: 1, backoff: Duration::from_millis(1), ..Retries::default() };
        let options = Options { retries, ..Options::default() };
        let client = Arc::new(Client::new(Mode::Async, Target::parse(&url).unwrap(), options).unwrap());
        let (told, again) = channel();
        Self { listener, client, again, told: Arc::new(move || told.send(()).unwrap_or_default()) }
    }

    fn call(&self, body: usize, timeout: Option<Duration>) -> InlineCall<Answered> {
        let (client, told) = (Arc::clone(&self.client), Arc::clone(&self.told));
        let body = Bytes::from(vec![0; body]);
        let request = RawRequest { method: "POST".to_owned(), path: "/".to_owned(), body, repeatable: true };
        let how = CallOptions::new(Vec::new(), timeout);
        InlineCall::new(Box::pin(async move { client.raw(&request, &how).await }), move || told())
    }

    /// The server's side of an idle connection: of a first call, which the runtime carries on.
    fn connected(&self) -> TcpStream {
        let call = on_runtime(self.call(1, None).work.unwrap());
        let mut server = self.listener.accept().unwrap().0;
        asked(&mut server, 1);
        answer(&mut server, "first");
        ends(&call, "first");
        server
    }

    /// A call through an idle connection, whose request has arrived at the server's side.
    fn begun(&self) -> (TcpStream, InlineCall<Answered>) {
        let mut server = self.connected();
        let mut call = self.call(1, None);
        waits(&mut call);
        asked(&mut server, 1);
        (server, call)
    }
}

/// Checks the response of a call on the runtime.
fn ends(call: &Receiver<Answered>, body: &str) {
    assert_eq!(call.recv_timeout(PATIENCE).unwrap().unwrap().body, body.as_bytes());
}

fn on_runtime(work: Work<Answered>) -> Receiver<Answered> {
    let (sender, receiver) = channel();
    runtime::spawn(async move { sender.send(work.await).unwrap() }).unwrap();
    receiver
}

/// Reads a request with a body of so many bytes.
fn asked(server: &mut TcpStream, body: usize) {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        server.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    server.read_exact(&mut vec![0; body]).unwrap();
}

fn answer(server: &mut TcpStream, body: &str) {
    // At once: parts of it would wait for one another.
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    server.write_all(answer.as_bytes()).unwrap();
}

fn waits(call: &mut InlineCall<Answered>) -> RawFd {
    match call.step().unwrap() {
        Progress::Readable(descriptor) => descriptor,
        other => panic!("{other:?}"),
    }
}

fn done(call: &mut InlineCall<Answered>) -> Answered {
    match call.step().unwrap() {
        Progress::Done(answered) => answered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_on_idle_connection_completes_in_two_steps() {
    let fixture = Fixture::new();
    let mut server = fixture.connected();
    for body in ["second", "third"] {
        let mut call = fixture.call(5, Some(PATIENCE));
        waits(&mut call);
        asked(&mut server, 5);
        answer(&mut server, body);
        assert_eq!(done(&mut call).unwrap().body, body.as_bytes());
    }
    assert!(fixture.again.try_recv().is_err());
    // The runtime can go on with what steps have used.
    let call = on_runtime(fixture.call(5, None).work.unwrap());
    asked(&mut server, 5);
    answer(&mut server, "fourth");
    ends(&call, "fourth");
}

#[test]
fn deadline_requests_the_step_that_times_the_call_out() {
    let fixture = Fixture::new();
    let _server = fixture.connected();
    let mut call = fixture.call(1, Some(Duration::from_millis(50)));
    waits(&mut call);
    fixture.again.recv_timeout(PATIENCE).unwrap();
    assert_eq!(done(&mut call).unwrap_err().error.kind(), Kind::Timeout);
}

#[test]
fn response_in_many_chunks_is_handed_to_the_runtime() {
    let fixture = Fixture::new();
    let (mut server, mut call) = fixture.begun();
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap();
    let mut sent = String::new();
    let work = loop {
        write!(server, "{}", sent.len()).unwrap();
        sent.push('.');
        match call.step().unwrap() {
            Progress::Readable(_) => assert!(sent.len() < STEPS),
            Progress::HandOff(work) => break work,
            Progress::Done(_) => panic!("it has not all been sent"),
        }
    };
    let call = on_runtime(work);
    (sent.len()..9).for_each(|digit| write!(server, "{digit}").unwrap());
    ends(&call, "012345678");
}

#[test]
fn request_beyond_the_send_buffer_is_handed_to_the_runtime() {
    const MUCH: usize = 64 << 20;
    let fixture = Fixture::new();
    let mut server = fixture.connected();
    let Progress::HandOff(work) = fixture.call(MUCH, None).step().unwrap() else { panic!("it fits") };
    let call = on_runtime(work);
    asked(&mut server, MUCH);
    answer(&mut server, "all");
    ends(&call, "all");
}

#[test]
fn lost_connection_is_reopened_by_the_runtime() {
    let fixture = Fixture::new();
    let (server, mut call) = fixture.begun();
    drop(server);
    let Progress::HandOff(work) = call.step().unwrap() else { panic!("it needs a connection") };
    let call = on_runtime(work);
    let mut server = fixture.listener.accept().unwrap().0;
    asked(&mut server, 1);
    answer(&mut server, "anew");
    ends(&call, "anew");
}

#[test]
fn dropped_call_closes_its_connection() {
    let fixture = Fixture::new();
    let (mut server, call) = fixture.begun();
    drop(call);
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
}

#[test]
fn waiting_for_a_second_socket_is_not_inline() {
    WAIT.set(Wait::Nothing);
    await_readable(5);
    await_readable(5);
    assert_eq!(WAIT.get(), Wait::Readable(5));
    await_readable(6);
    assert_eq!(WAIT.get(), Wait::Other);
    WAIT.set(Wait::OfRuntime);
}

#[test]
fn http2_call_is_handed_to_the_runtime() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("grpc://{}", server.local_addr().unwrap())).unwrap();
    let client = Client::new(Mode::Async, target, Options::default()).unwrap();
    let work = Box::pin(async move { client.infer(ClientRequest::default(), &CallOptions::default()).await.err() });
    assert!(matches!(InlineCall::new(work, || ()).step().unwrap(), Progress::HandOff(_)));
}
