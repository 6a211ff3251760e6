//! Messages and attributes of netlink(7).

/// Splits off the first message: type, content, and the rest.
pub(crate) fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let body = bytes.get(MESSAGE_HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Splits off the first attribute in the same way.
pub(crate) fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let &[low, high, kind, flags, ..] = bytes else { return None };
    let length = usize::from(u16::from_ne_bytes([low, high]));
    let value = bytes.get(ATTRIBUTE_HEADER..length)?;
    let kind = u16::from_ne_bytes([kind, flags]) & TYPE_MASK;
    Some((kind, value, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Sizes of headers, bytes.
pub(crate) const MESSAGE_HEADER: usize = 16;
pub(crate) const ATTRIBUTE_HEADER: usize = 4;
/// Type of an attribute without flags (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;
