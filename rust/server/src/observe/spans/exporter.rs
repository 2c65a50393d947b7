//! Sends spans to a collector from a separate thread. Requests never wait for it: when its queue is full, or the
//! collector refuses spans, they are dropped and counted.

use super::{
    collector::{Collector, Failed},
    record::attribute,
};
use crate::{
    observe::Log,
    settings::{LogLevel, Tracing},
};
use bytes::Bytes;
use penstock_wire::generated::trace::{
    ExportTraceServiceRequest, InstrumentationScope, Resource, ResourceSpans, ScopeSpans, Span, any_value::Value,
};
use prometheus_client::metrics::counter::Counter;
use prost::Message as _;
use std::{
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Spans that may wait.
const QUEUE_CAPACITY: usize = 8192;
/// Spans in one message.
const BATCH_SIZE: usize = 512;
/// Time that the first span of a message waits for more.
const DELAY: Duration = Duration::from_secs(1);
/// Timeout of a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delays before each retry.
const AGAIN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Queue of spans to the exporting thread.
#[derive(Debug)]
pub(super) struct Exporter {
    settings: Tracing,
    dropped: Counter,
    log: Arc<Log>,
    /// Started with the first span. `None` if the thread cannot be started.
    queue: OnceLock<Option<SyncSender<Order>>>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a span")]
enum Order {
    Send(Span),
    /// Requests a flush; dropped when it is done.
    Flush(SyncSender<()>),
}

impl Exporter {
    pub(super) fn new(settings: &Tracing, dropped: Counter, log: Arc<Log>) -> Self {
        Self { settings: settings.clone(), dropped, log, queue: OnceLock::new() }
    }

    pub(super) fn take(&self, span: Span) {
        let sent = self
            .queue
            .get_or_init(|| self.start())
            .as_ref()
            .is_some_and(|queue| queue.try_send(Order::Send(span)).is_ok());
        if !sent {
            self.dropped.inc();
        }
    }

    /// Flushes all spans, and waits for at most `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let Some(Some(queue)) = self.queue.get() else { return };
        let (done, ended) = sync_channel(0);
        if queue.try_send(Order::Flush(done)).is_ok() {
            let _ = ended.recv_timeout(patience);
        }
    }

    fn start(&self) -> Option<SyncSender<Order>> {
        let (sender, orders) = sync_channel(QUEUE_CAPACITY);
        let sending = Sending {
            collector: Collector::new(self.settings.clone()),
            endpoint: self.settings.endpoint.clone(),
            service_name: self.settings.service_name.clone(),
            dropped: self.dropped.clone(),
            log: Arc::clone(&self.log),
            failing: false,
        };
        let thread = thread::Builder::new().name("penstock-spans".to_owned());
        thread.spawn(move || sending.run(&orders)).ok().map(|_| sender)
    }
}

struct Sending {
    collector: Collector,
    /// For log lines.
    endpoint: String,
    service_name: String,
    dropped: Counter,
    log: Arc<Log>,
    /// Set while a failure of the collector is logged.
    failing: bool,
}

impl Sending {
    fn run(mut self, orders: &Receiver<Order>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        while let Ok(first) = orders.recv() {
            let mut spans = Vec::new();
            let mut flush = None;
            let until = Instant::now() + DELAY;
            let mut next = Ok(first);
            loop {
                match next {
                    Ok(Order::Send(span)) => spans.push(span),
                    Ok(Order::Flush(done)) => flush = Some(done),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
                if spans.len() >= BATCH_SIZE || flush.is_some() {
                    break;
                }
                next = orders.recv_timeout(until.saturating_duration_since(Instant::now()));
            }
            if !spans.is_empty() {
                runtime.block_on(self.send(spans, flush.is_some()));
            }
        }
    }

    async fn send(&mut self, spans: Vec<Span>, last: bool) {
        let count = spans.len() as u64;
        let message = Bytes::from(self.message(spans).encode_to_vec());
        let mut again = AGAIN.iter();
        loop {
            let sent = tokio::time::timeout(PATIENCE, self.collector.send(&message)).await;
            let failed = match sent {
                Ok(Ok(())) => {
                    self.failing = false;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => Failed { text: "it does not answer".to_owned(), again: true },
            };
            match again.next().filter(|_| failed.again && !last) {
                Some(&wait) => tokio::time::sleep(wait).await,
                None => {
                    self.dropped.inc_by(count);
                    if !std::mem::replace(&mut self.failing, true) {
                        let text = format!("spans do not reach {}: {}", self.endpoint, failed.text);
                        self.log.event(LogLevel::Warning, &text);
                    }
                    return;
                }
            }
        }
    }

    fn message(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let name = Value::StringValue(self.service_name.clone());
        let resource = Resource { attributes: vec![attribute("service.name", name)] };
        let scope = InstrumentationScope { name: "penstock".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
    }
}
