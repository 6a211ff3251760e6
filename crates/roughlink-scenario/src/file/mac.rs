//! `mac`: how the modems of a shared medium use it.

use crate::leaf::{Hertz, Leaf};
use roughlink_core::link::hdplc::Duplex;
use roughlink_core::units::{Bytes, Share, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// How the modems of a medium share it; which keys there are depends on the `kind` of the link.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mac {
    /// A frame that is not full is sent this long after its oldest packet arrived; typically 0.5 to 10 ms.
    #[schemars(extend("default" = "2 ms"))]
    pub aggregation: Option<Leaf<Time>>,
    /// Largest number of packets in a frame.
    #[schemars(extend("default" = 31, "minimum" = 1, "maximum" = 1024))]
    pub max_sdus: Option<Leaf<u32>>,
    /// Longest air time of the packets of a frame; unlimited if absent.
    pub max_air: Option<Leaf<Time>>,
    /// Air time of preamble and frame control.
    #[schemars(extend("default" = "213 us", "x-maximum" = "1 s"))]
    pub header: Option<Leaf<Time>>,
    /// Gap between a frame and its acknowledgement.
    #[schemars(extend("x-default" = { "hdplc": "100 us", "greenphy": "140 us" }, "x-maximum" = { "hdplc": "1 s", "greenphy": "60 s" }))]
    pub rifs: Option<Leaf<Time>>,
    /// Air time of the acknowledgement.
    #[schemars(extend("default" = "213 us", "x-maximum" = "1 s"))]
    pub ack: Option<Leaf<Time>>,
    /// Gap before access to the medium.
    #[schemars(extend("default" = "100 us", "x-maximum" = "1 s"))]
    pub access_gap: Option<Leaf<Time>>,
    /// Each frame waits for a uniform number of slots below this; with 1 the modems take turns.
    #[schemars(extend("default" = 8, "minimum" = 1, "maximum" = 65_536))]
    pub access_slots: Option<Leaf<u32>>,
    /// Length of an access, priority or back-off slot.
    #[schemars(extend("default" = "35.84 us", "x-maximum" = { "hdplc": "1 s", "greenphy": "60 s" }))]
    pub slot: Option<Leaf<Time>>,
    /// Bytes added to each packet.
    #[schemars(extend("default" = "18 B", "x-maximum" = "1024 B"))]
    pub sdu_overhead: Option<Leaf<Bytes>>,
    /// Symbol period: the air time of the packets of a frame is rounded up to a multiple of it; `0 s` disables
    /// rounding.
    #[schemars(extend("default" = "8.192 us", "x-maximum" = "1 s"))]
    pub symbol: Option<Leaf<Time>>,
    /// Transmissions of a packet or block before it is given up.
    #[schemars(extend("default" = 8, "minimum" = 1, "maximum" = 255))]
    pub transmissions: Option<Leaf<u32>>,
    /// Time from its first transmission after which a packet or block is given up.
    #[schemars(extend("default" = "500 ms", "x-exclusiveMinimum" = "0 s"))]
    pub lifetime: Option<Leaf<Time>>,
    /// The receiver holds packets back until gaps are filled; without it TCP takes retransmissions of the link for
    /// losses.
    #[schemars(extend("default" = true))]
    pub in_order: Option<Leaf<bool>>,
    /// Whether the directions contend for the medium.
    #[schemars(extend("default" = "half"))]
    pub duplex: Option<Leaf<Duplex>>,
    /// Half duplex only: frames that start less than a slot apart are lost; otherwise their modems take turns.
    #[schemars(extend("default" = false))]
    pub collisions: Option<Leaf<bool>>,
    /// Packets sent but not acknowledged count towards `queue`.
    #[schemars(extend("default" = true))]
    pub queue_counts_unacknowledged: Option<Leaf<bool>>,
    /// Share of their `hit` probability with which impulses spoil what is sent in a robust mode: headers,
    /// acknowledgements, preamble and frame control.
    #[schemars(extend("default" = "20 %"))]
    pub robust_share: Option<Leaf<Share>>,
    /// Weight of a new frame in the moving average of the packet error rate, which gateways with an `error_factor` use.
    #[schemars(extend("default" = "6.25 %"))]
    pub error_weight: Option<Leaf<Share>>,
    /// Largest number of PHY blocks in an MPDU; 5, 2 and 1 for `hpgp-hs`, `hpgp-std` and `hpgp-mini` if absent, limited
    /// by the air time of an MPDU (2.50112 ms).
    #[schemars(extend("minimum" = 1))]
    pub max_pbs: Option<Leaf<u32>>,
    /// Processing time of host and modem per frame, once per direction. The default gives the 5 ms handshake of
    /// captured sessions; 1 to 5 ms are plausible.
    #[schemars(extend("default" = "1.4 ms", "x-maximum" = "60 s"))]
    #[schemars(example = "1.4 ms")]
    pub latency: Option<Leaf<Time>>,
    /// Frames that the ring between host and modem holds beside `queue`.
    #[schemars(extend("default" = 10))]
    pub modem_ring: Option<Leaf<u32>>,
    /// Gap after an exchange.
    #[schemars(extend("default" = "100 us", "x-maximum" = "60 s"))]
    pub cifs: Option<Leaf<Time>>,
    /// Air time of preamble and frame control.
    #[schemars(extend("default" = "110.48 us", "x-maximum" = "60 s"))]
    pub delimiter: Option<Leaf<Time>>,
    /// Waiting time after a frame control that could not be decoded.
    #[schemars(extend("default" = "2920.64 us", "x-maximum" = "60 s"))]
    pub eifs: Option<Leaf<Time>>,
    /// A collision is followed by `eifs`, too.
    #[schemars(extend("default" = false))]
    pub eifs_after_collision: Option<Leaf<bool>>,
    /// Frequency of the mains; two cycles are a beacon period.
    #[schemars(extend("default" = "50 Hz"))]
    pub mains: Option<Leaf<Hertz>>,
    /// Length of the beacon region at the start of each beacon period, in which no station contends; at least 4 ms of the
    /// period must remain.
    #[schemars(extend("default" = "1 ms", "x-maximum" = "60 s"))]
    pub beacon: Option<Leaf<Time>>,
    /// Bytes that framing adds to each packet: Ethernet header and check sequence.
    #[schemars(extend("default" = "18 B", "x-maximum" = "1024 B"))]
    pub frame_overhead: Option<Leaf<Bytes>>,
}
