//! `mac`: how the modems of a shared medium use it.

use crate::link::hdplc::Duplex;
use crate::scenario::leaf::{Hertz, Leaf};
use crate::units::{Bytes, Share, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// How the modems of a medium share it; which keys there are depends on the `kind` of the link.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Mac {
    /// A frame that is not full is sent this long after its oldest packet came; `2 ms` if absent.
    pub aggregation: Option<Leaf<Time>>,
    /// Largest number of packets in a frame; 31 if absent.
    pub max_sdus: Option<Leaf<u32>>,
    /// Longest air time of the packets of a frame; without bound if absent.
    pub max_air: Option<Leaf<Time>>,
    /// Preamble and frame control; `213 us` if absent.
    pub header: Option<Leaf<Time>>,
    /// Gap between a frame and its acknowledgement; `100 us` if absent, `140 us` on Green PHY.
    pub rifs: Option<Leaf<Time>>,
    /// The acknowledgement; `213 us` if absent.
    pub ack: Option<Leaf<Time>>,
    /// Gap before access to the medium; `100 us` if absent.
    pub access_gap: Option<Leaf<Time>>,
    /// Each frame waits for a uniform number of slots below this; 8 if absent.
    pub access_slots: Option<Leaf<u32>>,
    /// Length of an access or back-off slot; `35.84 us` if absent.
    pub slot: Option<Leaf<Time>>,
    /// Bytes added to each packet; `18 B` if absent.
    pub sdu_overhead: Option<Leaf<Bytes>>,
    /// Symbol period, to which the packets of a frame together are rounded up; `8.192 us` if absent, `0 s` = no rounding.
    pub symbol: Option<Leaf<Time>>,
    /// Transmissions of a packet or block before it is given up; 8 if absent.
    pub transmissions: Option<Leaf<u32>>,
    /// Time from its first transmission after which a packet or block is given up; `500 ms` if absent.
    pub lifetime: Option<Leaf<Time>>,
    /// The receiver delivers in order, holding back what comes after a gap; true if absent.
    pub in_order: Option<Leaf<bool>>,
    /// Whether the directions contend for the medium; half if absent.
    pub duplex: Option<Leaf<Duplex>>,
    /// Frames of both modems that start less than a slot apart are lost; false if absent.
    pub collisions: Option<Leaf<bool>>,
    /// Packets sent but not acknowledged count towards `queue`; true if absent.
    pub queue_counts_unacknowledged: Option<Leaf<bool>>,
    /// Share of their probability with which impulses hit what is sent in a robust mode; `20 %` if absent.
    pub robust_share: Option<Leaf<Share>>,
    /// Weight of a new frame in the moving average of the share of packets that failed; `6.25 %` if absent.
    pub error_weight: Option<Leaf<Share>>,
    /// Largest number of PHY blocks in an MPDU.
    pub max_pbs: Option<Leaf<u32>>,
    /// Time that host and modem take for a frame, counted once per direction; `1.4 ms` if absent.
    #[schemars(example = "1.4 ms")]
    pub latency: Option<Leaf<Time>>,
    /// Frames that the ring between host and modem holds beside `queue`; 10 if absent.
    pub modem_ring: Option<Leaf<u32>>,
    /// Gap after an exchange; `100 us` if absent.
    pub cifs: Option<Leaf<Time>>,
    /// Preamble and frame control; `110.48 us` if absent.
    pub delimiter: Option<Leaf<Time>>,
    /// Rest after a frame control that could not be decoded; `2920.64 us` if absent.
    pub eifs: Option<Leaf<Time>>,
    /// Whether that rest follows a collision, too; false if absent.
    pub eifs_after_collision: Option<Leaf<bool>>,
    /// Frequency of the mains, two cycles of which are a beacon period; `50 Hz` if absent.
    pub mains: Option<Leaf<Hertz>>,
    /// Beacon region of each beacon period, in which nobody contends; `1 ms` if absent.
    pub beacon: Option<Leaf<Time>>,
    /// Bytes that framing adds to each packet; `18 B` if absent.
    pub frame_overhead: Option<Leaf<Bytes>>,
}
