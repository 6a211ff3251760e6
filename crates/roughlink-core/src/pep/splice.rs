//! Two connections joined into one: data, the end of the data and failures pass from each to the other.

use crate::packet::Packet;
use crate::tcp::{ConnectionState, Stream, TcpEndpoint};
use crate::units::Time;

/// Connection of a splice with one of the two hosts.
pub(crate) trait SpliceEnd {
    /// Returns the endpoint.
    fn endpoint(&self) -> &TcpEndpoint;
    /// Moves data received in order to the send buffer of `to`, as much as fits. Returns true if there was some.
    fn pass(&mut self, to: &mut Self) -> bool;
    /// Returns the bytes received in order and not yet passed on.
    fn unread(&self) -> u64;
    /// Sends a FIN after the data already passed on.
    fn close(&mut self);
    /// Aborts the connection. Returns the reset for the host, if one must be sent.
    fn abort(&mut self, now: Time) -> Option<Packet>;
}

impl SpliceEnd for Stream {
    fn endpoint(&self) -> &TcpEndpoint {
        Stream::endpoint(self)
    }
    fn pass(&mut self, to: &mut Self) -> bool {
        Stream::pass(self, to) > 0
    }
    fn unread(&self) -> u64 {
        Stream::unread(self)
    }
    fn close(&mut self) {
        Stream::close(self);
    }
    fn abort(&mut self, now: Time) -> Option<Packet> {
        Stream::abort(self, now)
    }
}

/// Effects of [`exchange`].
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    /// True if data moved, so that either end may have something to send.
    pub(crate) moved: bool,
    /// Resets that must leave from the two ends.
    pub(crate) resets: [Option<Packet>; 2],
}

/// Passes data both ways, then FINs. If one connection has failed, aborts the other.
pub(crate) fn exchange<E: SpliceEnd>(now: Time, [a, b]: [&mut E; 2]) -> Exchanged {
    let mut done = Exchanged::default();
    for from in [0, 1] {
        let (source, sink) = if from == 0 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        if source.endpoint().failed() {
            if !sink.endpoint().failed() {
                done.resets[1 - from] = sink.abort(now);
            }
            return done;
        }
        done.moved |= source.pass(sink);
        if source.endpoint().peer_closed() && source.unread() == 0 {
            sink.close();
        }
    }
    done
}

/// Returns true if both connections are closed, except for TIME-WAIT.
pub(crate) fn is_over<E: SpliceEnd>(ends: [&E; 2]) -> bool {
    ends.iter().all(|end| match end.endpoint().state() {
        ConnectionState::Closed => true,
        ConnectionState::TimeWait => end.endpoint().is_quiet(),
        _ => false,
    })
}
