//! Modems on charging cables and their network, the AVLN: keys, membership and management messages.
//!
//! A modem stands between a host and its cables. CM_SET_KEY and vendor-specific messages of the host end at the modem.
//! Other management messages cross the cables, among them SLAC's (ISO 15118-3 annex A). After each
//! CM_MNBC_SOUND.IND the receiving modem sends CM_ATTEN_PROFILE.IND to its host, with the attenuation of the link.
//!
//! All further frames need an AVLN. Two modems are members of the same AVLN if they have the same network identifier
//! (NID) and membership key (NMK), after a delay of
//! [`GreenPhyConfig::join`](crate::link::greenphy::GreenPhyConfig::join).
//!
//! Only hosts that exchange Ethernet frames with the network have a modem ([`HostInterface`]).
//!
//! A modem has no key until its host sets one: real modems start with a key that differs from all others. Not modeled:
//! encryption, the election of a coordinator, and requests for keys.

use crate::link::{Model, SharedConfig};
use crate::scenario::{HostInterface, LinkSpec, Scenario};
use crate::units::Time;
use crate::wire::homeplug::{MacAddress, ManagementMessage, QUALCOMM, SetKey, attenuation_profile, name, types};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Modems of the hosts of a network, numbered by the ports of the hosts.
#[derive(Debug)]
pub struct Modems {
    modems: Vec<Option<CableModem>>,
    /// Cables between the modems at two ports, lower port first.
    cables: BTreeMap<[usize; 2], ModemCable>,
    /// Time from equal keys to the first frame.
    join: Time,
    /// Frames for hosts.
    ready: VecDeque<(usize, Vec<u8>)>,
    joined: Vec<NetworkStay>,
}

/// Cable between two modems.
#[derive(Clone, Debug)]
struct ModemCable {
    attenuation_db: u8,
    /// Periods in which it is unplugged, in order.
    unplugged: Vec<[Time; 2]>,
}

#[derive(Clone, Debug, Default)]
struct CableModem {
    address: MacAddress,
    /// Source of the host's last management message.
    host: MacAddress,
    /// Network identifier and membership key, and the time from which the modem has used them.
    key: Option<([u8; 7], [u8; 16])>,
    since: Time,
    /// True if cables are the only links of the host.
    only_cables: bool,
    /// Frames dropped because the modems at both ends were not in the same AVLN.
    unjoined: u64,
    /// Source and run identifier of the last CM_START_ATTEN_CHAR.IND for the host.
    announced: Option<(MacAddress, [u8; 8])>,
    /// Messages by name, from the host and to the host.
    messages: BTreeMap<&'static str, [u64; 2]>,
}

/// Time during which two modems were members of the same AVLN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NetworkStay {
    ports: [usize; 2],
    /// Time at which data passes.
    from: Time,
    /// Time at which a modem left.
    until: Option<Time>,
}

/// Result of a modem.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModemReport {
    /// Node of the modem's host.
    pub node: String,
    /// Members of the same AVLN, in order of time.
    pub joined: Vec<JoinReport>,
    /// Copies of the host's frames that were dropped because the other modem was not a member of the same AVLN.
    pub unjoined: u64,
    /// Counts of management messages by name.
    pub messages: BTreeMap<&'static str, MessageCount>,
}

/// Stay of two modems in the same AVLN.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinReport {
    /// Node of the other modem.
    pub peer: String,
    /// Time at which data began to pass, seconds.
    pub from_s: f64,
    /// Time at which one of the modems left, seconds; null if both are still members.
    pub until_s: Option<f64>,
}

/// Count of one kind of management message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MessageCount {
    /// Messages from the host to the modem.
    pub from_host: u64,
    /// Messages from the modem to the host.
    pub to_host: u64,
}

impl Modems {
    /// Creates the modems of the hosts at `nodes`, one node per port. A host has a modem if it is at a Green PHY link
    /// with an attenuation.
    pub fn new(scenario: &Scenario, nodes: &[usize]) -> Self {
        let mut modems = vec![None; nodes.len()];
        let (mut cables, mut join) = (BTreeMap::<_, ModemCable>::new(), Time::ZERO);
        for link in &scenario.links {
            let Some((own, delay)) = cable(link) else { continue };
            join = join.max(delay);
            let ports = [link.between.0, link.between.1].map(|node| nodes.iter().position(|n| *n == node));
            let has_frames = |port: &usize| scenario.nodes[nodes[*port]].interface != HostInterface::Ip;
            for port in ports.into_iter().flatten().filter(has_frames) {
                let [.., high, low] = (nodes[port] as u32 + 1).to_be_bytes();
                let address = [0x02, 0xb0, 0x52, 0, high, low];
                modems[port] =
                    Some(CableModem { address, host: [0xff; 6], only_cables: true, ..CableModem::default() });
            }
            if let [Some(a), Some(b)] = ports {
                let best = cables.entry(ordered([a, b])).or_insert_with(|| own.clone());
                if own.attenuation_db < best.attenuation_db {
                    *best = own;
                }
            }
        }
        for link in scenario.links.iter().filter(|link| cable(link).is_none()) {
            for (modem, node) in modems.iter_mut().zip(nodes) {
                if let Some(modem) = modem {
                    modem.only_cables &= ![link.between.0, link.between.1].contains(node);
                }
            }
        }
        Modems { modems, cables, join, ready: VecDeque::new(), joined: Vec::new() }
    }

    /// Receives a frame from the host at `port`. Returns true if its modem handles the frame, which then goes no
    /// further.
    pub fn receive(&mut self, now: Time, port: usize, frame: &[u8]) -> bool {
        let Some(modem) = &mut self.modems[port] else { return false };
        let Some(message) = ManagementMessage::read(frame) else { return false };
        modem.host = message.from;
        modem.count(message.kind, 0);
        let entry = match message.kind {
            types::CM_SET_KEY => {
                let key = SetKey::read(message.entry).map(|key| (key.nid, key.nmk));
                // The nonce only has to be the modem's: nothing is encrypted with it.
                let nonce = *modem.address.last_chunk().expect("an address has six bytes");
                if key.is_some() && key != modem.key {
                    modem.key = key;
                    self.rejoin(now, port);
                }
                SetKey::confirm(message.entry, u8::from(key.is_none()), nonce)
            }
            kind if kind >= types::VENDOR && !message.entry.starts_with(&QUALCOMM) => return true,
            types::VS_SW_VER => {
                let members: Vec<usize> = (0..self.modems.len()).filter(|&p| self.is_joined(now, [port, p])).collect();
                // The request crosses the AVLN, and every member answers.
                for member in members {
                    self.answer(member, port, message, software_version());
                }
                software_version()
            }
            types::VS_RS_DEV => {
                self.rejoin(now, port);
                [&QUALCOMM[..], &[0]].concat()
            }
            types::VS_OP_ATTRIBUTES => attributes(message.entry),
            types::VS_LNK_STATUS => [&QUALCOMM[..], &[0, u8::from(self.is_online(now, port))]].concat(),
            // Confirmations and types that this modem does not have stay without an answer.
            kind if kind >= types::VENDOR => return true,
            _ => return false,
        };
        self.answer(port, port, message, entry);
        true
    }

    /// Notes a management message that arrives for the host at `port` from the host at `from`. Queues the attenuation
    /// after a sound. Returns false if the frame ends at the modem. Vehicles repeat CM_START_ATTEN_CHAR.IND, and
    /// Qualcomm's modems pass on only the first of a run; pySLAC relies on this.
    pub fn deliver(&mut self, from: usize, port: usize, frame: &[u8]) -> bool {
        let Some(modem) = &mut self.modems[port] else { return true };
        let Some(message) = ManagementMessage::read(frame) else { return true };
        match message.kind {
            types::CM_SLAC_PARM => modem.announced = None,
            START_ATTEN_CHAR => {
                let run = message.entry.get(RUN_AT..).and_then(|rest| rest.first_chunk());
                let run = run.map(|run| (message.from, *run));
                if std::mem::replace(&mut modem.announced, run) == run {
                    return false;
                }
            }
            _ => {}
        }
        modem.count(message.kind, 1);
        let attenuation = self.cables.get(&ordered([from, port])).map(|cable| cable.attenuation_db);
        if let (Some(db), true) = (attenuation, message.kind == types::CM_MNBC_SOUND + types::IND) {
            let entry = attenuation_profile(message.from, db);
            self.send(port, port, (1, types::CM_ATTEN_PROFILE + types::IND), &entry);
        }
        true
    }

    /// Returns true if the host at `port` has a modem.
    pub fn has_modem(&self, port: usize) -> bool {
        self.modems[port].is_some()
    }

    /// Returns true if a frame from the host at the first port passes to the host at the second; counts it otherwise.
    pub fn pass(&mut self, now: Time, ports: [usize; 2], frame: &[u8]) -> bool {
        let is_management = || ManagementMessage::read(frame).is_some();
        let passes = match ports.map(|port| self.has_modem(port)) {
            [true, true] if is_management() => return self.plugged_since(now, ports).is_some(),
            [true, true] => self.is_joined(now, ports),
            _ => ports.into_iter().all(|port| self.is_open(now, port)),
        };
        if let (false, Some(modem)) = (passes, &mut self.modems[ports[0]]) {
            modem.unjoined += 1;
        }
        passes
    }

    /// Returns true if datagrams between the host at `port` and simulated nodes pass.
    pub fn is_open(&self, now: Time, port: usize) -> bool {
        self.modems[port].as_ref().is_none_or(|modem| !modem.only_cables) || self.is_online(now, port)
    }

    /// Returns the next frame for a host, and its port.
    pub fn transmit(&mut self) -> Option<(usize, Vec<u8>)> {
        self.ready.pop_front()
    }

    /// Returns the results of all modems; `name` returns the name of the node at a port.
    pub fn reports(&self, now: Time, name: impl Fn(usize) -> String) -> Vec<ModemReport> {
        let report = |(port, modem): (usize, &Option<CableModem>)| {
            let count = |(kind, [from_host, to_host]): (&&'static str, &[u64; 2])| {
                (*kind, MessageCount { from_host: *from_host, to_host: *to_host })
            };
            let stays = self.joined.iter().filter(|m| m.ports.contains(&port)).flat_map(|m| self.plugged_stays(now, m));
            let joined = stays.map(|m| JoinReport {
                peer: name(if m.ports[0] == port { m.ports[1] } else { m.ports[0] }),
                from_s: m.from.as_secs_f64(),
                until_s: m.until.map(Time::as_secs_f64),
            });
            let modem = modem.as_ref()?;
            let messages = modem.messages.iter().map(count).collect();
            Some(ModemReport { node: name(port), joined: joined.collect(), unjoined: modem.unjoined, messages })
        };
        self.modems.iter().enumerate().filter_map(report).collect()
    }

    /// Returns the parts of a stay that began by `now` and in which the cable was plugged in.
    fn plugged_stays(&self, now: Time, stay: &NetworkStay) -> Vec<NetworkStay> {
        let (end, ports) = (stay.until.unwrap_or(now), stay.ports);
        let mut parts = Vec::new();
        let mut from = stay.from;
        for &[unplugged, plugged] in self.cables.get(&ports).map_or(&[][..], |cable| &cable.unplugged) {
            if unplugged >= end {
                break;
            }
            if from < unplugged {
                parts.push(NetworkStay { ports, from, until: Some(unplugged) });
            }
            from = from.max(plugged + self.join);
        }
        if from <= end {
            parts.push(NetworkStay { ports, from, until: stay.until });
        }
        parts
    }

    /// Ends all stays of a modem. Begins a stay with each modem that has the same key now.
    fn rejoin(&mut self, now: Time, port: usize) {
        let Some(modem) = &mut self.modems[port] else { return };
        modem.since = now;
        self.joined.retain_mut(|m| {
            if m.ports.contains(&port) && m.until.is_none() {
                m.until = Some(now);
            }
            m.from <= m.until.unwrap_or(Time::MAX)
        });
        for peer in 0..self.modems.len() {
            let ports = ordered([port, peer]);
            if self.have_same_key(ports) && self.joined.len() < MAX_JOINED {
                self.joined.push(NetworkStay { ports, from: now + self.join, until: None });
            }
        }
    }

    /// Returns the time since which the cable between two modems has been plugged in; `None` without one.
    fn plugged_since(&self, now: Time, ports: [usize; 2]) -> Option<Time> {
        let cable = self.cables.get(&ordered(ports))?;
        match cable.unplugged.partition_point(|[from, _]| *from <= now) {
            0 => Some(Time::ZERO),
            n => Some(cable.unplugged[n - 1][1]).filter(|plugged| *plugged <= now),
        }
    }

    fn have_same_key(&self, ports: [usize; 2]) -> bool {
        let [a, b] = ports.map(|port| self.modems[port].as_ref().and_then(|modem| modem.key));
        self.cables.contains_key(&ordered(ports)) && a.is_some() && a == b
    }

    fn is_joined(&self, now: Time, ports: [usize; 2]) -> bool {
        let Some(plugged) = self.plugged_since(now, ports) else { return false };
        let keys = ports.iter().filter_map(|&port| self.modems[port].as_ref()).map(|modem| modem.since);
        // A cable that was always plugged in was so before any key.
        self.have_same_key(ports) && keys.chain([plugged]).max().is_some_and(|since| now >= since + self.join)
    }

    /// Returns true if the modem at `port` is in the AVLN of another modem.
    fn is_online(&self, now: Time, port: usize) -> bool {
        (0..self.modems.len()).any(|peer| self.is_joined(now, [port, peer]))
    }

    /// Queues the confirmation of the modem at `modem` to a request of the host at `port`.
    fn answer(&mut self, modem: usize, port: usize, request: ManagementMessage<'_>, entry: Vec<u8>) {
        self.send(modem, port, (request.version, request.kind + types::CNF), &entry);
    }

    fn send(&mut self, modem: usize, port: usize, (version, kind): (u8, u16), entry: &[u8]) {
        let Some(from) = self.modems[modem].as_ref().map(|modem| modem.address) else { return };
        let Some(modem) = &mut self.modems[port] else { return };
        modem.count(kind, 1);
        self.ready.push_back((port, ManagementMessage { to: modem.host, from, version, kind, entry }.to_frame()));
    }
}

impl CableModem {
    /// Counts a message from the host (0) or to the host (1).
    fn count(&mut self, kind: u16, direction: usize) {
        self.messages.entry(name(kind).unwrap_or("other")).or_default()[direction] += 1;
    }
}

/// Returns a charging cable with modems, and the time that they take to join.
fn cable(link: &LinkSpec) -> Option<(ModemCable, Time)> {
    let Model::Shared(SharedConfig::GreenPhy(config)) = &link.model else { return None };
    // The first list is the link's own, also in the first link of a shared cable.
    let unplugged = config.unplugged.first().cloned().unwrap_or_default();
    Some((ModemCable { attenuation_db: config.attenuation_db?, unplugged }, config.join))
}

/// Returns the ports in the order in which pairs are stored.
fn ordered([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

/// Returns the entry of VS_SW_VER.CNF: success, a QCA7000, and the version as text.
fn software_version() -> Vec<u8> {
    const VERSION: &[u8] = b"roughlink modem model";
    let mut entry = [&QUALCOMM[..], &[0, QCA7000, VERSION.len() as u8], VERSION].concat();
    entry.resize(QUALCOMM.len() + 3 + 64, 0);
    entry
}

/// Returns the entry of VS_OP_ATTRIBUTES.CNF with the cookie of the request: a binary report without versions, and
/// mains of 50 Hz with detected zero crossings.
fn attributes(request: &[u8]) -> Vec<u8> {
    let mut report = [0; 118];
    report[..16].copy_from_slice(b"roughlink model\0");
    report[LINE_FREQUENCY] = 0b0101;
    let cookie: [u8; 4] = request.get(3..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    [&QUALCOMM[..], &[0, 0], &cookie, &[0], &(report.len() as u16).to_le_bytes(), &report].concat()
}

const START_ATTEN_CHAR: u16 = types::CM_START_ATTEN_CHAR + types::IND;
/// Place of the run identifier in CM_START_ATTEN_CHAR.IND.
const RUN_AT: usize = 11;
/// Device class of the QCA7000 in VS_SW_VER.CNF.
const QCA7000: u8 = 0x22;
/// Place of frequency and zero crossings in the report of attributes.
const LINE_FREQUENCY: usize = 16 + 16 + 5 * 4 + 8 + 12 + 2;
/// Maximum number of stays in a report: hosts can set keys without end.
const MAX_JOINED: usize = 1024;

#[cfg(test)]
mod tests;
