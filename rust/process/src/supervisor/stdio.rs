//! What a process prints, line by line in the server's own output, with who printed it.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write},
    process::Child,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// A longer line comes in pieces of this length.
const LONGEST: u64 = 64 << 10;

/// How long the last lines of a process that is gone are waited for. Another process may hold its output open.
const LAST_LINES: Duration = Duration::from_millis(200);

/// The two threads that read a process's output, until it is closed.
#[derive(Debug)]
pub(crate) struct StdioForwarder(Receiver<()>);

impl StdioForwarder {
    /// Reads the output of a process of that model.
    pub(crate) fn of(model: &str, child: &mut Child) -> io::Result<Self> {
        let (done, ended) = channel();
        let prefix = format!("penstock: model '{model}' process {}: ", child.id());
        if let Some(out) = child.stdout.take() {
            follow(out, io::stdout, prefix.clone(), done.clone())?;
        }
        if let Some(err) = child.stderr.take() {
            follow(err, io::stderr, prefix, done)?;
        }
        Ok(Self(ended))
    }

    /// Waits until what the process printed before it ended is written.
    pub(crate) fn finish(&self) {
        // Nothing is ever sent: the other ends are dropped when both threads are done.
        let _ = self.0.recv_timeout(LAST_LINES);
    }
}

fn follow<W: Write + 'static>(
    from: impl Read + Send + 'static,
    to: fn() -> W,
    prefix: String,
    done: Sender<()>,
) -> io::Result<()> {
    let copy = move || {
        let _done = done;
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.by_ref().take(LONGEST).read_until(b'\n', &mut line), Ok(1..)) {
            // Output that cannot be written must not stop the process.
            let _ = to().write_all(&shown(&prefix, &line));
            line.clear();
        }
    };
    thread::Builder::new().name("penstock-lines".to_owned()).stack_size(128 << 10).spawn(copy).map(drop)
}

/// A line with who printed it. One that is a JSON object is for a machine, and stays what it is.
fn shown(prefix: &str, line: &[u8]) -> Vec<u8> {
    let prefix = if line.starts_with(b"{") { "" } else { prefix };
    let mut whole = [prefix.as_bytes(), line].concat();
    if !whole.ends_with(b"\n") {
        whole.push(b'\n');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_line_says_who_printed_it() {
        assert_eq!(shown("m 1: ", b"a\n"), b"m 1: a\n");
        assert_eq!(shown("m 1: ", b"a"), b"m 1: a\n");
        assert_eq!(shown("m 1: ", b"\n"), b"m 1: \n");
        assert_eq!(shown("m 1: ", b"{\"a\": 1}\n"), b"{\"a\": 1}\n");
    }
}
