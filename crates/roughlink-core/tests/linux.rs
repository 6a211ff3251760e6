//! Transfers of the `linux` stack compared with Linux 6.18 on the same links under `roughlink emulate`.

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, RunOptions};

fn run(cc: &str, keys: &str, duration: &str, link: &str, flow: &str) -> RunResult {
    let text = one_link(&format!("stack = \"linux\"\ncc = \"{cc}\"\n{keys}"), link, flow)
        .replace("duration = \"600 s\"", &format!("duration = \"{duration}\""));
    let (s, _) = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).expect("a valid scenario");
    Network::new(s, RunOptions::default()).expect("a network").run().expect("a result")
}

/// One-way delays of 40 to 60 ms at 1 Gbit/s: few segments arrive in order. The kernel takes 1.2 to 1.3 s for 40 MB.
#[test]
fn the_receive_window_opens_under_strong_reordering() {
    let link = "rate = \"1 Gbit/s\"\ndelay = \"40 ms\"\njitter = \"20 ms\"\nreorder = true\nqueue = \"1000 pkt\"\n\
                asymmetric = { delay = \"0.05 ms\", jitter = \"0 s\", reorder = false }";
    for cc in ["reno", "bbr"] {
        let result = run(cc, "", "60 s", link, "kind = \"bulk\"\nbytes = \"40 MB\"");
        let seconds = result.flows[0].end_s.expect("it ends");
        assert!((1.0..1.5).contains(&seconds), "{cc}: {seconds} s");
    }
}

/// Two segments of the largest datagrams exceed the 64 KiB of a Linux `sk_buff`.
#[test]
fn largest_segments_are_sent() {
    let link = "rate = \"100 Mbit/s\"\ndelay = \"10 ms\"\nmtu = \"65535 B\"\nqueue = \"100 pkt\"";
    let result = run("cubic", "mss = \"65483 B\"", "60 s", link, "kind = \"bulk\"\nbytes = \"10 MB\"");
    assert!(result.flows[0].completed, "{:?}", result.flows[0]);
}

/// The send buffer is the limit on a satellite link of 100 Mbit/s and 600 ms for 60 s. iperf3 3.12 (`-t 60`) reaches
/// 32.8 Mbit/s with `-C cubic` and 38.2 with `-C bbr`. Whenever a third of the 4 MiB is free, it writes ten times 128
/// KiB, or until the buffer is full. Data in the buffer has overhead, and smaller writes keep less data in it.
#[test]
fn send_buffer_holds_less_than_its_size() {
    let link = "rate = \"100 Mbit/s\"\ndelay = \"300 ms\"\nqueue = \"7.5 MB\"\nasymmetric = { rate = \"10 Mbit/s\" }";
    let mbps =
        |cc, keys| run(cc, keys, "60 s", link, "kind = \"bulk\"").flows[0].throughput_mbps.expect("a throughput");
    for (cc, iperf3) in [("cubic", 32.8), ("bbr", 38.2)] {
        let ratio = mbps(cc, "") / iperf3;
        assert!((0.95..1.05).contains(&ratio), "{cc}: {ratio}");
    }
    assert!(mbps("bbr", "write_size = \"128 KiB\"") < 0.85 * mbps("bbr", ""));
}

/// A Linux writer waits until a third of the buffer is free and then fills it, also with writes larger than the buffer.
/// Between two thirds of 64 KiB and all 64 KiB leave per round trip of 100 ms: 3.5 to 5.24 Mbit/s.
#[test]
fn a_fixed_send_buffer_is_filled_by_large_writes() {
    let link = "rate = \"100 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"100 pkt\"";
    let mbps =
        |keys| run("cubic", keys, "20 s", link, "kind = \"bulk\"").flows[0].throughput_mbps.expect("a throughput");
    let linux = mbps("snd_buf = \"64 KiB\"");
    assert!((3.4..5.3).contains(&linux), "{linux} Mbit/s");
}

/// A paced initial window of 40 segments does not overflow a queue of 20 packets; an unpaced burst does.
#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    let link = "rate = \"20 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"20 pkt\"";
    let lost = |keys| {
        let keys = format!("{keys}\nrcv_buf = \"128 KiB\"");
        let result = run("reno", &keys, "2 s", link, "kind = \"bulk\"");
        (result.flows[0].retransmits, result.flows[0].throughput_mbps.expect("a throughput"))
    };
    let (burst, paced) = (lost("initial_window = 40"), lost("initial_window = 40\npacing = true"));
    assert!(burst.0 > 0 && paced.0 == 0, "{burst:?} {paced:?}");
    assert!(paced.1 > burst.1, "{burst:?} {paced:?}");
}
