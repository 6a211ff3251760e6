//! Arguments of `roughlink gateway`.

use super::ListArgs;
use clap::{ArgGroup, Args, Subcommand};
use roughlink_lab::experiment::assignment;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// List the gateways, with parameters and sources.
    #[command(after_help = "Examples:\n  roughlink gateway list\n  roughlink gateway list --json")]
    List(ListArgs),
    /// Run a gateway on real packets (Linux).
    #[command(after_help = "Examples:
  sudo roughlink gateway run muniz --between eth1 eth0
      bridges the home network at eth1 and the Internet at eth0
  sudo roughlink gateway run mizutani --queue 5 --install --inside eth1
      on a router, which forwards packets itself if the gateway ends
  sudo roughlink gateway run avoca-rx --queue 5 --install \\
      --coverage /run/roughlink/coverage.sock
      for the connections of this machine
  sudo roughlink gateway run pep --between eth1 eth0 --set cc=wave-fr
      splits TCP connections before the satellite at eth0
  sudo roughlink gateway run muniz --between eth1 eth0 --dry-run
  sudo roughlink gateway run muniz --between eth1 eth0 --unit \\
      > /etc/systemd/system/roughlink-muniz.service
Ctrl-C ends the gateway. `roughlink gateway stat` shows its connections.")]
    Run(Box<GatewayRun>),
    /// Check whether this machine can run gateways (Linux).
    #[command(after_help = "Example:\n  sudo roughlink gateway check")]
    Check(ListArgs),
    /// Show the connections and counters of running gateways (Linux).
    #[command(after_help = "Examples:
  sudo roughlink gateway stat
  sudo roughlink gateway stat muniz --follow
  sudo roughlink gateway stat muniz --json")]
    Stat(GatewayStat),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true))]
pub(crate) struct GatewayRun {
    /// Gateway; `roughlink gateway list` lists all.
    pub gateway: String,
    /// Bridge these two Ethernet devices. The served hosts are behind INNER, and the rough link of `pep` is behind
    /// OUTER. While no gateway runs, no packet passes.
    #[arg(long, num_args = 2, value_names = ["INNER", "OUTER"], group = "place")]
    pub between: Vec<String>,
    /// Read netfilter queues: N for packets from the served hosts, N + 1 for packets to them. While no gateway runs,
    /// rules with `bypass` let the packets pass.
    #[arg(long, value_name = "N", group = "place")]
    #[arg(value_parser = clap::value_parser!(u16).range(..i64::from(u16::MAX)))]
    pub queue: Option<u16>,
    /// Install rules that queue TCP segments, and remove them at the end: by nftables or iptables.
    #[arg(long, requires = "queue", conflicts_with = "between")]
    pub install: bool,
    /// With --install, serve the hosts behind this device of a router; by default, serve this machine.
    #[arg(long, value_name = "DEVICE", requires = "install")]
    pub inside: Option<String>,
    /// Set a parameter of the gateway, such as floor=3, table.capacity=1000 or cc=wave; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Unix socket of an agent that reports coverage, which `avoca-rx` needs.
    #[arg(long, value_name = "SOCKET")]
    pub coverage: Option<PathBuf>,
    /// Change, drop and send nothing; count the decisions of the gateway.
    #[arg(long)]
    pub dry_run: bool,
    /// Name of this instance for `roughlink gateway stat`; defaults to the gateway's name.
    #[arg(long = "as", value_name = "NAME")]
    pub rename: Option<String>,
    /// Also serve the status and metrics (Prometheus) by HTTP at this port of 127.0.0.1, or at an address and port.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// User that the program becomes once it has opened everything.
    #[arg(long, value_name = "USER", default_value = "nobody")]
    pub user: String,
    /// Run nothing; print a systemd unit that runs the gateway with these options.
    #[arg(long)]
    pub unit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayStat {
    /// Name of the instance; may be left out if only one runs.
    pub name: Option<String>,
    /// Print a line of changes each second until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// Print JSON; with --follow, one object per line.
    #[arg(long)]
    pub json: bool,
}
