//! scratch
use roughlink_core::{app::Traffic, cc, link::*, net::*, packet::*, scenario::*, tcp::*, units::*};
struct T;
impl Observer for T {
    fn packet(&mut self, now: Time, at: Crossing, p: &Packet, _s: &Sides) {
        let Crossing { hop, way, .. } = at;
        if hop == 0 && way == Way::Out && p.payload() > 0 {
            println!("data,{},{},{}", now.0, p.seq, p.payload());
        }
        if hop == 1 && way == Way::In && p.is(flags::ACK) && !p.is(flags::SYN) && std::env::var("ACKS").is_ok() {
            println!("ack,{},{}", now.0, p.ack);
        }
    }
    fn flow(&mut self, now: Time, _i: usize, e: &Endpoint, _d: u64) {
        if std::env::var("FLOW").is_ok()
            && let Some(s) = e.sender()
        {
            println!("cwnd,{},{:?},{},{:?}", now.0, s.cc().vitals(), s.flow().in_flight, s.flow().state);
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let get = |k: &str, d: &str| {
        a.iter().find_map(|x| x.strip_prefix(&format!("--{k}=")).map(String::from)).unwrap_or(d.into())
    };
    let mut tcp = TcpConfig::preset(match get("stack", "ns3").as_str() {
        "ns3" => Stack::Ns3,
        "rfc" => Stack::Rfc,
        "ns2" => Stack::Ns2,
        _ => Stack::Linux,
    });
    tcp.sack = get("sack", "0") == "1";
    tcp.mss = get("segment", "1448").parse().unwrap();
    if let Ok(b) = get("snd-buf", "x").parse() {
        tcp.snd_buf = Buffer::Bytes(b);
    }
    tcp.write_size = get("send-size", "512").parse().unwrap();
    let drop: Vec<u64> = get("drop", "").split(',').filter_map(|x| x.parse().ok()).collect();
    let ccn = get("cc", "newreno");
    let start: f64 = get("start", "0").parse().unwrap();
    let noise = if start > 0.0 {
        Noise::Burst { start, length: noise::BurstLength::Uniform(1, 4) }
    } else {
        Noise::List { drop }
    };
    let q: u32 = get("queue", "100").parse().unwrap();
    let d = |r, us, n| Direction {
        rate: Rate(r),
        delay: Time::from_micros(us),
        queue: QueueLimit::Packets(q),
        noise: n,
        jitter: Time::ZERO,
        reorder: false,
    };
    let n: usize = get("flows", "1").parse().unwrap();
    let g: usize = get("groups", "1").parse().unwrap();
    let bytes: u64 = get("bytes", "2000000").parse().unwrap();
    let mut s = Scenario {
        name: "t".into(),
        seed: get("seed", "1").parse().unwrap(),
        duration: Time::from_secs(get("duration", "100000").parse().unwrap()),
        nodes: vec![],
        links: vec![],
        flows: vec![],
        source: String::new(),
    };
    for k in 0..g {
        let base = s.nodes.len();
        s.nodes.extend(["sa", "secc", "evcc"].map(String::from));
        s.links.push(LinkSpec {
            name: format!("internet{k}"),
            between: (base, base + 1),
            pipe: PipeConfig {
                forward: d(500_000_000, 10000, Noise::None),
                reverse: d(500_000_000, 10000, Noise::None),
                mtu: 1500,
                overhead: 2,
            },
        });
        s.links.push(LinkSpec {
            name: format!("plc{k}"),
            between: (base + 1, base + 2),
            pipe: PipeConfig {
                forward: d(10_000_000, 900, noise.clone()),
                reverse: d(10_000_000, 900, Noise::None),
                mtu: 1500,
                overhead: 2,
            },
        });
        for i in 0..n {
            s.flows.push(FlowSpec {
                name: format!("f{k}.{i}"),
                from: base,
                to: base + 2,
                start: Time::ZERO,
                traffic: Traffic::Bulk { bytes: (bytes > 0).then_some(bytes) },
                tcp: tcp.clone(),
                cc: ccn.clone(),
                factory: Some(cc::algorithm(&ccn).unwrap().factory(tcp.stack.name(), &Default::default()).unwrap()),
            });
        }
    }
    let net = Network::new(&s).unwrap();
    if get("quiet", "0") == "1" {
        for r in 0..get("replicas", "1").parse().unwrap() {
            #[allow(clippy::disallowed_methods, reason = "scratch")]
            let t = std::time::Instant::now();
            let res = net.run(Options { replica: r, ..Default::default() });
            let el = t.elapsed().as_secs_f64();
            let pk: u64 = res.links.iter().skip(1).step_by(2).map(|l| l.forward.packets).sum();
            println!(
                "{} wall {:.3} ns/pkt {:.1} events {} thr {:.3} f0 {:?}",
                ccn,
                el,
                el * 1e9 / pk as f64,
                res.events,
                res.flows.iter().filter_map(|f| f.throughput_mbps).sum::<f64>() / res.flows.len() as f64,
                (
                    res.flows[0].retransmits,
                    res.flows[0].fast_recoveries,
                    res.flows[0].timeouts,
                    res.flows[0].rtt_ms.map(|r| r.mean)
                )
            );
        }
    } else {
        let r = net.run_observed(Options::default(), &mut T);
        println!("result {:?}", r.flows[0]);
    }
}
