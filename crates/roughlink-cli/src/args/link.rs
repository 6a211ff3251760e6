//! Arguments of `roughlink link`: one link to a program, or between two network devices.

use super::{RealTime, Set};
use clap::Args;
use std::ffi::OsString;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink link --rate 10Mbit/s --delay 40ms --loss '5 %' \\
      -- sh -c 'iperf3 -c $ROUGHLINK_HOST'
  roughlink link --rate 2Mbit/s --delay 300ms --queue 20pkt -- bash
  roughlink link --rate 10Mbit/s --loss 1% --generate > my.toml
  roughlink link --between eth1,eth2 --rate 10Mbit/s --delay 40ms
      puts the link between the hosts behind eth1 and eth2
The program runs in its own network namespace, at node `inside`. It reaches this \
machine, node `host`, at the address in ROUGHLINK_HOST. It cannot reach services \
that listen only on 127.0.0.1. The program uses the input and output of the \
command. `up` is the direction from the program to this machine.

With --between, no program runs. The link carries Ethernet frames between the \
hosts behind the two devices until Ctrl-C or until the time of --for is over. \
`up` is the direction from the first device to the second. The devices must be \
up and should have no addresses.")]
pub(crate) struct LinkArgs {
    /// Put the link between the hosts behind two network devices of this machine, each DEVICE or NETNS/DEVICE.
    #[arg(long, value_name = "A,B", conflicts_with = "linger")]
    pub between: Option<String>,
    /// Rate of both directions, such as 10Mbit/s.
    #[arg(long, value_name = "RATE", required_unless_present_all = ["rate_up", "rate_down"])]
    pub rate: Option<String>,
    /// Rate from the program to this machine, or from A to B; defaults to --rate.
    #[arg(long, value_name = "RATE")]
    pub rate_up: Option<String>,
    /// Rate from this machine to the program, or from B to A; defaults to --rate.
    #[arg(long, value_name = "RATE")]
    pub rate_down: Option<String>,
    /// Propagation delay of each direction.
    #[arg(long, value_name = "TIME", default_value = "0 ms")]
    pub delay: String,
    /// Share of the packets that each direction loses at random, such as '5 %'; defaults to none.
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<String>,
    /// Queue size of each direction, such as 20pkt; defaults to 100 packets.
    #[arg(long, value_name = "SIZE")]
    pub queue: Option<String>,
    /// End the link after this time.
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// Run nothing; print the scenario, to be edited and run with `emulate`.
    #[arg(long)]
    pub generate: bool,
    #[command(flatten)]
    pub real: RealTime,
    #[command(flatten)]
    pub set: Set,
    /// Suppress warnings and the result.
    #[arg(long, short)]
    pub quiet: bool,
    /// Program and its arguments.
    #[arg(last = true, required_unless_present_any = ["generate", "between"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
