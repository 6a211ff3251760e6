//! Gateways in a network: a full power line with a short queue, and a transfer that resumes immediately after a tunnel.

use roughlink_core::cc::LinkEvent;
use roughlink_core::net::{InterfaceDirection, Network, NetworkEvent, Observer, RunOptions};
use roughlink_core::packet::Fragment;
use roughlink_core::scenario::{Notices, Scenario};
use roughlink_core::units::Time;

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn parse(text: &str) -> Scenario {
    let load = |name: &str| Err(format!("there is no `{name}`"));
    roughlink_scenario::parse(text, "t.toml", &[], &load).map(|(s, _)| s).unwrap_or_else(|e| panic!("{e}"))
}

/// Creates downloads from servers `rtts` ms away that start 5 s after one another, over a power line without errors.
fn home(cc: &str, gateway: &str, rtts: &[u64]) -> Scenario {
    let mut text = format!(
        "duration = \"60 s\"\ntcp = {{ cc = \"{cc}\" }}\n\
         node = [{{ name = \"modem\" }}, {{ name = \"house\" }}{}]\n\
         gateway = [{{ node = \"modem\", kind = \"{gateway}\" }}]\n\
         [[link]]\nname = \"plc\"\nkind = \"hdplc\"\nbetween = [\"modem\", \"house\"]\nqueue = \"256 pkt\"\n\
         noise = {{ kind = \"clean\" }}\nmac = {{ duplex = \"full\" }}\n",
        (0..rtts.len()).map(|i| format!(", {{ name = \"s{i}\" }}")).collect::<String>()
    );
    for (i, rtt) in rtts.iter().enumerate() {
        text += &format!(
            "[[link]]\nname = \"l{i}\"\nbetween = [\"s{i}\", \"modem\"]\nrate = \"1 Gbit/s\"\ndelay = \"{} ms\"\n\
             queue = \"10000 pkt\"\n[[flow]]\nname = \"f{i}\"\nkind = \"bulk\"\nfrom = \"s{i}\"\nto = \"house\"\n\
             start = \"{} s\"\n",
            rtt / 2,
            5 * i
        );
    }
    parse(&text)
}

/// Returns bytes delivered from 20 s to 60 s, mean queue and drops at the modem, and timeouts.
fn share(scenario: Scenario) -> (Vec<f64>, f64, u64, u64) {
    let mut network = Network::new(scenario, RunOptions::default()).unwrap();
    network.wake(Time::from_secs(20));
    let before = network.result();
    let after = network.run().unwrap();
    let flows = before.flows.iter().zip(&after.flows);
    let rates = flows.map(|(b, a)| (a.delivered_bytes - b.delivered_bytes) as f64).collect();
    let plc = after.links[0].forward;
    (rates, plc.queue_mean_pkt, plc.dropped, after.flows.iter().map(|f| f.timeouts).sum())
}

fn jain(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().sum();
    sum * sum / x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

/// The proposed scheme on an error-free power line: full link, short queue, no drops, equal rates. The upper bound of a
/// single flow's window is the bandwidth-delay product without the wait for a PDU, so one flow does not fill the link.
#[test]
fn muniz_shares_the_power_line_fairly() {
    for cc in ["newreno", "cubic"] {
        for (rtts, full) in [(&[66][..], 0.8), (&[66, 186], 0.95), (&[66, 126, 186], 0.95)] {
            let (plain, _, dropped, _) = share(home(cc, "none", rtts));
            assert!(dropped > 0, "without it the queue overflows");
            let (rates, queue, dropped, timeouts) = share(home(cc, "muniz", rtts));
            let part = rates.iter().sum::<f64>() / plain.iter().sum::<f64>();
            let what = format!("{cc} {rtts:?}: {part:.3} of the line, {rates:.0?}, queue {queue:.1}");
            assert!(jain(&rates) >= 0.95 && part >= full, "{what}");
            assert!(queue <= 62.0, "{what}"); // twice the size of a PDU
            assert_eq!((dropped, timeouts), (0, 0), "{what}");
        }
    }
    // The previous scheme without cross traffic: no overflow either.
    let (_, queue, dropped, _) = share(home("newreno", "mizutani", &[66, 186]));
    assert!(queue < 128.0 && dropped == 0, "{queue} {dropped}");
}

/// The same without a modem that reports its backlog, as on a real interface. The estimate differs from the backlog by
/// a fraction of a PDU, which has 31 SDUs.
#[test]
fn muniz_works_with_an_estimated_backlog() {
    for cc in ["newreno", "cubic"] {
        for (rtts, full) in [(&[66][..], 0.8), (&[66, 186], 0.95), (&[66, 126, 186], 0.95)] {
            let (plain, ..) = share(home(cc, "none", rtts));
            let mut scenario = home(cc, "muniz", rtts);
            scenario.gateways[0].params.insert("backlog".into(), "estimate".into());
            let error = Network::new(scenario.clone(), RunOptions::default()).unwrap().run().unwrap().gateways[0]
                .backlog_error
                .unwrap();
            let (rates, queue, dropped, timeouts) = share(scenario);
            let part = rates.iter().sum::<f64>() / plain.iter().sum::<f64>();
            let what = format!("{cc} {rtts:?}: {part:.3} of the line, {rates:.0?}, queue {queue:.1}, {error:?}");
            assert!(jain(&rates) >= 0.95 && part >= full, "{what}");
            assert!(queue <= 62.0 && error.samples > 10_000, "{what}");
            assert!(error.bias.abs() <= 12.0 && error.absolute <= 16.0, "{what}");
            assert_eq!((dropped, timeouts), (0, 0), "{what}");
        }
    }
}

const GONE: Time = Time::from_secs(20);
const BACK: Time = Time::from_secs(40);

/// Times and offsets of new data at the seat, and timeouts of the sender.
#[derive(Default, PartialEq, Debug)]
struct Journey {
    delivered: Vec<(Time, u64)>,
    timeouts: u64,
}

impl Observer for Journey {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Packet { at, packet: p, .. } => {
                let whole = p.fragment() == Fragment::Whole && p.payload() > 0;
                if at.node != SEAT || at.direction != InterfaceDirection::In || !whole {
                    return;
                }
                let end = u64::from(p.seq) + u64::from(p.payload());
                if self.delivered.last().is_none_or(|d| d.1 < end) {
                    self.delivered.push((now, end));
                }
            }
            NetworkEvent::Sender { sender, .. } => {
                self.timeouts = sender.stats().timeouts;
            }
            _ => {}
        }
    }
}

const SEAT: usize = 2;

impl Journey {
    /// Creates a transfer from a server 60 ms away, cut off during `outage`; `notices` are the train's notifications.
    fn new(stack: &str, gateway: &str, notices: &[(Time, LinkEvent)], outage: Option<(Time, Time)>) -> Self {
        let timeline = outage.map_or(String::new(), |(from, to)| {
            format!("timeline = [{{ at = \"{from}\", up = false }}, {{ at = \"{to}\", up = true }}]\n")
        });
        let mut scenario = parse(&format!(
            "duration = \"100 s\"\ntcp = {{ stack = \"{stack}\", cc = \"newreno\", rcv_buf = \"128 KiB\" }}\n\
             node = [{{ name = \"server\" }}, {{ name = \"train\" }}, {{ name = \"seat\" }}]\n\
             [[link]]\nname = \"air\"\nbetween = [\"server\", \"train\"]\nrate = \"1 Gbit/s\"\ndelay = \"29.7 ms\"\n\
             queue = \"10000 pkt\"\n{timeline}\
             [[link]]\nname = \"lan\"\nbetween = [\"train\", \"seat\"]\nrate = \"1 Gbit/s\"\ndelay = \"0.3 ms\"\n\
             queue = \"10000 pkt\"\n\
             [[gateway]]\nnode = \"train\"\nkind = \"{gateway}\"\nlink = \"air\"\n\
             [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"server\"\nto = \"seat\"\n"
        ));
        scenario.links[0].notices = Notices::Listed(notices.into());
        let mut journey = Journey::default();
        Network::new(scenario, RunOptions::default()).unwrap().observed_by(&mut journey).run().unwrap();
        journey
    }
    /// Returns the time after `at` until new data is delivered.
    fn silence_after(&self, at: Time) -> Time {
        self.delivered.iter().find(|d| d.0 > at).map_or(Time::MAX, |d| d.0 - at)
    }
    /// Returns the bytes delivered from second `from` to second `to`.
    fn bytes(&self, from: u64, to: u64) -> f64 {
        let by = |at| self.delivered.iter().rfind(|d| d.0 <= Time::from_secs(at)).map_or(0, |d| d.1);
        (by(to) - by(from)) as f64
    }
}

const STACKS: [&str; 4] = ["linux", "rfc", "ns3", "ns2"];

/// 20 s without coverage. If the agent is warned half a second ahead, the sender loses nothing and resumes immediately.
/// Without an agent it waits for its timer.
#[test]
fn avoca_rx_resumes_at_once() {
    for stack in STACKS {
        let plain = Journey::new(stack, "none", &[], Some((GONE, BACK)));
        let notices = [
            (GONE.saturating_sub(ms(500)), LinkEvent::Signal(-85.0)),
            (GONE + ms(100), LinkEvent::Down),
            (BACK + ms(50), LinkEvent::Up),
            (BACK + ms(80), LinkEvent::Configured),
            (BACK + ms(100), LinkEvent::Signal(-60.0)),
        ];
        let warned = Journey::new(stack, "avoca-rx", &notices, Some((GONE, BACK)));
        let (without, with) = (plain.silence_after(BACK), warned.silence_after(BACK + ms(100)));
        assert!(plain.timeouts > 3 && without > Time::from_secs(2), "{stack}: {without}");
        assert_eq!(warned.timeouts, 0, "{stack}");
        assert!(with < ms(65), "{stack}: {with}");
        assert!(warned.bytes(0, 100) > plain.bytes(0, 100), "{stack}");
    }
}

/// Warnings that are late, too late, wrong or missing.
#[test]
fn avoca_rx_does_no_harm() {
    for stack in STACKS {
        let plain = Journey::new(stack, "none", &[], Some((GONE, BACK)));
        let silent = Journey::new(stack, "avoca-rx", &[], Some((GONE, BACK)));
        assert!(silent.delivered == plain.delivered, "{stack}: without notifications it changes nothing");
        for late in [1, 30, 300, 3_000] {
            let notices = [
                (GONE + ms(late), LinkEvent::Down),
                (BACK + ms(late), LinkEvent::Up),
                (BACK + ms(late), LinkEvent::Configured),
            ];
            let notified = Journey::new(stack, "avoca-rx", &notices, Some((GONE, BACK)));
            assert!(notified.silence_after(BACK) <= plain.silence_after(BACK), "{stack}, {late} ms late");
            assert!(notified.bytes(0, 100) >= 0.99 * plain.bytes(0, 100), "{stack}, {late} ms late");
        }
        // Nothing follows the warning: the sender's next probe proves it wrong.
        let wrong = Journey::new(stack, "avoca-rx", &[(GONE, LinkEvent::Signal(-85.0))], None);
        let stopped = wrong.silence_after(GONE + ms(200));
        assert!(stopped > Time::from_secs(4) && stopped < Time::from_secs(20), "{stack}: {stopped}");
        let whole = Journey::new(stack, "none", &[], None);
        assert!(wrong.bytes(60, 100) > 0.99 * whole.bytes(60, 100), "{stack}");
    }
}
