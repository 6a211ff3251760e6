//! Names that users look for but roughlink does not have, with the closest alternative.

/// Returns the message about a well-known name that does not exist here.
pub(super) fn absent(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let (_, closest) = ABSENT.iter().find(|(names, _)| names.contains(&word.as_str()))?;
    Some(format!("`{word}` is not available; {closest}"))
}

const ABSENT: &[(&[&str], &str)] = &[
    // Congestion control
    (
        &["prague", "l4s", "tcp-prague"],
        "use `dctcp`, which also reacts to the share of marked packets, over `qdisc = { kind = \"threshold\", ... }`",
    ),
    (&["bbr2", "bbr3", "bbrv2", "bbrv3", "bbr-v2", "bbr-v3"], "use `bbr`, which is version 1 as in the Linux kernel"),
    (&["ledbat", "lp", "cdg", "nv", "copa"], "use `vegas`, which is also based on delay"),
    (&["vivace", "pcc", "allegro", "sprout", "remy"], "use `bbr`, which is also based on rates"),
    // Queue disciplines
    (
        &["red", "ared", "gred", "wred"],
        "use `codel` to drop or mark early by delay, or `threshold` to mark by queue length, without RED's average",
    ),
    (
        &["pie", "fq_pie", "fq-pie", "dualpi2"],
        "use `codel`, which also controls the delay of the queue, or `fq_codel` with a queue per flow",
    ),
    (&["cake"], "use `fq_codel` on a link with the rate that `cake` would shape to"),
    (&["htb", "hfsc", "cbq"], "use `prio` for priorities, and the `rate` of a link for each rate"),
    (&["fq", "sfq", "drr"], "use `fq_codel`, in which flows take turns"),
    (
        &["pfifo", "bfifo", "fifo", "droptail", "drop-tail"],
        "use a link without `qdisc`, which is first in, first out, with `queue` in packets or bytes",
    ),
    (&["netem"], "set `rate`, `delay`, `jitter`, `queue` and `noise` of the link"),
    // Traffic and transports
    (&["quic", "http3", "http/3"], "use TCP or SCTP, or run a QUIC program in an emulation"),
    (&["mptcp"], "use TCP, with one path per connection"),
    (&["http", "http2"], "use a `web` flow, which sends requests and responses over TCP"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::FORM;

    #[test]
    fn absent_names_do_not_exist() {
        let words = |key: &str| serde_json::to_string(&FORM["$defs"][key]).unwrap();
        let known: Vec<String> = ["CongestionControl", "Qdisc", "Flow", "Noise"].into_iter().map(words).collect();
        for name in ABSENT.iter().flat_map(|(names, _)| *names) {
            let quoted = format!("\"{name}\"");
            assert!(known.iter().all(|known| !known.contains(&quoted)), "{name} is available");
        }
    }

    #[test]
    fn absent_name_suggests_the_closest_alternative() {
        assert!(absent("Prague").unwrap().starts_with("`prague` is not available; use `dctcp`, which"));
        assert_eq!(absent("cubic"), None);
    }
}
