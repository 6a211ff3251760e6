//! The only module with code that the compiler cannot check: options of packet(7) and tcp(7) that no library offers.
//!
//! **To audit:** [`set`] and [`get`] contain the only `unsafe` blocks. [`set`] passes `setsockopt` the address and the
//! size of a value that lives until the call returns. The kernel copies at most that many bytes and keeps no pointer.
//! The types used here are `c_int` and `packet_mreq`, plain C data without padding, which the kernel expects for these
//! options (linux/if_packet.h). [`get`] passes `getsockopt` the address and the size of a byte buffer. The kernel
//! writes at most that many bytes and returns the number written.

#![expect(unsafe_code, reason = "no library sets these options; the module is as small as it can be")]

use nix::errno::Errno;
use nix::libc::{
    IPPROTO_TCP, PACKET_ADD_MEMBERSHIP, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, PACKET_MR_PROMISC, PACKET_VNET_HDR,
    SO_MAX_PACING_RATE, SOL_PACKET, SOL_SOCKET, TCP_INFO, TCP_WINDOW_CLAMP, c_int, getsockopt, packet_mreq, setsockopt,
    socklen_t,
};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Hides packets that this machine sends; the socket receives only incoming ones.
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)
}

/// Adds auxiliary data with the removed VLAN tag to each frame.
pub(crate) fn enable_auxdata(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, SOL_PACKET, PACKET_AUXDATA, &1)
}

/// Adds a header with the pending offloads before each frame: linux/virtio_net.h.
pub(crate) fn enable_vnet_header(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, SOL_PACKET, PACKET_VNET_HDR, &1)
}

/// Puts the device with this index into promiscuous mode until the socket is closed.
pub(crate) fn be_promiscuous(socket: BorrowedFd<'_>, device: usize) -> Result<(), Errno> {
    let request =
        packet_mreq { mr_ifindex: device as c_int, mr_type: PACKET_MR_PROMISC as u16, mr_alen: 0, mr_address: [0; 8] };
    set(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request)
}

/// Limits the window that connections of this socket announce.
pub(crate) fn clamp_window(socket: BorrowedFd<'_>, bytes: u32) -> Result<(), Errno> {
    set(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &(bytes as c_int))
}

/// Turns on TCP's internal pacing with the highest limit, 2^32 - 2 B/s; the next value, 2^32 - 1, would leave it off.
pub(crate) fn pace(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &(u32::MAX - 1).cast_signed())
}

/// Returns as much of `struct tcp_info` (linux/tcp.h) as the kernel provides: state and counters of a connection.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 256];
    let length = get(socket, IPPROTO_TCP, TCP_INFO, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    // SAFETY: the pointer and the length belong to `value`, which is borrowed until after the call; the kernel only
    // reads it.
    let done = unsafe {
        setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size_of::<T>() as socklen_t)
    };
    Errno::result(done).map(drop)
}

fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &mut [u8]) -> Result<usize, Errno> {
    let mut length = value.len() as socklen_t;
    // SAFETY: the pointer and the length belong to `value`, which is borrowed until after the call; any bytes are valid
    // in it.
    let done = unsafe { getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &mut length) };
    Errno::result(done).map(|_| length as usize)
}
