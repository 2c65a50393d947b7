//! Output of a process, forwarded line by line to the server's output, with a prefix.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write},
    process::Child,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// A longer line is split into chunks of this length.
const MAX_LINE: u64 = 64 << 10;

/// The time that the forwarder waits for the last lines of a process that has ended. Another process may hold the
/// output open.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// The two threads that forward a process's output until it is closed.
#[derive(Debug)]
pub(crate) struct StdioForwarder(Receiver<()>);

impl StdioForwarder {
    /// Starts to forward the output of a process of that model.
    pub(crate) fn spawn(model: &str, child: &mut Child) -> io::Result<Self> {
        let (done, ended) = channel();
        let prefix = format!("penstock: model '{model}' process {}: ", child.id());
        if let Some(out) = child.stdout.take() {
            forward(out, io::stdout, prefix.clone(), done.clone())?;
        }
        if let Some(err) = child.stderr.take() {
            forward(err, io::stderr, prefix, done)?;
        }
        Ok(Self(ended))
    }

    /// Waits until the output of a process that has ended is forwarded.
    pub(crate) fn finish(&self) {
        // No message is ever sent: the other ends are dropped when both threads are done.
        let _ = self.0.recv_timeout(FLUSH_TIMEOUT);
    }
}

fn forward<W: Write + 'static>(
    from: impl Read + Send + 'static,
    to: fn() -> W,
    prefix: String,
    done: Sender<()>,
) -> io::Result<()> {
    let copy = move || {
        let _done = done;
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line), Ok(1..)) {
            // A failed write must not stop the process.
            let _ = to().write_all(&prefixed(&prefix, &line));
            line.clear();
        }
    };
    thread::Builder::new().name("penstock-lines".to_owned()).stack_size(128 << 10).spawn(copy).map(drop)
}

/// Adds the prefix to a line, unless the line is a JSON object, which programs read.
fn prefixed(prefix: &str, line: &[u8]) -> Vec<u8> {
    let prefix = if line.starts_with(b"{") { "" } else { prefix };
    let mut whole = [prefix.as_bytes(), line].concat();
    if !whole.ends_with(b"\n") {
        whole.push(b'\n');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::prefixed;

    #[test]
    fn output_lines_are_prefixed_with_their_process() {
        assert_eq!(prefixed("m 1: ", b"a\n"), b"m 1: a\n");
        assert_eq!(prefixed("m 1: ", b"a"), b"m 1: a\n");
        assert_eq!(prefixed("m 1: ", b"\n"), b"m 1: \n");
        assert_eq!(prefixed("m 1: ", b"{\"a\": 1}\n"), b"{\"a\": 1}\n");
    }
}
