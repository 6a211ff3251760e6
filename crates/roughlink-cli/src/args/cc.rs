//! Arguments of `roughlink cc`: congestion controls, simulated and in the kernel.

use super::ListArgs;
use clap::{Args, Subcommand, ValueEnum};
use roughlink_lab::experiment::assignment;

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the algorithms, or those in the kernel.
    #[command(
        after_help = "Examples:\n  roughlink cc list\n  roughlink cc list bbr cubic\n  roughlink cc list --json\n  roughlink cc list --kernel"
    )]
    List(CcList),
    /// Check the requirements of algorithms in the kernel on this machine (Linux).
    #[command(after_help = "Example:\n  sudo roughlink cc check")]
    Check(ListArgs),
    /// Load an algorithm into the running kernel (Linux).
    #[command(after_help = "Without --pin it stays until Ctrl-C.

Examples:
  sudo roughlink cc load illinois-aa
      and then: iperf3 -C illinois_aa -c HOST
  sudo roughlink cc load newreno-sc --default --pin
      for all new connections here, until it is unloaded
  sudo roughlink cc load newreno-sc --as sc20 --param min_ssthresh=20 \\
      --netns charger --default
  sudo roughlink cc load illinois-aa --default --pin --unit
      prints a systemd unit that does it at each start")]
    Load(LoadArgs),
    /// Unload algorithms from the kernel, and replace them where they are the default of a namespace (Linux).
    #[command(after_help = "Connections go on with the algorithm until they end.

Examples:
  sudo roughlink cc unload illinois_aa
  sudo roughlink cc unload --all")]
    Unload(Unload),
    /// Set the coverage state of `avoca` in the kernel (Linux).
    #[command(after_help = "Example:\n  sudo roughlink cc coverage avoca off; sleep 20
  sudo roughlink cc coverage avoca on")]
    Coverage(CoverageArgs),
    /// Show the counters and open connections of an algorithm in the kernel, or follow its events (Linux).
    #[command(after_help = "Examples:
  sudo roughlink cc stat illinois_aa
  sudo roughlink cc stat illinois_aa --follow
  sudo roughlink cc stat illinois_aa --follow --acks --json")]
    Stat(Stat),
}

#[derive(Debug, Args)]
pub(crate) struct CcList {
    /// Show these algorithms with their parameters on the stack `linux`, and those that differ on other stacks.
    #[arg(value_name = "NAME", conflicts_with_all = ["json", "kernel"])]
    pub names: Vec<String>,
    /// Print one JSON array, with all details of each entry.
    #[arg(long)]
    pub json: bool,
    /// List the algorithms that are loaded into the kernel, and those that can be.
    #[arg(long)]
    pub kernel: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Algorithm from `roughlink cc list --kernel`.
    pub name: String,
    /// Set a parameter of the algorithm; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Name in the kernel, at most 15 characters; if absent, the algorithm's name with `_` for `-`.
    #[arg(long = "as", value_name = "NAME")]
    pub rename: Option<String>,
    /// Make the algorithm the default of new connections, here or in the namespaces of --netns.
    #[arg(long)]
    pub default: bool,
    /// Network namespace, as a name of `ip netns` or a path; may be repeated.
    #[arg(long, value_name = "NAME", requires = "default")]
    pub netns: Vec<String>,
    /// Return at once, and keep the algorithm loaded until `roughlink cc unload` or a restart of the machine.
    #[arg(long)]
    pub pin: bool,
    /// Load nothing, and print a systemd unit that loads the algorithm in this way at each boot.
    #[arg(long)]
    pub unit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Unload {
    /// Names of the algorithms in the kernel.
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Unload all algorithms that roughlink has loaded.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CoverageArgs {
    /// Name of the algorithm in the kernel.
    pub name: String,
    /// State to set: coverage or none.
    pub coverage: OnOffArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOffArg {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Name of the algorithm in the kernel.
    pub name: String,
    /// Print the events of its connections until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// Print each ACK, too.
    #[arg(long, requires = "follow")]
    pub acks: bool,
    /// Print JSON; with --follow, one object per line.
    #[arg(long)]
    pub json: bool,
}
