//! Live view: a page that shows a running emulation and can change its links.
//!
//! A small server runs in a thread of ordinary priority, and the emulation's loop never waits for it
//! ([`roughlink_host::Live`]). The server delivers the page, sends samples as server-sent events to at most
//! [`feed::MAX_VIEWERS`] viewers, and accepts changes by POST. A slow viewer misses
//! samples; counts are totals, so the next sample makes up for them.
//!
//! Anyone with access to the page can change the links. Every request therefore needs the token in the printed URL. The
//! server also refuses requests that pages of other sites send from the same browser ([`access`]).
//!
//! | module | contents |
//! |---|---|
//! | `access` | checks of host, origin and token |
//! | `request` | requests to change a link, and their bounds |
//! | `feed` | events for viewers |
//! | `timeline` | applied changes in scenario syntax |

mod access;
mod feed;
mod request;
pub(crate) mod timeline;

use crate::connections::{self, PATIENCE, listen};
use crate::failure::Failure;
use access::{Token, refusal};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use feed::Feed;
use request::LinkRequest;
use roughlink_host::{ChangeRequestError, Live};
use roughlink_lab::report::STYLE;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Listener that is bound but does not accept connections yet.
pub(crate) struct BoundServer {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
}

/// Running server, which stops when this is dropped.
pub(crate) struct Server {
    end: oneshot::Sender<String>,
    thread: JoinHandle<()>,
}

impl BoundServer {
    /// Binds an address, or a port of 127.0.0.1.
    pub(crate) fn open(text: &str) -> Result<Self, Failure> {
        let (listener, address) = listen("--serve", text, "the live view")?;
        let token = Token::new().map_err(|e| Failure::Machine(format!("cannot serve the live view: {e}"), None))?;
        Ok(BoundServer { listener, address, token })
    }

    /// Returns the URL of the page. If the server listens on all addresses, the URL has the loopback address.
    pub(crate) fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let here =
                if address.is_ipv6() { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]) } else { Ipv4Addr::LOCALHOST.into() };
            address.set_ip(here);
        }
        format!("http://{address}/?token={}", self.token.text())
    }

    /// Returns true if other machines may reach the address.
    pub(crate) fn is_open(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    pub(crate) fn serve(self, live: Arc<Live>) -> Result<Server, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Failure::Machine(format!("cannot serve the live view: {e}"), None))?;
        let (end, told) = oneshot::channel();
        let thread = thread::spawn(move || {
            // Dropping the runtime ends connections that are open after `GRACE`.
            runtime.block_on(self.attend(live, told));
        });
        Ok(Server { end, thread })
    }

    async fn attend(self, live: Arc<Live>, told: oneshot::Receiver<String>) {
        let BoundServer { listener, token, .. } = self;
        // Does not fail: the listener is non-blocking, and no further descriptor is needed.
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let feed = Arc::new(Feed::new(live));
        let feeding = tokio::spawn(Arc::clone(&feed).run());
        let door = Arc::new(ServerState { feed: Arc::clone(&feed), token, page: page() });
        let (closing, closed) = oneshot::channel::<()>();
        let serving = tokio::spawn(connections::serve(listener, router(door), closed));
        let last = told.await;
        feeding.abort();
        feed.finish(last.ok());
        drop(closing);
        let _ = timeout(GRACE, serving).await;
    }
}

impl Server {
    /// Sends the result to all viewers and stops the server.
    pub(crate) fn finish(self, result: &impl Serialize, timeline: &str) {
        let _ = self.end.send(feed::last(result, timeline));
        let _ = self.thread.join();
    }
}

/// Data for the answers to requests.
struct ServerState {
    feed: Arc<Feed>,
    token: Token,
    page: LivePage,
}

/// Page with its content security policy.
struct LivePage {
    text: String,
    policy: HeaderValue,
}

/// Creates the page, which contains its script and style. The policy allows only elements with the page's nonce.
fn page() -> LivePage {
    // The page contains no foreign content, so the nonce need not be secret: a constant replaces missing random bits.
    let nonce = Token::new().map_or_else(|_| "page".into(), |token| token.text().to_owned());
    let text = include_str!("live/page.html")
        .replace("/*style*/", &format!("{STYLE}{}", include_str!("live/page.css")))
        .replace("/*script*/", include_str!("live/page.js"))
        .replace("{nonce}", &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    LivePage { text, policy: policy.try_into().expect("it is ASCII") }
}

fn router(inside: Arc<ServerState>) -> Router {
    Router::new()
        .route("/", get(show))
        .route("/events", get(events))
        .route("/change", post(change))
        .layer(from_fn_with_state(Arc::clone(&inside), guard))
        .with_state(inside)
}

/// Checks each request and sets headers of each response, also for unknown paths.
async fn guard(
    State(inside): State<Arc<ServerState>>,
    uri: Uri,
    headers: HeaderMap,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let mut response = match refusal(&inside.token, &uri, &headers) {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn show(State(inside): State<Arc<ServerState>>) -> Response {
    let page = &inside.page;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let headers = [(header::CONTENT_TYPE, html), (header::CONTENT_SECURITY_POLICY, page.policy.clone())];
    (headers, page.text.clone()).into_response()
}

async fn events(State(inside): State<Arc<ServerState>>) -> Response {
    match inside.feed.view() {
        Some(view) => Sse::new(view).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "too many viewers").into_response(),
    }
}

async fn change(State(inside): State<Arc<ServerState>>, headers: HeaderMap, body: Body) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    // Pages of other sites can send other content types without a preflight request.
    if kind.is_none_or(|kind| !kind.starts_with(b"application/json")) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "a change needs the content type application/json")
            .into_response();
    }
    let body = match timeout(PATIENCE, to_bytes(body, MAX_CHANGE)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return (StatusCode::PAYLOAD_TOO_LARGE, "the change is too long").into_response(),
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the change did not arrive in time").into_response(),
    };
    let live = inside.feed.live();
    let change = match LinkRequest::read(&body).and_then(|request| request.change(live.scenario())) {
        Ok(change) => change,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    match live.request(change) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(e) => {
            let code = match e {
                ChangeRequestError::Busy => StatusCode::SERVICE_UNAVAILABLE,
                ChangeRequestError::Change(_) | ChangeRequestError::TooMany | ChangeRequestError::Over => {
                    StatusCode::CONFLICT
                }
            };
            (code, e.to_string()).into_response()
        }
    }
}

/// Maximum time for viewers to receive the last event.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum size of a change, bytes.
const MAX_CHANGE: usize = 4096;

#[cfg(test)]
mod tests;
