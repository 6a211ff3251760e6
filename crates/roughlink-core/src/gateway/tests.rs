//! Test bench of the gateways, and tests for all of them.

mod flood;
mod forged;
mod hostile;

use super::{FlowKey, Gateway, GatewayError, Heading, Modem, REGISTRY, Segment, SegmentVerdict, build, kind};
use crate::packet::{FlowId, SynOptions, flags};
use crate::units::Time;
use std::collections::BTreeMap;

/// A modem with fixed timings and a content set by the test.
pub(super) struct FakeModem {
    pub limit: u32,
    pub overhead: Time,
    pub sdu: Time,
    pub rejected: f64,
    /// SDUs waiting, and SDUs waiting or unacknowledged.
    pub backlog: BTreeMap<FlowKey, (u32, u32)>,
}

impl Default for FakeModem {
    /// Returns a modem of 18.62 Mbit/s, 1518 bytes per SDU, 0.75 ms per PDU.
    fn default() -> Self {
        FakeModem {
            limit: 31,
            overhead: Time::from_micros(750),
            sdu: Time::from_nanos(652_202),
            rejected: 0.0,
            backlog: BTreeMap::new(),
        }
    }
}

impl Modem for FakeModem {
    fn waiting(&self, key: &FlowKey) -> u32 {
        self.backlog.get(key).map_or(0, |b| b.0)
    }
    fn backlog(&self, key: &FlowKey) -> u32 {
        self.backlog.get(key).map_or(0, |b| b.1)
    }
    fn total_backlog(&self) -> u32 {
        self.backlog.values().map(|b| b.1).sum()
    }
    fn cycle_time(&self, sdus: u32) -> Time {
        self.overhead.saturating_add(Time(self.sdu.0.saturating_mul(u64::from(sdus))))
    }
    fn max_sdus(&self) -> u32 {
        self.limit
    }
    fn rejected(&self) -> f64 {
        self.rejected
    }
}

pub(super) fn key_of(flow: u32) -> FlowKey {
    FlowKey::new(FlowId::new(flow, false))
}

/// A gateway, a modem, and connections opened by clients inside.
pub(super) struct GatewayBench<G> {
    pub gateway: G,
    pub modem: FakeModem,
    pub now: Time,
    /// Next sequence numbers of server and client, by flow.
    next: BTreeMap<u32, [u32; 2]>,
    pub options: SynOptions,
}

impl<G: Gateway> GatewayBench<G> {
    pub(super) fn new(gateway: G) -> Self {
        GatewayBench {
            gateway,
            modem: FakeModem::default(),
            now: Time::ZERO,
            next: BTreeMap::new(),
            options: SynOptions { mss: 1460, ..SynOptions::default() },
        }
    }
    pub(super) fn segment(&self, flow: u32, heading: Heading) -> Segment {
        let [server, client] = self.next[&flow];
        let key = key_of(flow);
        let (key, seq, ack) = match heading {
            Heading::Inward => (key, server, client),
            Heading::Outward => (key.reversed(), client, server),
        };
        Segment { seq, ack, flags: flags::ACK, window: 60_000, ..Segment::new(key) }
    }
    pub(super) fn pass(&mut self, heading: Heading, s: Segment) -> Segment {
        let mut s = s;
        assert_eq!(self.gateway.receive(self.now, heading, &mut s, Some(&self.modem)), SegmentVerdict::Accept);
        s
    }
    pub(super) fn syn(&mut self, flow: u32) {
        self.next.insert(flow, [5_000, 1_000 + flow]);
        let s = Segment { ack: 0, flags: flags::SYN, syn: Some(self.options), ..self.segment(flow, Heading::Outward) };
        self.pass(Heading::Outward, s);
    }
    pub(super) fn syn_ack(&mut self, flow: u32) {
        let s = self.segment(flow, Heading::Inward);
        let s = Segment { ack: s.ack + 1, flags: flags::SYN | flags::ACK, syn: Some(self.options), ..s };
        self.pass(Heading::Inward, s);
    }
    pub(super) fn third(&mut self, flow: u32) {
        self.next.get_mut(&flow).unwrap().iter_mut().for_each(|n| *n += 1);
        self.ack(flow, 60_000);
    }
    pub(super) fn open(&mut self, flow: u32, ms: u64) {
        self.syn(flow);
        self.wait(ms);
        self.syn_ack(flow);
        self.third(flow);
    }
    pub(super) fn data(&mut self, flow: u32, n: u32) {
        for _ in 0..n {
            let s = Segment { payload: 1460, ..self.segment(flow, Heading::Inward) };
            self.pass(Heading::Inward, s);
            self.next.get_mut(&flow).unwrap()[0] += 1460;
        }
    }
    /// Lets `n` bytes from the server take another path.
    pub(super) fn skip(&mut self, flow: u32, n: u32) {
        self.next.get_mut(&flow).unwrap()[0] += n;
    }
    /// Passes an acknowledgment of everything to the server. Returns the window that the gateway leaves in it.
    pub(super) fn ack(&mut self, flow: u32, window: u16) -> u16 {
        let s = Segment { window, ..self.segment(flow, Heading::Outward) };
        self.pass(Heading::Outward, s).window
    }
    pub(super) fn fin(&mut self, flow: u32, heading: Heading) {
        let s = self.segment(flow, heading);
        self.pass(heading, Segment { flags: s.flags | flags::FIN, ..s });
        self.next.get_mut(&flow).unwrap()[heading as usize] += 1;
        let s = self.segment(flow, heading.opposite());
        self.pass(heading.opposite(), s);
    }
    pub(super) fn wait(&mut self, ms: u64) {
        self.now += Time::from_millis(ms);
    }
}

#[test]
fn example_on_the_page_is_the_compiled_one() {
    let page = include_str!("../../../../docs/how-to/adding-a-gateway.md");
    assert!(
        page.contains(include_str!("../../examples/own_gateway.rs")),
        "paste examples/own_gateway.rs into the page"
    );
}

#[test]
fn every_entry_builds_and_has_a_schema() {
    for entry in REGISTRY.iter() {
        assert_eq!(kind(entry.name).unwrap().name, entry.name, "names are unique");
        assert!(entry.build(&toml::Table::new()).is_ok(), "{entry:?}");
        let schema = entry.schema();
        for key in entry.parameters().keys() {
            assert!(schema.get("properties").is_some_and(|p| p.get(key).is_some()), "{entry:?} {key}");
        }
    }
    assert_eq!(kind("mizutani").unwrap().parameters()["scheme"].as_str(), Some("mizutani"));
}

#[test]
fn invalid_values_are_refused() {
    assert_eq!(build("munitz", "").unwrap_err(), GatewayError::UnknownKind("munitz".into()));
    let e = build("muniz", "flor = 3").unwrap_err();
    assert!(matches!(e, GatewayError::UnknownParameter { ref key, .. } if key == "flor"), "{e}");
    for (name, params) in [
        ("muniz", "table = { capcity = 3 }"),
        ("muniz", "table = { min_rtt_ms = 0 }"),
        ("muniz", "table = { capacity = 0 }"),
        ("avoca-rx", "table = { capacity = 65537 }"),
        ("muniz", "scheme = \"mizutani\""),
        ("mizutani", "scheme = \"muniz\""),
        ("muniz", "floor = 0.5"),
        ("mizutani", "floor = nan"),
        ("muniz", "scheme = \"best\""),
        ("muniz", "max_rho = 1000"),
        ("avoca-rx", "rss_threshold_dbm = nan"),
        ("avoca-rx", "table = { idle_ms = 0 }"),
    ] {
        let e = build(name, params).unwrap_err();
        assert!(matches!(e, GatewayError::Parameter { .. }), "{params}: {e}");
    }
    assert!(build("muniz", "floor = 3\ntable = { capacity = 7 }").is_ok());
    assert!(build("mizutani", "scheme = \"fixed\"").is_ok());
    for (params, words) in [
        ("floor = \"2\"", "string \"2\", expected a number, in `floor`"),
        ("table = { capacity = -1 }", "expected a whole number of 0 or more, in `table.capacity`"),
    ] {
        let e = build("muniz", params).unwrap_err().to_string();
        assert!(e.ends_with(words), "{e}");
    }
}
