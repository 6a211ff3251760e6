//! The `ns3` presets compared with ns-3: the same events give the same windows, to the byte.

use roughlink_core::cc::{Ack, Congestion, CongestionState, Flow, build};
use roughlink_core::units::Time;

const MSS: u64 = 1448;

#[test]
fn delay_based_windows_match_ns3() {
    let algorithms = ["illinois", "illinois-aa", "vegas", "veno", "westwood"];
    compare(&algorithms, include_str!("data/cc-ns3-3.44.txt"));
}

#[test]
fn loss_based_windows_match_ns3() {
    let algorithms = ["reno", "hybla", "highspeed", "htcp", "scalable", "bic", "cubic", "yeah"];
    compare(&algorithms, include_str!("data/cc-ns3-3.44-loss.txt"));
}

fn compare(algorithms: &[&str], trace: &str) {
    for (column, name) in algorithms.iter().enumerate() {
        let mut flow = Flow::new(MSS as u32, 10 * MSS);
        (flow.initial_ssthresh, flow.min_rtt) = (u64::from(u32::MAX), Time::ZERO);
        (flow.snd_una, flow.snd_nxt, flow.cwnd_limited) = (1, 1, true);
        let mut cc = build(name, "ns3", "", &flow).unwrap();
        let mut duplicates = 0;
        for (number, line) in trace.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let parts: Vec<&str> = line.split(" | ").collect();
            let (event, numbers) = parts[0].split_once(' ').unwrap();
            let n: Vec<u64> = numbers.split(' ').map(|x| x.parse().unwrap()).collect();
            let [now, segments, srtt, una, nxt] = n[..] else { panic!("{line}") };
            flow.now = Time::from_micros(now);
            (flow.snd_una, flow.snd_nxt) = (una, nxt);
            if srtt > 0 {
                flow.srtt = Time::from_micros(srtt);
                flow.min_rtt = if flow.min_rtt.is_zero() { flow.srtt } else { flow.min_rtt.min(flow.srtt) };
            }
            let mut duplicate = Ack::default();
            duplicate.rtt = Some(flow.srtt);
            let mut ack = Ack::new(segments * MSS, 0, segments as u32);
            (ack.rtt, ack.may_grow) = (duplicate.rtt, true);
            match event {
                "A" | "l" => cc.on_ack(&flow, &ack),
                "D" => {
                    duplicates += 1;
                    flow.state = CongestionState::Disorder;
                    cc.on_ack(&flow, &duplicate);
                }
                "P" => cc.on_ack(&flow, &duplicate),
                "E" => {
                    // ns-3 subtracts the duplicate ACKs from the segments and reports no RTT if the result is negative.
                    ack.rtt = ack.rtt.filter(|_| segments >= duplicates);
                    flow.state = CongestionState::Open;
                    cc.on_ack(&flow, &ack);
                }
                "X" | "o" => {
                    flow.state = CongestionState::Open;
                    cc.on_recovered(&flow);
                    cc.on_ack(&flow, &ack);
                }
                "L" => {
                    flow.in_flight = segments;
                    cc.on_congestion(&flow, Congestion::Loss);
                    flow.state = CongestionState::Recovery;
                }
                "T" => {
                    flow.in_flight = segments;
                    cc.on_congestion(&flow, Congestion::Timeout);
                    flow.state = CongestionState::Loss;
                }
                _ => panic!("{line}"),
            }
            if event != "D" {
                duplicates = 0;
            }
            let v = cc.trace();
            assert_eq!(format!("{} {}", v.cwnd, v.ssthresh), parts[column + 1], "{name}, line {}: {line}", number + 1);
        }
    }
}
