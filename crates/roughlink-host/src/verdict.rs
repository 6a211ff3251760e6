//! Decision about a packet that a device received.

/// Decision about a packet that was taken in. Only a netfilter queue can forward a packet on its original path: a
/// packet of any other device has already been taken from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketVerdict {
    /// The caller keeps the packet, or a copy to hand over later.
    Consumed,
    /// The loop hands the packet, with the bytes as the caller changed them, to the kernel at this port.
    Forward(usize),
    /// The kernel forwards the packet as it was.
    Accept,
    /// The kernel drops the packet.
    Drop,
    /// The kernel forwards the packet with the bytes as the caller changed them.
    Replaced,
}
