//! Server-sent events over a new connection.

use crate::{Failure, Plan, Seen};
use std::time::Instant;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Reads one stream until the server closes it, and counts its events.
pub(crate) async fn read(plan: Plan) -> Result<Seen, Failure> {
    let mut socket = TcpStream::connect(&plan.address).await?;
    socket.set_nodelay(true)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        plan.path,
        plan.body.len()
    );
    let start = Instant::now();
    socket.write_all(&[head.as_bytes(), &plan.body].concat()).await?;
    let mut buffer = vec![0; 256 << 10];
    // Only an event starts with these bytes. The end of each read is retained, so an event cut by a read is found.
    const MARK: &[u8] = b"data: ";
    let (mut kept, mut messages, mut first) = (0, 0, None);
    loop {
        let count = socket.read(&mut buffer[kept..]).await?;
        if count == 0 {
            break;
        }
        let there = kept + count;
        messages += memchr::memmem::find_iter(&buffer[..there], MARK).count() as u64;
        if messages > 0 {
            first.get_or_insert_with(|| start.elapsed());
        }
        kept = (MARK.len() - 1).min(there);
        buffer.copy_within(there - kept..there, 0);
    }
    Ok(Seen { messages, first: first.ok_or("a stream without events")? })
}
