//! Listener for processes that attach models: a socket in the file system, for one user only.

use crate::transport::{control_channel::ControlChannel, socket::Socket};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
        socket_with,
    },
};
use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const BACKLOG: i32 = 64;

/// A listening socket. Its path is removed when it is closed.
#[derive(Debug)]
pub struct Listener {
    listener: OwnedFd,
    path: PathBuf,
    closed: AtomicBool,
}

impl Listener {
    /// Listens at a path. A socket file without a listener is replaced.
    ///
    /// # Errors
    /// A process listens there, another file is there, or the socket cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && Socket::connect(path).is_err_and(|error| refused(&error)) {
            fs::remove_file(path)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        let opened = Self { listener, path: path.to_owned(), closed: AtomicBool::new(false) };
        // Before it listens, so that no other user can ever connect.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&opened.listener, BACKLOG)?;
        Ok(opened)
    }

    /// Waits for a connection, whose process the caller has to check. `None` after `timeout`, or when closed.
    ///
    /// # Errors
    /// The kernel cannot accept connections.
    pub fn accept(&self, timeout: Duration) -> io::Result<Option<ControlChannel>> {
        let mut ends = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut ends, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(end) => Ok(Some(ControlChannel::new(Socket::new(end)))),
            // The listener is closed, or the process is gone already.
            Err(Errno::AGAIN | Errno::INTR | Errno::INVAL | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stops listening and removes the path.
    pub fn close(&self) {
        // Once: a later file at this path belongs to another listener.
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let _ = shutdown(&self.listener, Shutdown::Both);
        // Another process may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::control_channel::ControlEvent;

    fn socket_path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("penstock-listener-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    #[test]
    fn connections_are_accepted_until_the_listener_closes() {
        let path = socket_path("open");
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
        let theirs = ControlChannel::connect(&path).unwrap();
        let ours = listener.accept(Duration::from_secs(5)).unwrap().unwrap();
        theirs.send(b"hello", &[]).unwrap();
        assert!(matches!(ours.receive(None).unwrap(), ControlEvent::Message(message, _) if message == b"hello"));
        listener.close();
        assert!(!path.exists() && ControlChannel::connect(&path).is_err());
        assert!(listener.accept(Duration::from_secs(60)).unwrap().is_none(), "a closed listener does not wait");
    }

    #[test]
    fn socket_path_in_use_is_not_replaced() {
        let path = socket_path("used");
        let first = Listener::bind(&path).unwrap();
        assert!(Listener::bind(&path).is_err() && path.exists());
        // The file there after a close belongs to another listener.
        first.close();
        let second = Listener::bind(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "a file").unwrap();
        assert!(Listener::bind(&path).is_err() && path.exists());
        fs::remove_file(&path).unwrap();
    }
}
