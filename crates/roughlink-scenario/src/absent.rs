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
        "`dctcp` over `qdisc = { kind = \"threshold\", ... }` comes closest; it also reacts to the share of marked packets",
    ),
    (&["bbr2", "bbr3", "bbrv2", "bbrv3", "bbr-v2", "bbr-v3"], "`bbr` is version 1, as in the Linux kernel"),
    (&["ledbat", "lp", "cdg", "nv", "copa"], "`vegas` is based on delay, too"),
    (&["vivace", "pcc", "allegro", "sprout", "remy"], "`bbr` is based on rates, too"),
    // Queue disciplines
    (
        &["red", "ared", "gred", "wred"],
        "`codel` drops or marks early by delay; `threshold` marks by queue length, without RED's average",
    ),
    (
        &["pie", "fq_pie", "fq-pie", "dualpi2"],
        "`codel` controls the queue's delay, too, and `fq_codel` with a queue per flow",
    ),
    (&["cake"], "`fq_codel` on a link of the rate that `cake` would shape to comes closest"),
    (&["htb", "hfsc", "cbq"], "`prio` has priorities; each rate is that of a link"),
    (&["fq", "sfq", "drr"], "`fq_codel` lets flows send in turn"),
    (
        &["pfifo", "bfifo", "fifo", "droptail", "drop-tail"],
        "a link without `qdisc` is first in, first out, with `queue` in packets or bytes",
    ),
    (&["netem"], "`rate`, `delay`, `jitter`, `queue` and `noise` are keys of the link"),
    // Traffic and transports
    (&["quic", "http3", "http/3"], "TCP and SCTP are the transports; an emulation carries QUIC of real programs"),
    (&["mptcp"], "TCP has one path per connection"),
    (&["http", "http2"], "a `web` flow sends requests and responses over TCP"),
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
        assert!(absent("Prague").unwrap().starts_with("`prague` is not available; `dctcp` over `qdisc"));
        assert_eq!(absent("cubic"), None);
    }
}
