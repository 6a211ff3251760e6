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
      this machine is the link between two others
A program is in a network of its own, at node `inside`, and reaches services of \
this machine, at node `host`, by the address in ROUGHLINK_HOST; services must \
not listen on 127.0.0.1 only. Its input and output are those of the command. \
`up` is from the program to this machine.

With --between no program runs. The link carries Ethernet frames between the \
hosts behind the two devices until Ctrl-C, or as long as --for says. `up` is \
from the first device to the second. The devices must be up, and should have \
no addresses.")]
pub(crate) struct LinkArgs {
    /// Put the link between the hosts behind these two network devices of this machine. Each may be NETNS/DEVICE.
    #[arg(long, value_name = "A,B", conflicts_with = "linger")]
    pub between: Option<String>,
    /// Rate of both directions.
    #[arg(long, value_name = "RATE", required_unless_present_all = ["rate_up", "rate_down"])]
    pub rate: Option<String>,
    /// Rate from the program to this machine, or from A to B, if it differs from `--rate`.
    #[arg(long, value_name = "RATE")]
    pub rate_up: Option<String>,
    /// Rate from this machine to the program, or from B to A, if it differs from `--rate`.
    #[arg(long, value_name = "RATE")]
    pub rate_down: Option<String>,
    /// Propagation delay of each direction.
    #[arg(long, value_name = "TIME", default_value = "0 ms")]
    pub delay: String,
    /// Share of the packets that each direction loses at random.
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<String>,
    /// Queue of each direction; 100 packets if absent.
    #[arg(long, value_name = "SIZE")]
    pub queue: Option<String>,
    /// End the link after this time.
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// Print the scenario file for editing and use with `emulate`, and run nothing.
    #[arg(long)]
    pub generate: bool,
    #[command(flatten)]
    pub real: RealTime,
    #[command(flatten)]
    pub set: Set,
    /// Suppress warnings, and the result if all went well.
    #[arg(long, short)]
    pub quiet: bool,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present_any = ["generate", "between"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
