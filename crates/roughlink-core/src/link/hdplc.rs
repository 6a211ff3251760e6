//! HD-PLC, the wavelet form of IEEE 1901: a home power line between two or more modems (PLC paper, sections 3 and 4).
//!
//! A modem queues IP packets, its SDUs. It sends a PDU when it has 31 of them or when a timer expires. The receiver
//! answers with a PLC-ACK of one bit per SDU. The next PDU carries the failed SDUs first, then new ones. Both
//! directions share the medium, one PDU at a time, unless the link is configured as full duplex ([`Duplex`]).
//!
//! The paper fixes packet size, PHY rate, queue, the 31 SDUs and the rule of repetition. Its authors observed modems
//! whose internal timing they did not state. Everything else is an assumption, a field of [`HdplcConfig`]; together
//! these timings change the capacity by about 5 %.

mod duplex;
mod modem;
mod network;

pub use duplex::FullDuplex;
pub use network::Hdplc;

use super::noise::AirNoise;
use crate::units::{self, Bytes, Rate, Share, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the two directions of a link contend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// They share the medium, one frame at a time.
    Half,
    /// Each direction has the medium to itself, as with the two simplex links of ns-2, so that acknowledgements of TCP do not
    /// contend with the data. Access times, acknowledgements of the modems, retransmissions and noise remain, per direction.
    /// No power line works like that.
    Full,
}

/// An HD-PLC link; the keys of `mac` are those that serde reads. Beside its default each value has its origin: "paper" is
/// the PLC paper, and what has none is an assumption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "HdplcMac", deny_unknown_fields)]
pub struct HdplcConfig {
    /// PHY rate. Default 18.62 Mbit/s (paper).
    #[serde(skip)]
    pub rate: Rate,
    /// PHY rate over time: (start, rate), ascending; `rate` applies before the first entry. A PDU keeps the rate of its
    /// start. Default empty: the paper fixes the rate.
    #[serde(skip)]
    pub rate_trace: Vec<(Time, Rate)>,
    /// Largest IP packet, bytes; larger ones become fragments (RFC 791). Default 1500.
    #[serde(skip)]
    pub mtu: u16,
    /// Packets that a modem's queue holds; drop-tail. Default 256 (paper).
    #[serde(skip)]
    pub queue: u32,
    /// Packets sent but not acknowledged count towards `queue`.
    pub queue_counts_unacknowledged: bool,
    /// Largest number of packets in a frame.
    #[schemars(extend("minimum" = 1, "maximum" = 1024))]
    pub max_sdus: usize,
    /// Longest air time of the packets of a frame; unlimited if absent.
    #[serde(skip_serializing_if = "Time::is_max")]
    pub max_air: Time,
    /// A frame that is not full is sent this long after its oldest packet arrived; typically 0.5 to 10 ms.
    pub aggregation: Time,
    /// Bytes added to each packet.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-maximum" = "1024 B"))]
    pub sdu_overhead: u16,
    /// Symbol period: the air time of the packets of a frame is rounded up to a multiple of it; `0 s` disables
    /// rounding.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub symbol: Time,
    /// Air time of preamble and frame control.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub header: Time,
    /// Gap between a frame and its acknowledgement.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub rifs: Time,
    /// Air time of the acknowledgement.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub ack: Time,
    /// Gap before access to the medium.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub access_gap: Time,
    /// Each frame waits for a uniform number of slots below this; with 1 the modems take turns.
    #[schemars(extend("minimum" = 1, "maximum" = 65_536))]
    pub access_slots: u32,
    /// Length of an access, priority or back-off slot.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub slot: Time,
    /// Whether the directions contend for the medium.
    pub duplex: Duplex,
    /// Half duplex only: frames that start less than a slot apart are lost; otherwise their modems take turns.
    pub collisions: bool,
    /// Transmissions of a packet or block before it is given up.
    #[schemars(extend("minimum" = 1, "maximum" = 255))]
    pub transmissions: u8,
    /// Time from its first transmission after which a packet or block is given up.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub lifetime: Time,
    /// The receiver holds packets back until gaps are filled; without it TCP takes retransmissions of the link for
    /// losses.
    pub in_order: bool,
    /// Noise on the line. Default [`AirNoise::inverter45`].
    #[serde(skip)]
    pub noise: AirNoise,
    /// Share of their `hit` probability with which impulses spoil what is sent in a robust mode: headers,
    /// acknowledgements, preamble and frame control.
    #[serde(with = "units::share")]
    #[schemars(with = "Share")]
    pub robust_share: f64,
    /// Weight of a new frame in the moving average of the packet error rate, which gateways with an `error_factor` use.
    #[serde(with = "units::share")]
    #[schemars(with = "Share")]
    pub error_weight: f64,
}

impl Default for HdplcConfig {
    fn default() -> Self {
        HdplcConfig {
            rate: Rate::from_bps(18_620_000), // paper
            rate_trace: Vec::new(),
            mtu: 1500,
            queue: 256, // paper
            queue_counts_unacknowledged: true,
            max_sdus: 31,                      // paper
            max_air: Time::MAX,                // plausible: 2-25 ms
            aggregation: Time::from_millis(2), // limits the delay of an idle link; no effect on a busy one
            sdu_overhead: 18,                  // Ethernet header and check sequence
            symbol: Time::from_nanos(8_192),   // 512 samples at 62.5 MHz (IEEE 1901)
            header: Time::from_micros(213),    // 26 symbols (100-400 us)
            rifs: Time::from_micros(100),      // HomePlug AV: 30-160 us
            ack: Time::from_micros(213),       // a preamble and a header with the bitmap in it
            access_gap: Time::from_micros(100),
            access_slots: 8,
            slot: Time::from_nanos(35_840), // IEEE 1901 FFT
            duplex: Duplex::Half,
            collisions: false, // in the paper the power line loses packets only in full queues
            transmissions: 8,  // at 14 % error, fewer than 2e-7 of the packets are lost
            lifetime: Time::from_millis(500),
            in_order: true,
            noise: AirNoise::inverter45(),
            robust_share: 0.2,
            error_weight: 0.0625, // about 0.3 s under load
        }
    }
}

impl HdplcConfig {
    /// Returns the PHY rate at `now`.
    pub fn rate_at(&self, now: Time) -> Rate {
        let passed = self.rate_trace.partition_point(|step| step.0 <= now);
        passed.checked_sub(1).map_or(self.rate, |i| self.rate_trace[i].1)
    }

    /// Returns the air time of an SDU of `size` bytes at the configured `rate`, before rounding to symbols.
    pub fn sdu_air(&self, size: u16) -> Time {
        self.rate.time_for(u64::from(size) + u64::from(self.sdu_overhead))
    }

    /// Returns L: the number of SDUs of the MTU's size in a full PDU sent at `rate`.
    pub fn sdus_per_pdu(&self, rate: Rate) -> usize {
        let one = rate.time_for(u64::from(self.mtu) + u64::from(self.sdu_overhead));
        let fit = self.max_air.0 / one.0.max(1);
        self.max_sdus.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1)
    }

    /// Returns T_cyc(n): the mean time from one PDU to the next if each has `n` SDUs of the MTU's size and is sent at
    /// `rate`. Consists of access, header, SDUs, gap and PLC-ACK.
    pub fn cycle_time(&self, n: usize, rate: Rate) -> Time {
        let bytes = n as u64 * (u64::from(self.mtu) + u64::from(self.sdu_overhead));
        let slots = self.slot * u64::from(self.access_slots - 1) / 2;
        self.access_gap + slots + self.header + self.in_symbols(rate.time_for(bytes)) + self.rifs + self.ack
    }

    /// Returns the mean error ratio of SDUs of `size` bytes by the overlap formula of [`AirNoise::expected_error`].
    pub fn sdu_error(&self, size: u16) -> f64 {
        self.noise.expected_error(self.sdu_air(size), 1.0)
    }

    /// Returns this link with its noise scaled so that SDUs of the MTU's size have the mean error ratio `target`.
    pub fn with_sdu_error(mut self, target: f64) -> Self {
        self.noise = self.noise.with_error(target, self.sdu_air(self.mtu));
        self
    }

    /// Rounds `air` up to whole symbols.
    fn in_symbols(&self, air: Time) -> Time {
        if self.symbol.is_zero() { air } else { self.symbol * air.0.div_ceil(self.symbol.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(t: Time) -> f64 {
        t.0 as f64 / 1e3
    }

    #[test]
    fn air_times_are_the_reference_numbers() {
        let c = HdplcConfig { symbol: Time::ZERO, ..Default::default() };
        let near = |t: Time, expected: f64| assert!((us(t) - expected).abs() < 0.1, "{t:?} for {expected} us");
        near(c.sdu_air(1500), 652.2);
        near(c.sdu_air(200), 93.7);
        near(c.sdu_air(52), 30.1);
        // SDUs take the rest of the cycle: access (100 + 3.5 * 35.84), header, gap and PLC-ACK are 751.44 us
        assert!((us(c.cycle_time(31, c.rate)) - 751.44 - 20_218.0).abs() < 0.5);
        // Rounding to symbols adds less than one symbol. A full queue of 256 at 1478 SDU/s is 173 ms of delay, a PDU of
        // 31 is 21 ms.
        let full = c.cycle_time(31, c.rate).as_millis_f64();
        assert!((full - 21.0).abs() < 0.05, "{full}");
        assert!((256.0 / 31.0 * full - 173.0).abs() < 0.5, "{full}");
        let rounded = HdplcConfig::default().cycle_time(31, c.rate) - c.cycle_time(31, c.rate);
        assert!(rounded < Time(8_192), "{rounded:?}");
    }

    #[test]
    fn overhead_per_cycle_decides_about_capacity() {
        // (overhead us, IP goodput Mbit/s, SDU/s) at 31 SDUs of 1500 bytes
        for (overhead, mbps, sdus) in [(400, 18.04, 1504.0), (750, 17.74, 1478.0), (1500, 17.13, 1427.0)] {
            let c = HdplcConfig {
                symbol: Time::ZERO,
                access_gap: Time::from_micros(overhead),
                access_slots: 1,
                header: Time::ZERO,
                rifs: Time::ZERO,
                ack: Time::ZERO,
                ..Default::default()
            };
            let capacity = c.sdus_per_pdu(c.rate) as f64 / c.cycle_time(31, c.rate).as_secs_f64();
            assert!((capacity - sdus).abs() < 0.6, "{capacity} for {sdus}");
            assert!((capacity * 12e3 / 1e6 - mbps).abs() < 0.006, "{capacity} for {mbps}");
        }
    }

    #[test]
    fn air_time_bounds_the_pdu() {
        let with = |max_air, rate| HdplcConfig { max_air, ..Default::default() }.sdus_per_pdu(rate);
        let rate = HdplcConfig::default().rate;
        assert_eq!([Time::MAX, Time::from_millis(5), Time::from_micros(100)].map(|t| with(t, rate)), [31, 7, 1]);
        assert_eq!(with(Time::from_millis(5), Rate::from_bps(rate.as_bps() / 2)), 3);
    }

    #[test]
    fn the_rate_follows_its_trace() {
        let trace = vec![(Time::from_secs(1), Rate::from_mbps(10)), (Time::from_secs(2), Rate::from_mbps(5))];
        let c = HdplcConfig { rate_trace: trace, ..Default::default() };
        assert_eq!(
            [0, 999, 1000, 1999, 2000].map(|ms| c.rate_at(Time::from_millis(ms)).as_bps()),
            [18_620_000, 18_620_000, 10_000_000, 10_000_000, 5_000_000]
        );
    }

    #[test]
    fn sdu_errors_can_be_set() {
        assert!((HdplcConfig::default().sdu_error(1500) - 0.0738).abs() < 0.0005);
        for target in [0.01, 0.07, 0.14] {
            let error = HdplcConfig::default().with_sdu_error(target).sdu_error(1500);
            assert!((error - target).abs() < 1e-6, "{error} for {target}");
        }
    }
}
