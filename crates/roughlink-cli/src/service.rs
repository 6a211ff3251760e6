//! Status of a running program, by HTTP over a Unix socket in [`FOLDER`]. `/status` has all details in JSON, `/metrics`
//! the counters for Prometheus (OpenMetrics); `curl --unix-socket` reads both. A thread of ordinary priority serves
//! them and requests the status from the loop of the program.

use crate::connections::{self, listen};
use crate::failure::Failure;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::future::join;
use prometheus_client::registry::Registry;
use roughlink_core::units::Time;
use roughlink_host::use_ordinary_priority;
use roughlink_lab::error::LabError;
use sd_notify::NotifyState;
use serde::Serialize;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Status of a program.
pub(crate) trait ServiceStatus: Serialize + Send + 'static {
    /// Adds the counters.
    fn register(&self, registry: &mut Registry);
}

/// Sockets that are bound but do not accept connections yet.
pub(crate) struct BoundService {
    local: UnixListener,
    path: PathBuf,
    remote: Option<TcpListener>,
}

/// Requests for the status, which the loop answers.
pub(crate) struct StatusRequests<S>(Receiver<oneshot::Sender<S>>);

impl BoundService {
    /// Binds the socket of the instance `name` of a `kind` of program, and the address for metrics, if any.
    pub(crate) fn open(kind: &str, name: &str, metrics: Option<&str>) -> Result<Self, Failure> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(LabError::Usage {
                message: format!("invalid name `{name}`"),
                help: "use letters, digits, `-` and `_`".into(),
            }
            .into());
        }
        let remote =
            metrics.map(|text| listen("--metrics", text, "metrics")).transpose()?.map(|(listener, _)| listener);
        let path = socket(kind, name);
        let bound = bind(&path).and_then(|local| local.set_nonblocking(true).map(|()| local));
        match bound {
            Ok(local) => Ok(BoundService { local, path, remote }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let message = format!("a {kind} `{name}` already runs");
                Err(Failure::Machine(message, Some("choose another name with --as")))
            }
            Err(e) => {
                let help = (e.kind() == io::ErrorKind::PermissionDenied).then_some("run the command with sudo");
                Err(Failure::Machine(format!("cannot create {}: {e}", path.display()), help))
            }
        }
    }

    /// Returns the path of the socket, which remains after the end of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts to serve in a thread of ordinary priority, which has the rights of the calling one.
    pub(crate) fn serve<S: ServiceStatus>(self) -> Result<StatusRequests<S>, Failure> {
        let failed = |e: io::Error| Failure::Machine(format!("cannot serve the status: {e}"), None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (ask, requests) = sync_channel(connections::MAX_CONNECTIONS);
        thread::spawn(move || {
            use_ordinary_priority();
            runtime.block_on(async move {
                let router = router::<S>(ask);
                let remote = async {
                    if let Some(Ok(listener)) = self.remote.map(tokio::net::TcpListener::from_std) {
                        let (_open, closed) = oneshot::channel();
                        connections::serve(listener, router.clone(), closed).await;
                    }
                };
                let local = async {
                    if let Ok(listener) = tokio::net::UnixListener::from_std(self.local) {
                        let (_open, closed) = oneshot::channel();
                        connections::serve(listener, router.clone(), closed).await;
                    }
                };
                join(local, remote).await;
            });
        });
        Ok(StatusRequests(requests))
    }
}

impl<S> StatusRequests<S> {
    /// Answers all pending requests.
    pub(crate) fn answer(&self, status: impl Fn() -> S) {
        for request in self.0.try_iter() {
            // The peer may have left.
            let _ = request.send(status());
        }
    }
}

/// Binds a Unix socket for its owner and group. Replaces the socket of a program that was killed, but no other file.
///
/// # Errors
/// Returns `AddrInUse` if a program accepts connections there.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if path.starts_with(FOLDER) {
        fs::create_dir_all(FOLDER)?;
    }
    match fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is no socket")),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o660))?;
    Ok(listener)
}

fn router<S: ServiceStatus>(ask: SyncSender<oneshot::Sender<S>>) -> Router {
    Router::new().route("/status", get(status::<S>)).route("/metrics", get(metrics::<S>)).with_state(ask)
}

async fn status<S: ServiceStatus>(State(ask): State<SyncSender<oneshot::Sender<S>>>) -> Response {
    match request_status(&ask).await {
        Ok(status) => match serde_json::to_vec(&status) {
            Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
        },
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics<S: ServiceStatus>(State(ask): State<SyncSender<oneshot::Sender<S>>>) -> Response {
    let status = match request_status(&ask).await {
        Ok(status) => status,
        Err(why) => return (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    };
    let mut registry = Registry::with_prefix("roughlink");
    status.register(&mut registry);
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

/// Requests the status from the loop; returns the reason if there is no answer.
async fn request_status<S>(ask: &SyncSender<oneshot::Sender<S>>) -> Result<S, &'static str> {
    let (send, receive) = oneshot::channel();
    match ask.try_send(send) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => return Err("too many requests"),
        Err(TrySendError::Disconnected(_)) => return Err("the program ends"),
    }
    match timeout(PATIENCE, receive).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(_)) => Err("the program ends"),
        Err(_) => Err("the program is too busy"),
    }
}

/// Notifications to systemd, if it started the program: sd_notify(3).
pub(crate) struct Watchdog {
    interval: Option<Time>,
    last: Time,
}

impl Watchdog {
    /// Reports that the program is ready.
    pub(crate) fn ready() -> Self {
        // Without a manager there is nobody to notify.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let limit = sd_notify::watchdog_enabled();
        Watchdog { interval: limit.map(|limit| Time((limit / 2).as_nanos() as u64)), last: Time::ZERO }
    }

    /// Reports that the program still works, when half of the time limit has passed.
    pub(crate) fn alive(&mut self, now: Time) {
        if self.interval.is_some_and(|interval| now.saturating_sub(self.last) >= interval) {
            self.last = now;
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Returns the names of the instances of a `kind` of program whose sockets exist.
pub(crate) fn instances(kind: &str) -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix(kind)?.strip_prefix('-')?.strip_suffix(".sock")?.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Reads the status of an instance in JSON.
pub(crate) fn read(kind: &str, name: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket(kind, name))?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    // The server closes the connection after its answer, whose length it states, so the body is the rest.
    stream.write_all(b"GET /status HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let body = answer.split_off(end + 4);
    match answer.starts_with(b"HTTP/1.0 200 ") {
        true => Ok(body),
        false => Err(io::Error::other(String::from_utf8_lossy(&body).into_owned())),
    }
}

fn socket(kind: &str, name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{kind}-{name}.sock"))
}

/// Folder of the sockets.
const FOLDER: &str = "/run/roughlink";
/// Longest wait for an answer of the loop, which looks for requests every 20 ms.
const PATIENCE: Duration = Duration::from_secs(2);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
