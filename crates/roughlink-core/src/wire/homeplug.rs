//! Management messages of HomePlug AV 1.1 and Green PHY 1.1 (EtherType 0x88E1), as far as a modem answers them.
//!
//! After the EtherType a message has its version (MMV) and its type (MMTYPE, little-endian). In version 1, two bytes of
//! fragmentation follow, in version 0 nothing. Then comes the entry. The two low bits of a type are 0 for a request, 1
//! for a confirmation, 2 for an indication, and 3 for a response.
//!
//! ```
//! use roughlink_core::wire::homeplug::{ManagementMessage, name};
//!
//! let sent = ManagementMessage { to: [0xff; 6], from: [2; 6], version: 1, kind: 0x6064, entry: &[0; 10] };
//! let frame = sent.to_frame();
//! let message = ManagementMessage::read(&frame).unwrap();
//! assert_eq!((message.kind, name(message.kind)), (0x6064, Some("CM_SLAC_PARM.REQ")));
//! ```

use super::ethernet;

/// Ethernet address.
pub type MacAddress = [u8; 6];

/// EtherType of management messages.
pub const ETHERTYPE: u16 = 0x88e1;
/// Organization of Qualcomm's vendor-specific messages, at the start of their entries.
pub const QUALCOMM: [u8; 3] = [0x00, 0xb0, 0x52];
/// Shortest Ethernet frame without check sequence, bytes.
const MIN_FRAME: usize = 60;

/// Management message in an Ethernet frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManagementMessage<'a> {
    /// Destination of the frame.
    pub to: MacAddress,
    /// Source of the frame.
    pub from: MacAddress,
    /// Version (MMV): 0 for HomePlug AV 1.0, 1 for HomePlug AV 1.1 and Green PHY.
    pub version: u8,
    /// Type (MMTYPE).
    pub kind: u16,
    /// Content after the header, with the padding of the frame.
    pub entry: &'a [u8],
}

impl<'a> ManagementMessage<'a> {
    /// Reads a message; `None` for other frames, unknown versions and frames that end within the header.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let at = ethernet::payload_offset(frame).ok()?;
        if ethernet::ethertype(frame) != Ok(ETHERTYPE) {
            return None;
        }
        let (to, rest) = frame.split_first_chunk()?;
        let from = rest.first_chunk()?;
        let ([version, low, high], rest) = frame[at..].split_first_chunk()?;
        let entry = match version {
            0 => rest,
            1 => rest.get(2..)?,
            _ => return None,
        };
        Some(ManagementMessage {
            to: *to,
            from: *from,
            version: *version,
            kind: u16::from_le_bytes([*low, *high]),
            entry,
        })
    }

    /// Writes the message as a frame of at least 60 bytes.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = [&self.to[..], &self.from, &ETHERTYPE.to_be_bytes(), &[self.version]].concat();
        frame.extend(self.kind.to_le_bytes());
        if self.version > 0 {
            frame.extend([0, 0]);
        }
        frame.extend(self.entry);
        frame.resize(frame.len().max(MIN_FRAME), 0);
        frame
    }
}

/// Types of messages. `REQ`, `CNF`, `IND` and `RSP` are added to them.
pub mod types {
    /// Sets the network key of the modem.
    pub const CM_SET_KEY: u16 = 0x6008;
    /// Starts a matching run of SLAC.
    pub const CM_SLAC_PARM: u16 = 0x6064;
    /// Announces sounds.
    pub const CM_START_ATTEN_CHAR: u16 = 0x6068;
    /// Sends the mean attenuation of all sounds to the vehicle.
    pub const CM_ATTEN_CHAR: u16 = 0x606c;
    /// Sound, whose attenuation receivers measure.
    pub const CM_MNBC_SOUND: u16 = 0x6074;
    /// Validates a match by the control pilot.
    pub const CM_VALIDATE: u16 = 0x6078;
    /// Matches the vehicle with a station, whose key it gets.
    pub const CM_SLAC_MATCH: u16 = 0x607c;
    /// Attenuation of one sound, from a modem to its host.
    pub const CM_ATTEN_PROFILE: u16 = 0x6084;
    /// Qualcomm: software version of a modem.
    pub const VS_SW_VER: u16 = 0xa000;
    /// Qualcomm: restart of the modem.
    pub const VS_RS_DEV: u16 = 0xa01c;
    /// Qualcomm: attributes of the modem.
    pub const VS_OP_ATTRIBUTES: u16 = 0xa068;
    /// Qualcomm: state of the link to other modems.
    pub const VS_LNK_STATUS: u16 = 0xa0b8;
    /// First vendor-specific type.
    pub const VENDOR: u16 = 0xa000;
    /// Confirmation.
    pub const CNF: u16 = 1;
    /// Indication.
    pub const IND: u16 = 2;
    /// Response.
    pub const RSP: u16 = 3;
}

/// Returns the name of a type, if it belongs to SLAC or to a modem.
pub const fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x6008 => "CM_SET_KEY.REQ",
        0x6009 => "CM_SET_KEY.CNF",
        0x6064 => "CM_SLAC_PARM.REQ",
        0x6065 => "CM_SLAC_PARM.CNF",
        0x606a => "CM_START_ATTEN_CHAR.IND",
        0x606e => "CM_ATTEN_CHAR.IND",
        0x606f => "CM_ATTEN_CHAR.RSP",
        0x6076 => "CM_MNBC_SOUND.IND",
        0x6078 => "CM_VALIDATE.REQ",
        0x6079 => "CM_VALIDATE.CNF",
        0x607c => "CM_SLAC_MATCH.REQ",
        0x607d => "CM_SLAC_MATCH.CNF",
        0x6086 => "CM_ATTEN_PROFILE.IND",
        0xa000 => "VS_SW_VER.REQ",
        0xa001 => "VS_SW_VER.CNF",
        0xa01c => "VS_RS_DEV.REQ",
        0xa01d => "VS_RS_DEV.CNF",
        0xa068 => "VS_OP_ATTRIBUTES.REQ",
        0xa069 => "VS_OP_ATTRIBUTES.CNF",
        0xa0b8 => "VS_LNK_STATUS.REQ",
        0xa0b9 => "VS_LNK_STATUS.CNF",
        _ => return None,
    })
}

/// Content of CM_SET_KEY.REQ (HomePlug AV 1.1 section 11.5.4), as ISO 15118-3 table A.8 uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetKey {
    /// Nonce of the host.
    pub nonce: [u8; 4],
    /// Protocol, its run and its message number: PID, PRN and PMN.
    pub protocol: [u8; 4],
    /// Network identifier.
    pub nid: [u8; 7],
    /// Network membership key.
    pub nmk: [u8; 16],
}

impl SetKey {
    /// Reads the entry; `None` if it is too short or does not set a membership key in the clear.
    pub fn read(entry: &[u8]) -> Option<Self> {
        let (key_type, nonce) = (*entry.first()?, *entry.get(1..)?.first_chunk()?);
        let protocol = *entry.get(9..)?.first_chunk()?;
        // Byte 13 is the capability as coordinator.
        let nid = *entry.get(14..)?.first_chunk()?;
        let (key_select, nmk) = (*entry.get(21)?, *entry.get(22..)?.first_chunk()?);
        (key_type == NMK && key_select == NMK).then_some(SetKey { nonce, protocol, nid, nmk })
    }

    /// Returns the entry of CM_SET_KEY.CNF with this result: 0 is success, 1 is failure.
    pub fn confirm(entry: &[u8], result: u8, nonce: [u8; 4]) -> Vec<u8> {
        let mut confirmed = vec![result];
        confirmed.extend(nonce);
        // Nonce of the host, then its protocol and the capability as coordinator.
        for range in [1..5, 9..14] {
            confirmed.extend(range.map(|i| entry.get(i).copied().unwrap_or_default()));
        }
        confirmed
    }
}

/// Returns the entry of CM_ATTEN_PROFILE.IND (ISO 15118-3 table A.4): the attenuation of `vehicle`'s sound, in dB, in
/// each of the 58 groups of carriers.
pub fn attenuation_profile(vehicle: MacAddress, attenuation_db: u8) -> Vec<u8> {
    let mut entry = vehicle.to_vec();
    entry.extend([GROUPS as u8, 0]);
    entry.extend([attenuation_db; GROUPS]);
    entry
}

/// Groups of carriers in an attenuation profile.
pub const GROUPS: usize = 58;
/// Type of a membership key, and its number as the key that protects a message.
const NMK: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// CM_SET_KEY.REQ as pySLAC 0.8.3 and EVerest write it.
    fn set_key() -> Vec<u8> {
        let mut entry = vec![1, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0, 0, 4, 0, 0, 0, 0];
        entry.extend([7; 7]);
        entry.push(1);
        entry.extend([9; 16]);
        entry
    }

    #[test]
    fn versions_differ_by_fragmentation() {
        for (version, header) in [(0, 17), (1, 19)] {
            let entry = [0x00, 0xb0, 0x52];
            let sent =
                ManagementMessage { to: [1; 6], from: [2; 6], version, kind: types::VS_LNK_STATUS, entry: &entry };
            let frame = sent.to_frame();
            assert_eq!((frame.len(), &frame[header..header + 3]), (60, &entry[..]));
            let read = ManagementMessage::read(&frame).unwrap();
            assert_eq!((read.to, read.from, read.kind), (sent.to, sent.from, sent.kind));
            for length in 0..header {
                assert_eq!(ManagementMessage::read(&frame[..length]), None);
            }
        }
    }

    #[test]
    fn keys_are_read_only_from_whole_requests() {
        let entry = set_key();
        let key = SetKey::read(&entry).unwrap();
        assert_eq!((key.nid, key.nmk, key.nonce), ([7; 7], [9; 16], [0xaa; 4]));
        for length in 0..entry.len() {
            assert_eq!(SetKey::read(&entry[..length]), None, "{length}");
        }
        let encrypted = [&entry[..21], &[2], &entry[22..]].concat();
        assert_eq!(SetKey::read(&encrypted), None);
        let confirmed = SetKey::confirm(&entry, 0, [5; 4]);
        assert_eq!(confirmed, [0, 5, 5, 5, 5, 0xaa, 0xaa, 0xaa, 0xaa, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn names_cover_what_a_modem_handles() {
        assert_eq!(name(types::CM_ATTEN_PROFILE + types::IND), Some("CM_ATTEN_PROFILE.IND"));
        assert_eq!(name(types::VS_OP_ATTRIBUTES + types::CNF), Some("VS_OP_ATTRIBUTES.CNF"));
        assert_eq!(name(0x6000), None);
    }
}
