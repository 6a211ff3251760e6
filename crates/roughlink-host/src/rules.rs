//! Rules that send TCP segments to the two netfilter queues of a middlebox: a table of nftables. If nftables or its
//! `queue` statement is missing, the rules are in the tables `mangle` of iptables and ip6tables. The number of the
//! first queue is in the name of the table or in the comments of the rules, by which they are found and removed.
//!
//! A rule lets packets pass if no program reads its queue, and excludes packets with the mark [`MARK`], which the
//! middlebox sends itself.

use crate::cleanup::CleanupPlan;
use crate::error::{HostError, Operation};
use crate::ip::feed;
use crate::namespace::Namespace;
use crate::nfqueue::MARK;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::{Command, Output, Stdio};

/// Rules for the two queues of a middlebox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRules {
    /// Number of the first queue, which gets the outward packets. The next one gets the inward packets.
    pub queue: u16,
    /// Device before the served hosts; without one, the middlebox serves this machine.
    pub inside: Option<String>,
    /// Also queues ICMP messages, for a middlebox that is an end of connections: the messages may be about its
    /// segments.
    pub icmp: bool,
}

impl QueueRules {
    /// Returns the numbers of the queues: outward, inward.
    pub fn queues(&self) -> [u16; 2] {
        [self.queue, self.queue + 1]
    }

    /// Installs the rules in a namespace, in place of earlier ones with this name. Returns the commands that remove
    /// them.
    ///
    /// # Errors
    /// Returns an error if neither nftables nor iptables can queue packets.
    pub fn install(&self, namespace: &Namespace) -> Result<CleanupPlan, HostError> {
        namespace.within(|| {
            removal(self.queue).execute();
            let first = match nft(&self.table()) {
                Ok(()) => return Ok(CleanupPlan { commands: vec![table_removal(self.queue)], files: Vec::new() }),
                Err(reason) => reason,
            };
            let commands = self.commands();
            for (n, words) in commands.iter().enumerate() {
                // A machine without IPv6 has no tables of ip6tables.
                let Err(second) = run(words) else { continue };
                if words[0] != "ip6tables" {
                    commands[..n].iter().for_each(|words| drop(run(&deleting(words))));
                    return Err(HostError::io(Operation::QueueRules)(io::Error::other(format!("{first}; {second}"))));
                }
            }
            Ok(CleanupPlan { commands: commands.iter().map(|words| deleting(words)).collect(), files: Vec::new() })
        })?
    }

    /// Returns the table in the syntax of nft(8).
    fn table(&self) -> String {
        let [outward, inward] = self.queues();
        let chain = |hook: &str, rules: String| {
            format!(
                "\tchain {hook} {{\n\t\ttype filter hook {hook} priority mangle; policy accept;\n\t\tmeta mark \
                 {MARK:#x} accept\n{rules}\t}}\n"
            )
        };
        let protocols = if self.icmp { "{ tcp, icmp, ipv6-icmp }" } else { "tcp" };
        let rule =
            |matched: &str, queue| format!("\t\t{matched}meta l4proto {protocols} queue flags bypass to {queue}\n");
        let chains = match &self.inside {
            Some(device) => chain(
                "forward",
                rule(&format!("iifname \"{device}\" "), outward) + &rule(&format!("oifname \"{device}\" "), inward),
            ),
            None => chain("output", rule("", outward)) + &chain("input", rule("", inward)),
        };
        format!("table inet {} {{\n{chains}}}\n", name(self.queue))
    }

    /// Returns the commands of iptables.
    fn commands(&self) -> Vec<Vec<String>> {
        let [outward, inward] = self.queues();
        let both = match &self.inside {
            Some(device) => [format!("FORWARD -i {device}"), format!("FORWARD -o {device}")],
            None => ["OUTPUT".into(), "INPUT".into()],
        };
        let icmp = [("iptables", "icmp"), ("ip6tables", "ipv6-icmp")].into_iter().filter(|_| self.icmp);
        let all =
            [("iptables", "tcp"), ("ip6tables", "tcp")].into_iter().chain(icmp).flat_map(|(program, protocol)| {
                both.iter().zip([outward, inward]).map(move |(place, queue)| {
                    format!(
                        "{program} -w -t mangle -A {place} -p {protocol} -m mark ! --mark {MARK:#x} -m comment \
                     --comment {} -j NFQUEUE --queue-num {queue} --queue-bypass",
                        name(self.queue)
                    )
                })
            });
        all.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }
}

/// Rules whose queues no program reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftoverRules {
    /// Number of the first queue.
    pub queue: u16,
}

/// Returns the rules of ended middleboxes in the namespace of the calling thread.
pub fn leftover_rules() -> Vec<LeftoverRules> {
    let nft = ["nft", "list", "tables"];
    let saved = ["iptables-save", "ip6tables-save"].map(|program| [program, "-t", "mangle"]);
    let texts = [nft].into_iter().chain(saved).filter_map(|words| output(&words).ok());
    let texts = texts.map(|out| String::from_utf8_lossy(&out).into_owned());
    let all: BTreeSet<u16> = texts.flat_map(|text| named(&text)).collect();
    let readers = fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue").unwrap_or_default();
    let read: BTreeSet<u16> = readers.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    all.difference(&read).map(|&queue| LeftoverRules { queue }).collect()
}

impl LeftoverRules {
    /// Removes the rules.
    ///
    /// # Errors
    /// Returns an error if rules remain.
    pub fn remove(&self) -> Result<(), HostError> {
        removal(self.queue).execute();
        match leftover_rules().contains(self) {
            true => Err(HostError::io(Operation::QueueRules)(io::ErrorKind::PermissionDenied.into())),
            false => Ok(()),
        }
    }
}

/// Returns commands that remove all rules of a queue that exist now.
fn removal(queue: u16) -> CleanupPlan {
    let mut commands = vec![table_removal(queue)];
    for program in ["iptables", "ip6tables"] {
        let listed = output(&[&format!("{program}-save"), "-t", "mangle"]).unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let ours = listed.lines().filter(|line| line.starts_with("-A ") && named(line).contains(&queue));
        commands.extend(ours.map(|line| {
            let words = format!("{program} -w -t mangle {}", line.replace('"', ""));
            deleting(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        }));
    }
    CleanupPlan { commands, files: Vec::new() }
}

/// Returns the command that removes the table of nftables.
fn table_removal(queue: u16) -> Vec<String> {
    ["nft", "delete", "table", "inet", &name(queue)].map(str::to_owned).to_vec()
}

/// Returns the command that deletes the rule that `words` appends.
fn deleting(words: &[String]) -> Vec<String> {
    words.iter().map(|word| if word == "-A" { "-D".to_owned() } else { word.clone() }).collect()
}

fn name(queue: u16) -> String {
    format!("{PREFIX}{queue}")
}

/// Returns the numbers of queues in the names in a list of rules.
fn named(text: &str) -> Vec<u16> {
    text.split(|c: char| c.is_whitespace() || c == '"')
        .filter_map(|word| word.strip_prefix(PREFIX)?.parse().ok())
        .collect()
}

/// Replaces the rules of nftables.
fn nft(table: &str) -> Result<(), String> {
    said("nft", feed(Command::new("nft").args(["-f", "-"]), table))
}

fn run(words: &[String]) -> Result<(), String> {
    said(&words[0], Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output())
}

/// Returns the first line of an error message of `program`.
fn said(program: &str, done: io::Result<Output>) -> Result<(), String> {
    match done {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            Err(format!("{program}: {}", text.lines().next().unwrap_or("no reason given")))
        }
        Err(e) => Err(format!("{program}: {e}")),
    }
}

fn output(words: &[&str]) -> io::Result<Vec<u8>> {
    Ok(Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null()).output()?.stdout)
}

const PREFIX: &str = "roughlink-queue-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_queue_both_directions_and_let_packets_pass_without_a_reader() {
        let rules = QueueRules { queue: 5, inside: Some("eth1".into()), icmp: false };
        assert_eq!(
            rules.table(),
            "table inet roughlink-queue-5 {\n\tchain forward {\n\t\ttype filter hook forward priority mangle; policy \
             accept;\n\t\tmeta mark 0x726c accept\n\t\tiifname \"eth1\" meta l4proto tcp queue flags bypass to \
             5\n\t\toifname \"eth1\" meta l4proto tcp queue flags bypass to 6\n\t}\n}\n"
        );
        let lines: Vec<String> = rules.commands().iter().map(|words| words.join(" ")).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[1],
            "iptables -w -t mangle -A FORWARD -o eth1 -p tcp -m mark ! --mark 0x726c -m comment --comment \
             roughlink-queue-5 -j NFQUEUE --queue-num 6 --queue-bypass"
        );
        let here = QueueRules { queue: 5, inside: None, icmp: true };
        assert!(here.table().contains("chain output") && here.table().contains("chain input"));
        assert!(here.table().contains("l4proto { tcp, icmp, ipv6-icmp }") && here.commands().len() == 8);
        assert!(here.commands()[1].contains(&"INPUT".into()));
    }

    #[test]
    fn names_are_found_in_lists() {
        let list = "table inet filter\ntable inet roughlink-queue-5\n-A FORWARD -m comment --comment \
                    \"roughlink-queue-17\" -j NFQUEUE\n--comment roughlink-queue-x";
        assert_eq!(named(list), [5, 17]);
    }

    /// Installs rules twice, finds them as leftovers, and removes them.
    #[test]
    fn rules_are_installed_found_and_removed() {
        let Ok(space) = Namespace::new() else {
            return eprintln!("skipped: no namespaces");
        };
        let rules = QueueRules { queue: 40, inside: None, icmp: true };
        if let Err(e) = rules.install(&space) {
            return eprintln!("skipped: {}", e.with_cause());
        }
        let removal = rules.install(&space).expect("it worked before");
        let left = || space.within(leftover_rules).unwrap();
        assert_eq!(left(), [LeftoverRules { queue: 40 }]);
        space.within(|| removal.execute()).unwrap();
        assert_eq!(left(), [], "one installation remained");
        rules.install(&space).unwrap();
        space.within(|| LeftoverRules { queue: 40 }.remove()).unwrap().unwrap();
        assert_eq!(left(), []);
    }
}
