//! Arguments of `roughlink cc`: congestion controls, simulated and in the kernel.

use super::ListArgs;
use clap::{Args, Subcommand, ValueEnum};
use roughlink_lab::experiment::assignment;

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the algorithms.
    #[command(after_help = "Examples:
  roughlink cc list
  roughlink cc list bbr cubic
  roughlink cc list --json
  roughlink cc list --kernel")]
    List(CcList),
    /// Check whether this machine can load algorithms into its kernel (Linux).
    #[command(after_help = "Example:\n  sudo roughlink cc check")]
    Check(ListArgs),
    /// Load an algorithm into the running kernel (Linux).
    #[command(after_help = "Examples:
  sudo roughlink cc load illinois-aa
      then, in another terminal: iperf3 -C illinois_aa -c HOST
  sudo roughlink cc load newreno-sc --default --pin
      default of all new connections until `roughlink cc unload`
  sudo roughlink cc load newreno-sc --as sc20 --param min_ssthresh=20 \\
      --netns charger --default
  sudo roughlink cc load illinois-aa --default --pin --unit
      prints a systemd unit that loads the algorithm at each boot
Without --pin, the algorithm stays loaded until you press Ctrl-C.")]
    Load(LoadArgs),
    /// Unload algorithms from the kernel (Linux).
    #[command(after_help = "Examples:
  sudo roughlink cc unload illinois_aa
  sudo roughlink cc unload --all
Namespaces whose default was unloaded return to their previous default.
Open connections keep the algorithm until they end.")]
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
    /// Show the parameters of these algorithms on the stack `linux`, and values that differ on other stacks.
    #[arg(value_name = "NAME", conflicts_with_all = ["json", "kernel"])]
    pub names: Vec<String>,
    /// Print one JSON array, with all details of each entry.
    #[arg(long)]
    pub json: bool,
    /// List the algorithms that are loaded into the kernel, and those that can be loaded.
    #[arg(long)]
    pub kernel: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Algorithm to load; `roughlink cc list --kernel` lists all.
    pub name: String,
    /// Set a parameter of the algorithm; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Name in the kernel, at most 15 characters; defaults to the algorithm's name with `_` for `-`.
    #[arg(long = "as", value_name = "NAME")]
    pub rename: Option<String>,
    /// Make the algorithm the default of new connections in this namespace, or in those of --netns.
    #[arg(long)]
    pub default: bool,
    /// Network namespace that gets the default: a name of `ip netns` or a path; may be repeated.
    #[arg(long, value_name = "NAME", requires = "default")]
    pub netns: Vec<String>,
    /// Return at once and keep the algorithm loaded until `roughlink cc unload` or a reboot.
    #[arg(long)]
    pub pin: bool,
    /// Load nothing; print a systemd unit that loads the algorithm with these options at each boot.
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
    /// Coverage state to set.
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
    /// Print the events of the algorithm's connections until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// Also print each ACK.
    #[arg(long, requires = "follow")]
    pub acks: bool,
    /// Print JSON; with --follow, one object per line.
    #[arg(long)]
    pub json: bool,
}
