//! Connections: a limited number at a time, each for one request that must arrive soon. All programs that reach the
//! address can connect, even without the token. They must not use up the emulation's descriptors, nor block viewers for
//! long. Connections beyond [`MAX_CONNECTIONS`] wait in the kernel, where they use no descriptor of this process.

use axum::Router;
use futures_util::future::select;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

/// Accepts connections until `closed` ends, and then answers the pending requests.
pub(super) async fn serve(listener: TcpListener, router: Router, closed: oneshot::Receiver<()>) {
    let open = GracefulShutdown::new();
    select(pin!(accept(listener, router, &open)), closed).await;
    open.shutdown().await;
}

async fn accept(listener: TcpListener, router: Router, open: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut http = http1::Builder::new();
    // Without keep-alive, no connection stays open for a further request.
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(MAX_HEADERS_LEN);
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
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
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Maximum time for the headers of a request to arrive, and for its body.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a connection's buffer, bytes.
const MAX_HEADERS_LEN: usize = 16 << 10;
const RETRY: Duration = Duration::from_millis(100);
