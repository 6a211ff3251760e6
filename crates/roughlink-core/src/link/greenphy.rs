//! HomePlug Green PHY: the power-line network on a charging cable (ISO 15118-3), with one or more pairs of modems.
//!
//! Green PHY is HomePlug AV reduced to its three ROBO modes. Ethernet frames form a byte stream that is cut into PHY
//! blocks (PB). An MPDU carries a few PBs. The receiver's SACK has one bit per PB, and bad PBs are sent again together
//! with new ones (Katar et al., ISPLC 2005). Stations contend slot by slot, by class and with deferral counters.
//!
//! The values are published ones, as the specification was not available; comments at the defaults of
//! [`GreenPhyConfig`] mark assumptions. In emulations `net::avln` models keys and management messages. Not
//! modeled: management frames between modems, a contention-free period, hidden stations.

mod cable;
mod csma;
mod station;

pub use cable::GreenPhy;
pub use csma::Backoff;

use super::noise::AirNoise;
use crate::units::{self, Bytes, Rate, Share, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Green PHY network: any number of pairs of stations that all receive each other. Scenarios set the fields that
/// serde reads in the table `mac`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "GreenPhyMac", deny_unknown_fields)]
pub struct GreenPhyConfig {
    /// ROBO mode of all payload. Default HS.
    #[serde(skip)]
    pub mode: Robo,
    /// Largest number of PHY blocks in an MPDU; 5, 2 and 1 for `hpgp-hs`, `hpgp-std` and `hpgp-mini` if absent, limited
    /// by the air time of an MPDU (2.50112 ms).
    #[schemars(extend("minimum" = 1))]
    pub max_pbs: usize,
    /// Largest IP packet, bytes; larger ones become fragments (RFC 791). Default 1500.
    #[serde(skip)]
    pub mtu: u16,
    /// Bytes that framing adds to each packet: Ethernet header and check sequence.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Bytes", extend("x-maximum" = "1024 B"))]
    pub frame_overhead: u16,
    /// Capacity of the operating system's drop-tail queue in frames, one queue for each class in use. Default 100
    /// (assumption).
    #[serde(skip)]
    pub host_queue: u32,
    /// Capacity of the ring between host and modem in frames, in addition to `queue`.
    pub modem_ring: u32,
    /// Processing time of host and modem per frame, once per direction. The default gives the 5 ms handshake of
    /// captured sessions; 1 to 5 ms are plausible.
    #[schemars(extend("x-maximum" = "60 s"), example = "1.4 ms")]
    pub latency: Time,
    /// Priority class of each port's packets, unless a flow has a class; ports beyond the list have CA1. Default empty.
    #[serde(skip)]
    pub classes: Vec<PriorityClass>,
    /// Length of an access, priority or back-off slot.
    #[schemars(extend("x-exclusiveMinimum" = "0 s", "x-maximum" = "60 s"))]
    pub slot: Time,
    /// Gap after an exchange.
    #[schemars(extend("x-maximum" = "60 s"))]
    pub cifs: Time,
    /// Gap between a frame and its acknowledgment.
    #[schemars(extend("x-maximum" = "60 s"))]
    pub rifs: Time,
    /// Air time of preamble and frame control.
    #[schemars(extend("x-exclusiveMinimum" = "0 s", "x-maximum" = "60 s"))]
    pub delimiter: Time,
    /// Waiting time after a frame control that could not be decoded.
    #[schemars(extend("x-maximum" = "60 s"))]
    pub eifs: Time,
    /// Wait `eifs` after a collision, too.
    pub eifs_after_collision: bool,
    /// Back-off of classes CA0 and CA1. Default as in [`Backoff::LOW`].
    #[serde(skip)]
    pub backoff_low: Backoff,
    /// Back-off of classes CA2 and CA3. Default as in [`Backoff::HIGH`].
    #[serde(skip)]
    pub backoff_high: Backoff,
    /// Frequency of the mains; two cycles are a beacon period.
    #[serde(rename = "mains", with = "units::hertz")]
    #[schemars(with = "units::hertz::HertzSchema")]
    pub mains_hz: f64,
    /// Length of the beacon region at the start of each beacon period, in which no station contends. At least 4 ms of
    /// the period must remain.
    #[schemars(extend("x-maximum" = "60 s"))]
    pub beacon: Time,
    /// Transmissions of a packet or block before it is abandoned.
    #[schemars(extend("minimum" = 1, "maximum" = 255))]
    pub transmissions: u8,
    /// Time from the first transmission after which a packet or block is abandoned.
    #[schemars(extend("x-exclusiveMinimum" = "0 s", "x-maximum" = "60 s"))]
    pub lifetime: Time,
    /// Noise on the cable. Default [`AirNoise::cable`].
    #[serde(skip)]
    pub noise: AirNoise,
    /// Share of the `hit` probability that applies to robust transmissions: headers, acknowledgments, preamble and
    /// frame control.
    #[serde(with = "units::share")]
    #[schemars(with = "Share")]
    pub robust_share: f64,
    /// Time from the moment when two modems have the same key until data passes between them. Used by emulations if the
    /// link has an attenuation. ISO 15118-3 allows 12 s (TT_match_join).
    #[schemars(extend("x-maximum" = "60 s"))]
    pub join: Time,
    /// Attenuation between the two modems of the link, dB; `None` if they pass all frames and have no keys. Default
    /// `None`.
    #[serde(skip)]
    pub attenuation_db: Option<u8>,
    /// Periods in which the cable of each pair is unplugged, from and until, in order. Pairs beyond the list stay
    /// plugged in. Default empty.
    #[serde(skip)]
    pub unplugged: Vec<Vec<[Time; 2]>>,
}

/// ROBO modes: QPSK with a rate 1/2 turbo code carries one bit per carrier, sent in several copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Robo {
    /// High speed: 2 copies, 9.845 Mbit/s.
    Hs,
    /// Standard: 4 copies, 4.923 Mbit/s.
    Std,
    /// Mini: 5 copies, 3.772 Mbit/s, small blocks.
    Mini,
}

/// Priority classes, in rising order: CA2 and CA3 assert the first priority slot, CA1 and CA3 the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum PriorityClass {
    Ca0,
    Ca1,
    Ca2,
    Ca3,
}

impl PriorityClass {
    /// All classes, in ascending order.
    pub const ALL: [PriorityClass; 4] =
        [PriorityClass::Ca0, PriorityClass::Ca1, PriorityClass::Ca2, PriorityClass::Ca3];

    /// Returns the name in scenario files.
    pub const fn name(self) -> &'static str {
        ["ca0", "ca1", "ca2", "ca3"][self as usize]
    }
}

impl Default for GreenPhyConfig {
    fn default() -> Self {
        Self::new(Robo::Hs, 5)
    }
}

impl GreenPhyConfig {
    fn new(mode: Robo, max_pbs: usize) -> Self {
        GreenPhyConfig {
            mode,
            max_pbs, // as many as fit into 2501.12 us (MaxFL) of payload
            mtu: 1500,
            frame_overhead: 18,                // assumption
            host_queue: 100,                   // assumption
            modem_ring: 10,                    // the transmit ring of the QCA7000 driver
            latency: Time::from_micros(1_400), // assumption: a handshake takes 5 ms, as in captured sessions
            classes: Vec::new(),
            slot: Time::from_nanos(35_840),
            cifs: Time::from_micros(100),
            rifs: Time::from_micros(140),         // 30-160 us
            delimiter: Time::from_nanos(110_480), // 51.2 + 59.28
            eifs: Time::from_nanos(2_920_640),
            eifs_after_collision: false, // assumption: a collision takes as long as its longest MPDU
            backoff_low: Backoff::LOW,
            backoff_high: Backoff::HIGH,
            mains_hz: 50.0,                   // without mains (DC charging) the period is the same
            beacon: Time::from_millis(1),     // assumption
            transmissions: 8,                 // assumption
            lifetime: Time::from_millis(500), // assumption
            noise: AirNoise::cable(),
            robust_share: 0.2,        // assumption
            join: Time::from_secs(2), // assumption
            attenuation_db: None,
            unplugged: Vec::new(),
        }
    }

    /// Returns profile `hpgp-hs`.
    pub fn hpgp_hs() -> Self {
        Self::new(Robo::Hs, 5)
    }

    /// Returns profile `hpgp-std`.
    pub fn hpgp_std() -> Self {
        Self::new(Robo::Std, 2)
    }

    /// Returns profile `hpgp-mini`.
    pub fn hpgp_mini() -> Self {
        Self::new(Robo::Mini, 1)
    }

    /// Returns the air time of the payload of an MPDU with `n` PBs.
    pub fn payload_air(&self, n: usize) -> Time {
        let bits = 8 * self.mode.block_bytes() * n as u64;
        self.mode.symbol() * bits.div_ceil(self.mode.bits_per_symbol())
    }

    /// Returns the mean time of an undisturbed exchange of one station with `n` PBs, from priority slots to CIFS.
    ///
    /// ```
    /// use roughlink_core::link::greenphy::GreenPhyConfig;
    ///
    /// let cable = GreenPhyConfig::hpgp_hs();
    /// let bits = 8 * 5 * cable.mode.body_bytes();
    /// let mbps = bits as f64 / cable.exchange_time(5).as_secs_f64() / 1e6;
    /// assert!((mbps - 7.32).abs() < 0.006); // of a PHY rate of 9.845 Mbit/s
    /// ```
    pub fn exchange_time(&self, n: usize) -> Time {
        let window = u64::from(self.backoff(PriorityClass::Ca1).windows[0]);
        self.slot * 2 + self.slot * (window - 1) / 2 + self.busy(n)
    }

    /// Returns the time of an exchange after the back-off.
    fn busy(&self, n: usize) -> Time {
        self.delimiter * 2 + self.payload_air(n) + self.rifs + self.cifs
    }

    /// Returns two cycles of the mains.
    fn beacon_period(&self) -> Time {
        Time::from_secs_f64(2.0 / self.mains_hz)
    }

    /// Returns true if the cable of a pair is unplugged at any time from `start` to `end`.
    fn is_unplugged(&self, pair: usize, start: Time, end: Time) -> bool {
        let periods = self.unplugged.get(pair).map_or(&[][..], Vec::as_slice);
        let next = periods.partition_point(|[_, until]| *until <= start);
        periods.get(next).is_some_and(|[from, _]| *from < end)
    }
    fn class(&self, port: usize) -> PriorityClass {
        self.classes.get(port).copied().unwrap_or(PriorityClass::Ca1)
    }

    fn backoff(&self, class: PriorityClass) -> &Backoff {
        if class >= PriorityClass::Ca2 { &self.backoff_high } else { &self.backoff_low }
    }
}

impl Robo {
    /// Returns the information bits per symbol: usable carriers divided by copies.
    pub const fn bits_per_symbol(self) -> u64 {
        CARRIERS
            / match self {
                Robo::Hs => 2,
                Robo::Std => 4,
                Robo::Mini => 5,
            }
    }

    /// Returns the length of a symbol with its guard interval.
    pub const fn symbol(self) -> Time {
        Time::from_nanos(match self {
            Robo::Hs | Robo::Std => 46_520,
            Robo::Mini => 48_520,
        })
    }

    /// Returns the PHY rate.
    pub const fn rate(self) -> Rate {
        Rate(self.bits_per_symbol() * 1_000_000_000 / self.symbol().0)
    }

    /// Returns the bytes of a PB on air.
    pub const fn block_bytes(self) -> u64 {
        self.body_bytes() + 8 // header and check sequence
    }

    /// Returns the bytes of the frame stream in a PB.
    pub const fn body_bytes(self) -> u64 {
        match self {
            Robo::Hs | Robo::Std => 512,
            Robo::Mini => 128,
        }
    }
}

/// Usable carriers with the North American mask.
const CARRIERS: u64 = 917;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_match_the_standard() {
        for (mode, mbps) in [(Robo::Hs, 9.845), (Robo::Std, 4.923), (Robo::Mini, 3.772)] {
            let rate = mode.bits_per_symbol() as f64 / mode.symbol().0 as f64 * 1e3;
            assert!((rate - mbps).abs() < 0.0006, "{rate} for {mbps}");
        }
    }

    #[test]
    fn air_times_match_the_reference() {
        // (profile, PBs, payload us, body bytes, full exchange us, goodput Mbit/s)
        let (hs, std, mini) = (GreenPhyConfig::hpgp_hs(), GreenPhyConfig::hpgp_std(), GreenPhyConfig::hpgp_mini());
        for (c, n, payload, body, exchange, mbps) in [
            (&hs, 1, 465, 512, 1123, 3.65),
            (&hs, 3, 1303, 1536, 1961, 6.27),
            (&hs, 5, 2140, 2560, 2798, 7.32),
            (&std, 1, 884, 512, 1542, 2.66),
            (&std, 2, 1721, 1024, 2379, 3.44),
            (&mini, 1, 291, 128, 949, 1.08),
        ] {
            let us = |t: Time| (t.0 + 500) / 1000;
            assert_eq!(us(c.payload_air(n)), payload);
            assert!(us(c.exchange_time(n)).abs_diff(exchange) <= 1, "{:?} for {exchange} us", c.exchange_time(n));
            assert_eq!(c.mode.body_bytes() * n as u64, body);
            let goodput = 8.0 * body as f64 / c.exchange_time(n).as_secs_f64() / 1e6;
            assert!((goodput - mbps).abs() < 0.006, "{goodput} for {mbps}");
        }
    }

    #[test]
    fn mpdus_stay_within_the_standard_length() {
        let max_fl = Time::from_nanos(2_501_120);
        for c in [GreenPhyConfig::hpgp_hs(), GreenPhyConfig::hpgp_std(), GreenPhyConfig::hpgp_mini()] {
            assert!(c.payload_air(c.max_pbs) <= max_fl);
            assert!(c.mode == Robo::Mini || c.payload_air(c.max_pbs + 1) > max_fl);
        }
    }
}
