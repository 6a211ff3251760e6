//! Ethernet addresses of the network.

pub(crate) type Mac = [u8; 6];

/// Source address of datagrams that get their header from the switch, shared by all nodes.
pub(crate) const NETWORK: Mac = [2, 0, 0, 0, 0, 0];

/// Returns a node's locally administered address (IEEE 802 section 8.2.2): its last three bytes are the index plus 1.
pub(crate) fn node_mac(node: usize) -> Mac {
    let [_, high, middle, low] = (node as u32 + 1).to_be_bytes();
    [2, 0, 0, high, middle, low]
}
