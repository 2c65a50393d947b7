//! Where processes come that attach models: a socket in the file system, for one user only.

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

/// A socket that is listened on. Its path is removed when it is closed.
#[derive(Debug)]
pub struct Listener {
    listener: OwnedFd,
    path: PathBuf,
    closed: AtomicBool,
}

impl Listener {
    /// Listens at a path. A socket that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// Somebody listens there, something else is there, or it cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && Socket::connect(path).is_err_and(|error| refused(&error)) {
            fs::remove_file(path)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        let door = Self { listener, path: path.to_owned(), closed: AtomicBool::new(false) };
        // Before it is listened on, so that nobody else ever comes in.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&door.listener, BACKLOG)?;
        Ok(door)
    }

    /// Waits for somebody to come; who it is, is for the caller to look at. `None` when nobody came for so long, or it is closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn next(&self, patience: Duration) -> io::Result<Option<ControlChannel>> {
        let mut ends = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut ends, Timespec::try_from(patience).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(end) => Ok(Some(ControlChannel::of(Socket::of(end)))),
            // Closed, or gone before it was let in.
            Err(Errno::AGAIN | Errno::INTR | Errno::INVAL | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets nobody in any more, and takes the path away.
    pub fn close(&self) {
        // Once: what lies there later is somebody else's.
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let _ = shutdown(&self.listener, Shutdown::Both);
        // Somebody else may have removed it.
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

    fn place(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("penstock-door-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    #[test]
    fn who_comes_is_let_in_until_it_is_closed() {
        let path = place("open");
        let door = Listener::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(door.next(Duration::ZERO).unwrap().is_none());
        let theirs = ControlChannel::connect(&path).unwrap();
        let ours = door.next(Duration::from_secs(5)).unwrap().unwrap();
        theirs.say(b"hello", &[]).unwrap();
        assert!(matches!(ours.hear(None).unwrap(), ControlEvent::Message(message, _) if message == b"hello"));
        door.close();
        assert!(!path.exists() && ControlChannel::connect(&path).is_err());
        assert!(door.next(Duration::from_secs(60)).unwrap().is_none(), "no wait for nobody");
    }

    #[test]
    fn a_place_that_is_in_use_is_not_taken() {
        let path = place("used");
        let first = Listener::open(&path).unwrap();
        assert!(Listener::open(&path).is_err() && path.exists());
        // What lies there after it was closed is somebody else's.
        first.close();
        let second = Listener::open(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "a file").unwrap();
        assert!(Listener::open(&path).is_err() && path.exists());
        fs::remove_file(&path).unwrap();
    }
}
