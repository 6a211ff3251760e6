//! Arguments of `roughlink cc`: congestion controls, simulated and in the kernel.

use super::List;
use clap::{Args, Subcommand, ValueEnum};
use roughlink_lab::experiment::assignment;

#[derive(Debug, Subcommand)]
pub(crate) enum Cc {
    /// List the algorithms, or those in the kernel.
    #[command(
        after_help = "Examples:\n  roughlink cc list\n  roughlink cc list bbr cubic\n  roughlink cc list --json\n  roughlink cc list --kernel"
    )]
    List(CcList),
    /// Say what this machine has of what algorithms in the kernel need (Linux).
    #[command(after_help = "Example:\n  sudo roughlink cc check")]
    Check(List),
    /// Put an algorithm into the running kernel (Linux).
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
    Load(Load),
    /// Take algorithms out of the kernel; no namespace has them as its default afterwards (Linux).
    #[command(after_help = "Connections go on with the algorithm until they end.

Examples:
  sudo roughlink cc unload illinois_aa
  sudo roughlink cc unload --all")]
    Unload(Unload),
    /// Tell `avoca` in the kernel whether there is coverage (Linux).
    #[command(after_help = "Example:\n  sudo roughlink cc coverage avoca off; sleep 20
  sudo roughlink cc coverage avoca on")]
    Coverage(Coverage),
    /// Show what an algorithm in the kernel has counted and its open connections, or follow them (Linux).
    #[command(after_help = "Examples:
  sudo roughlink cc stat illinois_aa
  sudo roughlink cc stat illinois_aa --follow
  sudo roughlink cc stat illinois_aa --follow --acks --json")]
    Stat(Stat),
}

#[derive(Debug, Args)]
pub(crate) struct CcList {
    /// Show these with their parameters, on the stack `linux` and where others differ.
    #[arg(value_name = "NAME", conflicts_with_all = ["json", "kernel"])]
    pub names: Vec<String>,
    /// One JSON array, with all details of each entry.
    #[arg(long)]
    pub json: bool,
    /// Those that can be loaded into the kernel, and those that are.
    #[arg(long)]
    pub kernel: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// An algorithm, as `roughlink cc list --kernel` lists them.
    pub name: String,
    /// A parameter of it; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Its name in the kernel, at most 15 characters; the algorithm's if absent, with `_` for `-`.
    #[arg(long = "as", value_name = "NAME")]
    pub rename: Option<String>,
    /// Make it the default of new connections, here or in the namespaces of --netns.
    #[arg(long)]
    pub default: bool,
    /// A network namespace, by the name that `ip netns` has for it or by a path; may be repeated.
    #[arg(long, value_name = "NAME", requires = "default")]
    pub netns: Vec<String>,
    /// Return at once; it stays until `roughlink cc unload`, or the machine restarts.
    #[arg(long)]
    pub pin: bool,
    /// Load nothing: print a systemd unit that loads it in this way at each start.
    #[arg(long)]
    pub unit: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Unload {
    /// Names in the kernel.
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// All that roughlink has loaded.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Coverage {
    /// Its name in the kernel.
    pub name: String,
    /// Whether there is coverage.
    pub coverage: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Its name in the kernel.
    pub name: String,
    /// Print what happens to its connections, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// Each acknowledgement, too.
    #[arg(long, requires = "follow")]
    pub acks: bool,
    /// JSON; an object per line with --follow.
    #[arg(long)]
    pub json: bool,
}
