//! Records of the programs (`struct flow` of `bpf/algorithm.h`): the state of a connection at an event.

/// Kind of an event (`enum kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// The connection is established.
    Opened = 1,
    /// An ACK that may raise the window. In a replay: any ACK, with its sample.
    Ack = 2,
    /// An episode begins: the kernel called `ssthresh`.
    Congestion = 3,
    /// An episode begins with a retransmission time-out. Only in replays.
    Timeout = 4,
    /// A time-out within an episode. Only in replays.
    TimeoutAgain = 5,
    /// Loss recovery enters `state`.
    State = 6,
    /// The reduction is complete. In a replay: the state is Open again.
    Recovered = 7,
    /// The last episode was spurious.
    Undone = 8,
    /// The first segment after an idle period leaves.
    Started = 9,
    /// The connection is released.
    Closed = 10,
    /// The measurements of an ACK.
    Sample = 11,
}

const KINDS: [EventKind; 11] = [
    EventKind::Opened,
    EventKind::Ack,
    EventKind::Congestion,
    EventKind::Timeout,
    EventKind::TimeoutAgain,
    EventKind::State,
    EventKind::Recovered,
    EventKind::Undone,
    EventKind::Started,
    EventKind::Closed,
    EventKind::Sample,
];

/// Bytes of a record.
pub const SIZE: usize = 120;

/// One record. Windows are in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Kind of the event.
    pub kind: EventKind,
    /// Time of the event, microseconds of the kernel's clock.
    pub now_us: u64,
    /// Number of the connection, from 1.
    pub connection: u32,
    /// Bytes of a full segment.
    pub mss: u32,
    /// Congestion window before the event, or after it in the result of a replay.
    pub cwnd: u32,
    /// Slow-start threshold, `u32::MAX` = unlimited; before or after as `cwnd`.
    pub ssthresh: u32,
    /// Segments believed to be in the network.
    pub in_flight: u32,
    /// Sequence number of the first unacknowledged byte.
    pub snd_una: u32,
    /// Sequence number of the next new byte.
    pub snd_nxt: u32,
    /// Smoothed RTT, microseconds; 0 = not measured.
    pub srtt_us: u32,
    /// RTT sample of the ACK, microseconds; negative = none.
    pub rtt_us: i32,
    /// Bytes cumulatively acknowledged by the ACK.
    pub acked: u32,
    /// Segments credited to growth.
    pub segments: u32,
    /// State of loss recovery, as Linux numbers them.
    pub state: u8,
    /// The window may grow.
    pub may_grow: bool,
    /// AF_INET or AF_INET6. This field and the next three are set only in `Opened` events.
    pub family: u16,
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub remote_port: u16,
    /// Remote address in network order, IPv4 in the first four bytes.
    pub remote: [u8; 16],
    /// Bytes newly acknowledged or SACKed by the ACK. This field and the next seven are for algorithms that pace.
    pub delivered: u32,
    /// Segments delivered so far.
    pub total_delivered: u32,
    /// Pacing rate after the event, bytes per second; `u64::MAX` = unlimited.
    pub pacing_rate: u64,
    /// Segments delivered since the newest segment that the ACK delivers was sent; negative = no sample.
    pub sampled: i32,
    /// Time in which these were delivered, microseconds; 0 = unknown.
    pub interval_us: u32,
    /// Segments that the ACK showed to be lost.
    pub losses: u32,
    /// The sender had no more data when that segment was sent.
    pub app_limited: bool,
    /// The ACK carries ECE (RFC 3168).
    pub ecn_echo: bool,
}

impl EventRecord {
    /// Creates an event at time 0 with all other values zero and no RTT sample.
    pub fn new(kind: EventKind) -> Self {
        let mut e = EventRecord::decode(&[&[0; 8][..], &1u32.to_le_bytes(), &[0; SIZE - 12]].concat()).expect("a kind");
        e.kind = kind;
        (e.rtt_us, e.sampled) = (-1, -1);
        e
    }

    /// Decodes a record. Returns `None` if the bytes are not a record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u16_at = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        Some(EventRecord {
            now_us: u64_at(0),
            kind: *KINDS.get((u32_at(8) as usize).checked_sub(1)?)?,
            connection: u32_at(12),
            mss: u32_at(16),
            cwnd: u32_at(20),
            ssthresh: u32_at(24),
            in_flight: u32_at(36),
            snd_una: u32_at(40),
            snd_nxt: u32_at(44),
            srtt_us: u32_at(48),
            rtt_us: u32_at(52).cast_signed(),
            acked: u32_at(56),
            segments: u32_at(60),
            state: bytes[64],
            may_grow: bytes[65] != 0,
            family: u16_at(66),
            local_port: u16_at(68),
            remote_port: u16_at(70),
            remote: bytes[72..88].try_into().expect("sixteen bytes"),
            delivered: u32_at(88),
            total_delivered: u32_at(92),
            pacing_rate: u64_at(96),
            sampled: u32_at(104).cast_signed(),
            interval_us: u32_at(108),
            losses: u32_at(112),
            app_limited: bytes[116] != 0,
            ecn_echo: bytes[117] != 0,
        })
    }

    /// Encodes the record.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.now_us.to_ne_bytes());
        put(96, &self.pacing_rate.to_ne_bytes());
        put(64, &[self.state, u8::from(self.may_grow)]);
        put(116, &[u8::from(self.app_limited), u8::from(self.ecn_echo)]);
        for (at, value) in [
            (8, self.kind as u32),
            (12, self.connection),
            (16, self.mss),
            (20, self.cwnd),
            (24, self.ssthresh),
            (36, self.in_flight),
            (40, self.snd_una),
            (44, self.snd_nxt),
            (48, self.srtt_us),
            (52, self.rtt_us.cast_unsigned()),
            (56, self.acked),
            (60, self.segments),
            (88, self.delivered),
            (92, self.total_delivered),
            (104, self.sampled.cast_unsigned()),
            (108, self.interval_us),
            (112, self.losses),
        ] {
            put(at, &value.to_ne_bytes());
        }
        for (at, value) in [(66, self.family), (68, self.local_port), (70, self.remote_port)] {
            put(at, &value.to_ne_bytes());
        }
        put(72, &self.remote);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_record_round_trips_through_bytes() {
        for (i, kind) in KINDS.into_iter().enumerate() {
            let e = EventRecord {
                cwnd: 7,
                rtt_us: -1,
                remote: [3; 16],
                may_grow: true,
                now_us: 1 << 40,
                pacing_rate: u64::MAX - 3,
                app_limited: true,
                ecn_echo: i % 2 == 0,
                ..EventRecord::new(kind)
            };
            assert_eq!(kind as usize, i + 1);
            assert_eq!(EventRecord::decode(&e.encode()), Some(e));
        }
        assert_eq!(EventRecord::decode(&[0; SIZE]), None, "no kind 0");
        assert_eq!(EventRecord::decode(&[1; 20]), None, "too short");
    }
}
