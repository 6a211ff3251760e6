//! Connections of an HTTP server: a limited number at a time, each for one request that must arrive soon. All programs
//! that reach the address can connect. The limits keep them from using up descriptors and from blocking others for
//! long. Connections beyond [`MAX_CONNECTIONS`] wait in the kernel, where they use no descriptor of this process.

use crate::failure::Failure;
use axum::Router;
use futures_util::future::select;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use roughlink_lab::error::LabError;
use std::future::Future;
use std::io;
use std::net::{self, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

/// Binds the address in an option, or a port of 127.0.0.1, to serve `what`. Returns the listener with its address.
pub(crate) fn listen(option: &str, text: &str, what: &str) -> Result<(net::TcpListener, SocketAddr), Failure> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let wanted: Option<SocketAddr> = text.parse().ok().or_else(|| text.parse().ok().map(here));
    let wanted = wanted.ok_or_else(|| LabError::Usage {
        message: format!("{option} {text}: expected an address with a port"),
        help: "write ADDRESS:PORT, such as 127.0.0.1:8080, or a port alone".into(),
    })?;
    let bind = || {
        let listener = net::TcpListener::bind(wanted)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bind().map_err(|e: io::Error| {
        let help = match e.kind() {
            io::ErrorKind::AddrInUse => Some("name another port, or 0 for a free port"),
            io::ErrorKind::AddrNotAvailable => Some("name an address of this machine, such as 127.0.0.1"),
            _ => None,
        };
        Failure::Machine(format!("cannot serve {what} at {wanted}: {e}"), help)
    })
}

/// Listener for connections.
pub(crate) trait ConnectionListener: Send + 'static {
    type Accepted: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    fn next(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;
}

impl ConnectionListener for TcpListener {
    type Accepted = TcpStream;
    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

impl ConnectionListener for UnixListener {
    type Accepted = UnixStream;
    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Accepts connections until `closed` ends, and then answers the pending requests.
pub(crate) async fn serve(listener: impl ConnectionListener, router: Router, closed: oneshot::Receiver<()>) {
    let open = GracefulShutdown::new();
    select(pin!(accept(listener, router, &open)), closed).await;
    open.shutdown().await;
}

async fn accept(listener: impl ConnectionListener, router: Router, open: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut http = http1::Builder::new();
    // Without keep-alive, no connection stays open for a further request.
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(MAX_HEADERS_LEN);
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok(stream) = listener.next().await else {
            // No descriptor is free, or the peer has closed the connection.
            sleep(RETRY).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            let _ = connection.await; // errors concern only the peer
            drop(place);
        });
    }
}

/// Maximum number of open connections: several times the number of viewers.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// Maximum time for the headers of a request to arrive, and for its body.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a connection's buffer, bytes.
const MAX_HEADERS_LEN: usize = 16 << 10;
const RETRY: Duration = Duration::from_millis(100);
