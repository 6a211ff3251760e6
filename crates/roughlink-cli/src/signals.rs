//! Ctrl-C and other signals that end the program.

#[cfg(target_os = "linux")]
use roughlink_host::inside::is_ignored;
#[cfg(unix)]
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    iterator::Signals,
    low_level::emulate_default_handler,
};
#[cfg(unix)]
use std::sync::Once;
use std::sync::atomic::AtomicBool;
#[cfg(unix)]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set when a signal requests the end.
static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the first signal.
#[cfg(unix)]
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Returns a flag that the first Ctrl-C, SIGTERM or SIGHUP sets. This signal also calls `first`. The second signal ends
/// the process. SIGHUP is handled unless it is ignored (`nohup`).
#[cfg(unix)]
pub(crate) fn on_stop(first: impl FnOnce() + Send + 'static) -> &'static AtomicBool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| prepare(first));
    &STOP
}

#[cfg(unix)]
fn prepare(first: impl FnOnce() + Send + 'static) {
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let all = || [SIGINT, SIGTERM].into_iter().chain(hang_up);
    // Without a handler, a signal just ends the process, and finished runs are not lost.
    if let Ok(mut signals) = Signals::new(all()) {
        for signal in all() {
            // This order matters: the conditional handler of the first signal must find the flag unset.
            let _ = match std::process::id() {
                1 => flag::register_conditional_shutdown(signal, 128 + signal, &STOP),
                _ => flag::register_conditional_default(signal, &STOP),
            };
            let _ = flag::register_usize(signal, &SIGNAL, signal as usize);
            let _ = flag::register(signal, &STOP);
        }
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                first();
            }
        });
    }
}

/// Ends the process by the signal that it received, if any: with an exit code alone, a shell would continue its script.
pub(crate) fn end_by_signal() {
    #[cfg(unix)]
    match SIGNAL.load(Ordering::SeqCst) {
        0 => {}
        // The first process of a container survives signals that have no handler.
        _ if std::process::id() == 1 => {}
        signal => drop(emulate_default_handler(signal as i32)),
    }
}

/// Returns a flag that is never set: a signal ends the process.
#[cfg(not(unix))]
pub(crate) fn on_stop(_: impl FnOnce() + Send + 'static) -> &'static AtomicBool {
    &STOP
}

/// Returns false: without /proc this is unknown.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_ignored(_: i32) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// `reproduce all` calls `on_stop` like this, once per paper.
    #[test]
    fn first_signal_requests_a_stop_after_several_on_stop_calls() {
        on_stop(|| {});
        let stop = on_stop(|| {});
        assert!(!stop.load(Ordering::SeqCst));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(stop.load(Ordering::SeqCst));
    }
}
