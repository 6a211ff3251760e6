//! Counts of Ethernet frames without an IP datagram: SLAC, ARP, LLDP and so on.

use roughlink_core::metrics::frames::FrameCount;
use roughlink_core::net::{Crossing, InterfaceDirection, NetworkEvent, Observer};
use roughlink_core::units::Time;
use roughlink_core::wire::ethernet;

/// Frames by EtherType, sender and receiver, in the order of the first frame of each.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    rows: Vec<FrameRow>,
    /// Frames beyond the maximum number of rows.
    others: Option<[u64; 2]>,
}

#[derive(Debug)]
struct FrameRow {
    ethertype: u16,
    /// Sender and receiver.
    nodes: [usize; 2],
    /// Frames sent and delivered.
    counts: [u64; 2],
}

impl Observer for Frames {
    fn observe(&mut self, _: Time, event: NetworkEvent<'_>) {
        if let NetworkEvent::Frame { at, peer, bytes } = event {
            self.count(at, peer, bytes);
        }
    }
}

impl Frames {
    fn count(&mut self, at: Crossing, peer: usize, bytes: &[u8]) {
        let Ok(ethertype) = ethernet::ethertype(bytes) else { return };
        let (nodes, count) = match at.direction {
            InterfaceDirection::Out => ([at.node, peer], 0),
            InterfaceDirection::In => ([peer, at.node], 1),
        };
        let place = self.rows.iter().position(|row| row.ethertype == ethertype && row.nodes == nodes);
        let counts = match place {
            Some(place) => &mut self.rows[place].counts,
            None if self.rows.len() < MAX_ROWS => {
                self.rows.push(FrameRow { ethertype, nodes, counts: [0; 2] });
                &mut self.rows.last_mut().expect("it has just been added").counts
            }
            None => self.others.get_or_insert_default(),
        };
        counts[count] += 1;
    }

    /// Returns the rows, with the names of nodes, and a last row for further frames.
    pub(crate) fn counts(&self, name: impl Fn(usize) -> String) -> Vec<FrameCount> {
        let row = |FrameRow { ethertype, nodes, counts: [sent, delivered] }: &FrameRow| {
            let [from, to] = nodes.map(|node| Some(name(node)));
            FrameCount { protocol: protocol(*ethertype), from, to, sent: *sent, delivered: *delivered }
        };
        let others = self.others.map(|[sent, delivered]| FrameCount {
            protocol: "other".into(),
            from: None,
            to: None,
            sent,
            delivered,
        });
        self.rows.iter().map(row).chain(others).collect()
    }
}

/// Returns the name of an EtherType. Values below 0x600 are lengths (IEEE 802.3 section 3.2.6).
fn protocol(ethertype: u16) -> String {
    match ethertype {
        0..0x0600 => "LLC".into(),
        0x0806 => "ARP".into(),
        0x888e => "EAPOL".into(),
        0x88cc => "LLDP".into(),
        0x88e1 => "HomePlug AV".into(),
        other => format!("{other:#06x}"),
    }
}

/// Maximum number of rows with separate counts: programs may send any EtherType.
const MAX_ROWS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(words: &[u16]) -> Vec<u8> {
        [2; 12].into_iter().chain(words.iter().flat_map(|word| word.to_be_bytes())).chain([0; 46]).collect()
    }

    /// Counts frames from node `from` to node `to`: `sent` ones, of which `delivered` reach the receiver.
    fn pass(frames: &mut Frames, [from, to]: [usize; 2], bytes: &[u8], [sent, delivered]: [u64; 2]) {
        for (node, peer, way, count) in
            [(from, to, InterfaceDirection::Out, sent), (to, from, InterfaceDirection::In, delivered)]
        {
            let at = Crossing { node, hop: 0, direction: way, flow: 0 };
            (0..count).for_each(|_| frames.count(at, peer, bytes));
        }
    }

    fn name(node: usize) -> String {
        format!("n{node}")
    }

    #[test]
    fn frames_are_counted_by_protocol_and_nodes() {
        let mut frames = Frames::default();
        assert_eq!(frames.counts(name), []);
        pass(&mut frames, [0, 1], &frame(&[0x88e1]), [3, 2]);
        pass(&mut frames, [1, 0], &frame(&[0x88e1]), [1, 0]);
        pass(&mut frames, [0, 1], &frame(&[0x8100, 5, 0x88e1]), [1, 1]); // a VLAN tag
        pass(&mut frames, [0, 2], &frame(&[0x0806]), [1, 1]);
        pass(&mut frames, [0, 2], &frame(&[38]), [1, 1]);
        pass(&mut frames, [0, 2], &frame(&[0x0600]), [1, 1]);
        let row = |c: &FrameCount| {
            let [from, to] = [&c.from, &c.to].map(|node| node.clone().unwrap_or_default());
            format!("{} {from}-{to}: {} {}", c.protocol, c.sent, c.delivered)
        };
        let rows: Vec<_> = frames.counts(name).iter().map(row).collect();
        let expected = [
            "HomePlug AV n0-n1: 4 3",
            "HomePlug AV n1-n0: 1 0",
            "ARP n0-n2: 1 1",
            "LLC n0-n2: 1 1",
            "0x0600 n0-n2: 1 1",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn frames_above_the_limit_are_counted_together() {
        let mut frames = Frames::default();
        for ethertype in 0x9000..0x9000 + 2 * MAX_ROWS as u16 {
            pass(&mut frames, [0, 1], &frame(&[ethertype]), [2, 1]);
        }
        pass(&mut frames, [0, 1], &frame(&[0x9000]), [1, 0]);
        let counts = frames.counts(name);
        assert_eq!((counts.len(), counts[0].sent), (MAX_ROWS + 1, 3));
        let most = MAX_ROWS as u64;
        let others = FrameCount { protocol: "other".into(), from: None, to: None, sent: 2 * most, delivered: most };
        assert_eq!(counts[MAX_ROWS], others);
    }
}
