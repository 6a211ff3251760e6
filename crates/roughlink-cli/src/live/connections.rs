//! Connections: not too many at the same time, each for one request, which must arrive soon.
//!
//! Anybody on this machine may connect, also without the token. What they open must not take the descriptors that the emulation needs, nor
//! keep others out for long. Connections beyond [`MOST_CONNECTIONS`] wait in the kernel, where they have no descriptor of this process.

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

/// Serves until `closed`, and then until what was asked for is answered.
pub(super) async fn serve(listener: TcpListener, router: Router, closed: oneshot::Receiver<()>) {
    let open = GracefulShutdown::new();
    select(pin!(accept(listener, router, &open)), closed).await;
    open.shutdown().await;
}

async fn accept(listener: TcpListener, router: Router, open: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut http = http1::Builder::new();
    // Without keep-alive a connection is not held by waiting for the next request.
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(LONGEST_HEADERS);
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // There is no descriptor left, or the other end is gone.
            sleep(RETRY).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            let _ = connection.await; // whoever broke it off knows
            drop(place);
        });
    }
}

/// Connections at the same time: all viewers, and several times as many.
pub(super) const MOST_CONNECTIONS: usize = 64;
/// How long the headers of a request may take, and how long its body.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are kept of a connection.
const LONGEST_HEADERS: usize = 16 << 10;
const RETRY: Duration = Duration::from_millis(100);
