//! Split connections: on any path, through one proxy or two, readers get the written bytes, and memory is bounded.

#[path = "common/air.rs"]
mod air;
#[path = "common/chain.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod chain;

use air::{Air, air};
use chain::{Chain, proxy, text};
use proptest::prelude::*;
use roughlink_core::pep::ProxyParams;
use roughlink_core::tcp::{Buffer, ConnectionId, Stack, TcpConfig};
use roughlink_core::units::Time;

/// Behavior of one host.
#[derive(Clone, Debug)]
struct Behavior {
    /// Receive buffer of the host.
    window: u64,
    bytes: usize,
    /// Bytes written and read at a time; wait before the next read, ms.
    chunk: (usize, usize),
    pause: u64,
}

fn behavior() -> impl Strategy<Value = Behavior> {
    let chunk = (prop::sample::select(vec![1_000usize, 40_000]), prop::sample::select(vec![300usize, 5_000, 1 << 16]));
    let bytes = prop_oneof![Just(0usize), 0..5_000usize, 0..200_000usize];
    (3_000u64..100_000, bytes, chunk, prop_oneof![Just(0u64), 1..100u64])
        .prop_map(|(window, bytes, chunk, pause)| Behavior { window, bytes, chunk, pause })
}

fn params() -> impl Strategy<Value = ProxyParams> {
    let cc = prop::sample::select(vec!["wave", "wave-fr", "cubic", "bbr", "newreno", "hybla"]);
    (cc, 4_000u32..300_000, 4_000u32..300_000).prop_map(|(cc, buffer, lan_buffer)| ProxyParams {
        cc: cc.into(),
        buffer,
        lan_buffer,
        ..ProxyParams::default()
    })
}

fn linux(window: u64) -> TcpConfig {
    TcpConfig { rcv_buf: Buffer::Bytes(window), ..TcpConfig::preset(Stack::Linux) }
}

/// Runs a transfer both ways until both hosts have closed. Returns the bytes read by client and server.
fn transfer(chain: &mut Chain, v6: bool, hosts: &[Behavior; 2]) -> Result<[Vec<u8>; 2], String> {
    let mut ids: [Option<ConnectionId>; 2] = [Some(chain.connect(v6)), None];
    let (mut written, mut read, mut read_at) = ([0; 2], [Vec::new(), Vec::new()], [Time::ZERO; 2]);
    let most = chain.proxies.len() * 2 * (300_000 + 300_000);
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..400_000 {
        ids[1] = ids[1].or_else(|| chain.hosts[1].accept(chain::PORT));
        for i in [0, 1] {
            let (Some(id), Behavior { bytes, chunk, pause, .. }) = (ids[i], hosts[i].clone()) else { continue };
            let host = &mut chain.hosts[i];
            written[i] += host.write(id, &text(i, written[i]..bytes.min(written[i] + chunk.0)));
            if written[i] == bytes {
                host.close(id);
            }
            while chain.now >= read_at[i] {
                let n = host.read(id, &mut buffer[..chunk.1]);
                read[i].extend_from_slice(&buffer[..n]);
                if n == 0 {
                    break;
                }
                read_at[i] = chain.now + Time::from_millis(pause);
            }
        }
        chain.flush();
        let stored: usize = chain.proxies.iter().flat_map(|p| p.connections()).map(|c| c.buffer_bytes).sum();
        if stored > 2 * most + 100_000 {
            return Err(format!("{stored} bytes in the proxies"));
        }
        let endpoint = |i: usize| ids[i].and_then(|id| chain.hosts[i].stream(id)).map(|stream| stream.endpoint());
        if (0..2).any(|i| endpoint(i).is_some_and(|endpoint| endpoint.failed())) {
            return Err("failed".into());
        }
        let over =
            |i: usize| endpoint(i).is_some_and(|endpoint| endpoint.is_done()) && read[i].len() == hosts[1 - i].bytes;
        if over(0) && over(1) {
            return Ok(read);
        }
        let reads = (0..2).map(|i| if read_at[i] > chain.now { read_at[i] } else { Time::MAX }).min();
        let next = chain.next().min(reads.unwrap_or(Time::MAX));
        if next == Time::MAX {
            // A proxy that gives up resets its connections once. If that segment is lost, the host waits for ever.
            let given_up = chain.proxies.iter().all(|proxy| proxy.is_empty());
            return Err(if given_up { "failed".into() } else { format!("nothing is left to happen at {}", chain.now) });
        }
        chain.advance(next);
    }
    Err(format!("it does not end: {}, read {:?}", chain.now, read.each_ref().map(Vec::len)))
}

fn check(read: &[Vec<u8>; 2], hosts: &[Behavior; 2]) -> Result<(), TestCaseError> {
    for (i, read) in read.iter().enumerate() {
        prop_assert_eq!(read.len(), hosts[1 - i].bytes);
        prop_assert!(*read == text(1 - i, 0..hosts[1 - i].bytes), "other bytes");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Loss, reordering, duplication, corruption, outages, small buffers, slow readers, any half-close; through one
    /// proxy or a pair, over IPv4 and IPv6.
    #[test]
    fn bytes_pass_unchanged_through_proxies(
        hosts in [behavior(), behavior()],
        hops in prop::collection::vec(air(), 2..4),
        params in prop::collection::vec(params(), 2),
        v6 in any::<bool>(),
        corrupted in prop_oneof![Just(0u64), 0u64..5],
    ) {
        let lossy = hops.iter().any(Air::loses) || corrupted > 0;
        let proxies = params.into_iter().take(hops.len() - 1).map(proxy).collect();
        let mut chain = Chain::new([0, 1].map(|i| linux(hosts[i].window)), proxies, hops);
        chain.corrupted = corrupted;
        match transfer(&mut chain, v6, &hosts) {
            Ok(read) => {
                check(&read, &hosts)?;
                // Both proxies forget the connection, at the latest when the last acknowledgments give up.
                chain.run(Time::from_secs(3_000));
                prop_assert!(chain.proxies.iter().all(|proxy| proxy.is_empty()), "a connection remains");
            }
            Err(why) => prop_assert!(why == "failed" && lossy, "{}", why),
        }
    }
}
