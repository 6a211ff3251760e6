//! DCTCP over a queue that marks at a threshold (RFC 8257).

#[path = "common/one_link.rs"]
mod one_link;

use one_link::one_link;
use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, RunOptions};

const LINK: &str = "rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"1000 pkt\"\n\
                    qdisc = { kind = \"threshold\", at = \"20 pkt\" }";

fn run(tcp: &str, link: &str) -> RunResult {
    let text = one_link(tcp, link, "kind = \"bulk\"").replace("duration = \"600 s\"", "duration = \"20 s\"");
    let (s, _) = roughlink_scenario::parse(&text, "t", &[], &|_| Err("no files".into())).expect("a valid scenario");
    Network::new(s, RunOptions::default()).expect("a network").run().expect("a result")
}

/// The threshold of 20 packets exceeds a seventh of the bandwidth-delay product of 83 packets, so the link stays full
/// (RFC 8257 section 1; Alizadeh et al. 2010, equation 13). Halving at each mark would need a queue of the product.
#[test]
fn threshold_far_below_the_bdp_keeps_the_link_full() {
    let mbps = |r: &RunResult| r.flows[0].throughput_mbps.expect("a throughput");
    for stack in ["linux", "ns3", "ns2", "rfc"] {
        let keys = format!("stack = \"{stack}\"\nrcv_buf = \"4 MiB\"\nsnd_buf = \"4 MiB\"\nmss = \"1460 B\"\n");
        let dctcp = run(&format!("{keys}cc = \"dctcp\""), LINK);
        let reno = run(&format!("{keys}cc = \"newreno\"\necn = true"), LINK);
        let full = 94.0;
        assert!(mbps(&dctcp) > full, "{stack}: {} Mbit/s", mbps(&dctcp));
        assert!(mbps(&reno) < 0.97 * mbps(&dctcp), "{stack}: {} Mbit/s of newreno", mbps(&reno));
        assert_eq!(dctcp.flows[0].retransmits, 0, "{stack}");
        let queue = dctcp.links[0].forward.queue_mean_pkt;
        assert!((5.0..40.0).contains(&queue), "{stack}: a mean queue of {queue} packets");
    }
}
