//! HD-PLC, the wavelet form of IEEE 1901: a home power line between two or more modems (PLC paper, sections 3 and 4).
//!
//! A modem queues IP packets, its SDUs, and sends a PDU when it has 31 SDUs or when a timer expires. The receiver
//! answers with a PLC-ACK of one bit per SDU. The next PDU carries the failed SDUs first, then new ones. Both
//! directions share the medium, one PDU at a time, unless the link is configured as full duplex ([`Duplex`]).
//!
//! The paper gives packet size, PHY rate, queue, the 31 SDUs and the retransmission rule, but not the internal timing
//! of the observed modems. All other values are assumptions ([`HdplcConfig`]); timings change capacity by about 5 %.

mod duplex;
mod modem;
mod network;

pub use duplex::FullDuplex;
pub use network::Hdplc;

use super::noise::AirNoise;
use crate::units::{self, Bytes, Rate, Share, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Contention between the two directions of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// The directions share the medium, one frame at a time.
    Half,
    /// Each direction has a separate medium, as with the two simplex links of ns-2, so TCP acknowledgments do not
    /// contend with data. Access times, acknowledgments of the modems, retransmissions and noise remain, per direction.
    /// Real power lines do not work this way.
    Full,
}

/// An HD-PLC link. Scenarios set the fields that serde reads in the table `mac`. The note "paper" marks defaults from
/// the PLC paper; defaults without a note are assumptions.
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
    /// Capacity of a modem's drop-tail queue in packets. Default 256 (paper).
    #[serde(skip)]
    pub queue: u32,
    /// Count packets that are sent but unacknowledged as part of `queue`.
    pub queue_counts_unacknowledged: bool,
    /// Largest number of packets in a frame.
    #[schemars(extend("minimum" = 1, "maximum" = 1024))]
    pub max_sdus: usize,
    /// Longest air time of the packets of a frame; unlimited if absent.
    #[serde(skip_serializing_if = "Time::is_max")]
    pub max_air: Time,
    /// Time from the arrival of the oldest packet until a partial frame is sent; typically 0.5 to 10 ms.
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
    /// Gap between a frame and its acknowledgment.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub rifs: Time,
    /// Air time of the acknowledgment.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub ack: Time,
    /// Gap before access to the medium.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub access_gap: Time,
    /// Number of slots to draw from: each frame waits for 0 to `access_slots` - 1 slots at random; with 1 the modems
    /// take turns.
    #[schemars(extend("minimum" = 1, "maximum" = 65_536))]
    pub access_slots: u32,
    /// Length of an access, priority or back-off slot.
    #[schemars(extend("x-maximum" = "1 s"))]
    pub slot: Time,
    /// Contention of the directions for the medium.
    pub duplex: Duplex,
    /// Let frames that start less than a slot apart collide, so that all are lost; if false, their modems take turns.
    /// Half duplex only.
    pub collisions: bool,
    /// Transmissions of a packet or block before it is abandoned.
    #[schemars(extend("minimum" = 1, "maximum" = 255))]
    pub transmissions: u8,
    /// Time from the first transmission after which a packet or block is abandoned.
    #[schemars(extend("x-exclusiveMinimum" = "0 s"))]
    pub lifetime: Time,
    /// Hold packets back at the receiver until gaps are filled. Otherwise TCP interprets retransmissions of the link as
    /// losses.
    pub in_order: bool,
    /// Noise on the line. Default [`AirNoise::inverter45`].
    #[serde(skip)]
    pub noise: AirNoise,
    /// Channels of the pairs of modems, in their order; pairs beyond the end have the values above.
    #[serde(skip)]
    pub channels: Vec<Channel>,
    /// Share of the `hit` probability that applies to robust transmissions: headers, acknowledgments, preamble and
    /// frame control.
    #[serde(with = "units::share")]
    #[schemars(with = "Share")]
    pub robust_share: f64,
    /// Weight of a new frame in the moving average of the packet error rate, which gateways with an `error_factor` use.
    #[serde(with = "units::share")]
    #[schemars(with = "Share")]
    pub error_weight: f64,
}

/// Channel between the modems of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// PHY rate.
    pub rate: Rate,
    /// PHY rate over time, as [`HdplcConfig::rate_trace`].
    pub rate_trace: Vec<(Time, Rate)>,
    /// Noise on the line.
    pub noise: AirNoise,
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
            channels: Vec::new(),
            robust_share: 0.2,
            error_weight: 0.0625, // about 0.3 s under load
        }
    }
}

impl HdplcConfig {
    /// Returns the channel of pairs that `channels` does not list.
    pub fn channel(&self) -> Channel {
        Channel { rate: self.rate, rate_trace: self.rate_trace.clone(), noise: self.noise.clone() }
    }

    /// Returns the configuration of a pair of modems with this channel.
    pub fn with_channel(&self, channel: Channel) -> HdplcConfig {
        let Channel { rate, rate_trace, noise } = channel;
        HdplcConfig { rate, rate_trace, noise, channels: Vec::new(), ..self.clone() }
    }

    fn pair_config(&self, pair: usize) -> HdplcConfig {
        self.with_channel(self.channels.get(pair).cloned().unwrap_or_else(|| self.channel()))
    }

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
    ///
    /// ```
    /// use roughlink_core::link::hdplc::HdplcConfig;
    /// use roughlink_core::units::Time;
    ///
    /// let line = HdplcConfig::default();
    /// assert_eq!(line.sdus_per_pdu(line.rate), 31);
    /// let short = HdplcConfig { max_air: Time::from_millis(5), ..HdplcConfig::default() };
    /// assert_eq!(short.sdus_per_pdu(short.rate), 7);
    /// ```
    pub fn sdus_per_pdu(&self, rate: Rate) -> usize {
        let one = rate.time_for(u64::from(self.mtu) + u64::from(self.sdu_overhead));
        let fit = self.max_air.0 / one.0.max(1);
        self.max_sdus.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1)
    }

    /// Returns T_cyc(n): the mean time from one PDU to the next if each has `n` SDUs of the MTU's size and is sent at
    /// `rate`. Consists of access, header, SDUs, gap and PLC-ACK.
    ///
    /// ```
    /// use roughlink_core::link::hdplc::HdplcConfig;
    ///
    /// let line = HdplcConfig::default();
    /// let capacity = 31.0 / line.cycle_time(31, line.rate).as_secs_f64();
    /// assert!((capacity - 1478.0).abs() < 1.0); // SDUs per second
    /// ```
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
    fn air_times_match_the_reference() {
        let c = HdplcConfig { symbol: Time::ZERO, ..Default::default() };
        let near = |t: Time, expected: f64| assert!((us(t) - expected).abs() < 0.1, "{t:?} for {expected} us");
        near(c.sdu_air(1500), 652.2);
        near(c.sdu_air(200), 93.7);
        near(c.sdu_air(52), 30.1);
        // SDUs take the rest of the cycle: access (100 + 3.5 * 35.84), header, gap and PLC-ACK are 751.44 us
        assert!((us(c.cycle_time(31, c.rate)) - 751.44 - 20_218.0).abs() < 0.5);
        // Rounding adds less than a symbol. At 1478 SDU/s, a full queue of 256 takes 173 ms, a PDU of 31 takes 21 ms.
        let full = c.cycle_time(31, c.rate).as_millis_f64();
        assert!((full - 21.0).abs() < 0.05, "{full}");
        assert!((256.0 / 31.0 * full - 173.0).abs() < 0.5, "{full}");
        let rounded = HdplcConfig::default().cycle_time(31, c.rate) - c.cycle_time(31, c.rate);
        assert!(rounded < Time(8_192), "{rounded:?}");
    }

    #[test]
    fn overhead_per_cycle_limits_capacity() {
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
    fn rate_follows_its_trace() {
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
