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

type CallResult = Result<RawResponse, Failure>;

const TIMEOUT: Duration = Duration::from_secs(20);

struct Fixture {
    listener: TcpListener,
    client: Arc<Client>,
    wakeups: Receiver<()>,
    notify: Arc<dyn Fn() + Send + Sync>,
}

impl Fixture {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let retries = Retries { attempts: 1, backoff: Duration::from_millis(1), ..Retries::default() };
        let options = Options { retries, ..Options::default() };
        let client = Arc::new(Client::new(Mode::Async, Target::parse(&url).unwrap(), options).unwrap());
        let (notify, wakeups) = channel();
        Self { listener, client, wakeups, notify: Arc::new(move || notify.send(()).unwrap_or_default()) }
    }

    fn call(&self, body: usize, timeout: Option<Duration>) -> InlineCall<CallResult> {
        let (client, notify) = (Arc::clone(&self.client), Arc::clone(&self.notify));
        let body = Bytes::from(vec![0; body]);
        let request = RawRequest { method: "POST".to_owned(), path: "/".to_owned(), body, repeatable: true };
        let options = CallOptions::new(Vec::new(), timeout);
        InlineCall::new(Box::pin(async move { client.raw(&request, &options).await }), move || notify())
    }

    /// The server's side of an idle connection: of a first call, which the runtime carries on.
    fn idle_connection(&self) -> TcpStream {
        let call = spawn(self.call(1, None).work.unwrap());
        let mut server = self.listener.accept().unwrap().0;
        read_request(&mut server, 1);
        send_response(&mut server, "first");
        assert_response(&call, "first");
        server
    }

    /// A call through an idle connection, whose request has arrived at the server's side.
    fn pending_call(&self) -> (TcpStream, InlineCall<CallResult>) {
        let mut server = self.idle_connection();
        let mut call = self.call(1, None);
        expect_readable(&mut call);
        read_request(&mut server, 1);
        (server, call)
    }
}

/// Checks the response of a call on the runtime.
fn assert_response(call: &Receiver<CallResult>, body: &str) {
    assert_eq!(call.recv_timeout(TIMEOUT).unwrap().unwrap().body, body.as_bytes());
}

fn spawn(work: Work<CallResult>) -> Receiver<CallResult> {
    let (sender, receiver) = channel();
    runtime::spawn(async move { sender.send(work.await).unwrap() }).unwrap();
    receiver
}

/// Reads a request with a body of so many bytes.
fn read_request(server: &mut TcpStream, body: usize) {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        server.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    server.read_exact(&mut vec![0; body]).unwrap();
}

fn send_response(server: &mut TcpStream, body: &str) {
    // One write: separate parts would wait for each other.
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    server.write_all(response.as_bytes()).unwrap();
}

fn expect_readable(call: &mut InlineCall<CallResult>) -> RawFd {
    match call.step().unwrap() {
        Progress::Readable(descriptor) => descriptor,
        other => panic!("{other:?}"),
    }
}

fn expect_done(call: &mut InlineCall<CallResult>) -> CallResult {
    match call.step().unwrap() {
        Progress::Done(answered) => answered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_on_idle_connection_completes_in_two_steps() {
    let fixture = Fixture::new();
    let mut server = fixture.idle_connection();
    for body in ["second", "third"] {
        let mut call = fixture.call(5, Some(TIMEOUT));
        expect_readable(&mut call);
        read_request(&mut server, 5);
        send_response(&mut server, body);
        assert_eq!(expect_done(&mut call).unwrap().body, body.as_bytes());
    }
    assert!(fixture.wakeups.try_recv().is_err());
    // The runtime can go on with what steps have used.
    let call = spawn(fixture.call(5, None).work.unwrap());
    read_request(&mut server, 5);
    send_response(&mut server, "fourth");
    assert_response(&call, "fourth");
}

#[test]
fn deadline_requests_the_step_that_times_the_call_out() {
    let fixture = Fixture::new();
    let _server = fixture.idle_connection();
    let mut call = fixture.call(1, Some(Duration::from_millis(50)));
    expect_readable(&mut call);
    fixture.wakeups.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(expect_done(&mut call).unwrap_err().error.kind(), Kind::Timeout);
}

#[test]
fn response_in_many_chunks_is_handed_to_the_runtime() {
    let fixture = Fixture::new();
    let (mut server, mut call) = fixture.pending_call();
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap();
    let mut sent = String::new();
    let work = loop {
        write!(server, "{}", sent.len()).unwrap();
        sent.push('.');
        match call.step().unwrap() {
            Progress::Readable(_) => assert!(sent.len() < STEPS),
            Progress::HandOff(work) => break work,
            Progress::Done(_) => panic!("the response is incomplete"),
        }
    };
    let call = spawn(work);
    (sent.len()..9).for_each(|digit| write!(server, "{digit}").unwrap());
    assert_response(&call, "012345678");
}

#[test]
fn request_beyond_the_send_buffer_is_handed_to_the_runtime() {
    const LARGE_BODY: usize = 64 << 20;
    let fixture = Fixture::new();
    let mut server = fixture.idle_connection();
    let Progress::HandOff(work) = fixture.call(LARGE_BODY, None).step().unwrap() else { panic!("it fits") };
    let call = spawn(work);
    read_request(&mut server, LARGE_BODY);
    send_response(&mut server, "all");
    assert_response(&call, "all");
}

#[test]
fn lost_connection_is_reopened_by_the_runtime() {
    let fixture = Fixture::new();
    let (server, mut call) = fixture.pending_call();
    drop(server);
    let Progress::HandOff(work) = call.step().unwrap() else { panic!("it needs a connection") };
    let call = spawn(work);
    let mut server = fixture.listener.accept().unwrap().0;
    read_request(&mut server, 1);
    send_response(&mut server, "reopened");
    assert_response(&call, "reopened");
}

#[test]
fn dropped_call_closes_its_connection() {
    let fixture = Fixture::new();
    let (mut server, call) = fixture.pending_call();
    drop(call);
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
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
