//! The one module with code that the compiler cannot check: options of packet sockets, packet(7), for which there is no library.
//!
//! **What there is to audit.** [`set`] is the only `unsafe` block. It hands `setsockopt` the address and the size of a value that lives until the call is
//! over. The kernel copies that many bytes at most and keeps no pointer. The types that it is called with here are `c_int` and
//! `packet_mreq`, plain C data without padding, which the kernel expects for these options (linux/if_packet.h).

#![expect(unsafe_code, reason = "no library sets these options; the module is as small as it can be")]

use nix::errno::Errno;
use nix::libc::{
    PACKET_ADD_MEMBERSHIP, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, PACKET_MR_PROMISC, PACKET_VNET_HDR, SOL_PACKET,
    c_int, packet_mreq, setsockopt, socklen_t,
};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// The socket does not receive what its machine sends.
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, PACKET_IGNORE_OUTGOING, &1)
}

/// With each frame comes what the kernel has taken out of it: the VLAN tag.
pub(crate) fn tell_of_tags(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, PACKET_AUXDATA, &1)
}

/// Before each frame there is a header that says what is still to be done to it: linux/virtio_net.h.
pub(crate) fn tell_of_offloads(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, PACKET_VNET_HDR, &1)
}

/// The device with this index takes frames for others, too, until the socket is closed.
pub(crate) fn be_promiscuous(socket: BorrowedFd<'_>, device: usize) -> Result<(), Errno> {
    let request =
        packet_mreq { mr_ifindex: device as c_int, mr_type: PACKET_MR_PROMISC as u16, mr_alen: 0, mr_address: [0; 8] };
    set(socket, PACKET_ADD_MEMBERSHIP, &request)
}

fn set<T: Copy>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> Result<(), Errno> {
    // SAFETY: the pointer and the length are those of `value`, which is borrowed until after the call; the kernel only reads it.
    let done = unsafe {
        setsockopt(
            socket.as_raw_fd(),
            SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as socklen_t,
        )
    };
    Errno::result(done).map(drop)
}
