//! The command line interface: commands, arguments, help.

pub(crate) mod cc;
pub(crate) mod link;

use cc::CcCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use link::LinkArgs;
use roughlink_core::net::{MOST_BYTES, RunLimits};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::assignment;
use roughlink_lab::experiment::grid::{COMPARE_REPLICAS, SWEEP_REPLICAS};
use roughlink_lab::experiment::plan::MOST_RUNS;
use roughlink_lab::library::Overrides;
use std::ffi::OsString;
use std::path::PathBuf;

/// Version, and the revision of the source that the program was built from.
const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (revision ", env!("ROUGHLINK_REVISION"), ")");

/// Simulates transport over links that lose packets.
#[derive(Debug, Parser)]
#[command(name = "roughlink", version, long_version = LONG_VERSION, propagate_version = true, arg_required_else_help = true)]
#[command(max_term_width = 80)]
#[command(after_help = "Exit codes: 0 done; 2 bad input; 3 the machine lacks something (disk space, rights, a tool); \
    4 an emulated link was late; 5 an expectation failed; \
    70 a fault of roughlink itself; 130 interrupted (it ends by the signal). If a program at an emulated link fails, its own.")]
pub(crate) struct Roughlink<C: Subcommand> {
    #[command(subcommand)]
    pub command: C,
}

/// All commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub(crate) enum AnyCommand {
    #[command(flatten)]
    Shown(Command),
    /// Write the reference pages that are made from the schema and the registries.
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

/// Commands that appear in help, manual pages and completions.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one scenario.
    Run(RunArgs),
    /// Put real programs behind the links of a scenario, in real time (Linux).
    Emulate(Box<Emulate>),
    /// Put a program behind one link, or one link between two network devices, in real time (Linux).
    Link(LinkArgs),
    /// Open a shell at a node of a running emulation (Linux).
    Shell(ShellAt),
    /// Recompute a paper and compare the results with the published ones.
    Reproduce(Reproduce),
    /// Run a scenario over a grid of values, on all cores.
    Sweep(Sweep),
    /// Compare scenarios or algorithms side by side, with confidence intervals.
    Compare(Compare),
    /// Merge the parts of a sweep or comparison.
    Merge(Merge),
    /// Write an HTML report of a result folder.
    Report(ReportArgs),
    /// List, load and inspect congestion control algorithms.
    #[command(subcommand)]
    Cc(CcCommand),
    /// List the gateways, which can be placed at a link.
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// List, print, check and copy scenarios.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// List the metrics.
    #[command(subcommand)]
    Metric(MetricCommand),
    /// Print the JSON Schema of scenario files, or of results.
    #[command(after_help = "Examples:\n  roughlink schema > scenario.schema.json\n  \
        roughlink schema results > results.schema.json")]
    Schema(Schema),
    /// List the features that this machine supports.
    Doctor(Doctor),
    /// Print the completion script for a shell.
    Completions(Completions),
    /// Print a manual page.
    Man(Man),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink run hello
  roughlink run my.toml --set link.plc.noise.mean='1 %' --json
  roughlink run my.toml -o results/mine && roughlink report results/mine
  roughlink run v2g-one-car --set tcp.cc=cubic --set 'flow.*.bytes=10 MB'")]
pub(crate) struct RunArgs {
    /// A scenario file, or the name of a built-in scenario; `-` reads standard input.
    pub scenario: String,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Seed of all random streams, instead of the scenario's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Replica number: the same scenario with other random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub replica: u32,
    /// End the run with an error after this many events and packets sent; no limit if absent.
    #[arg(long, value_name = "N")]
    pub max_events: Option<u64>,
    #[command(flatten)]
    pub memory: Memory,
    /// Write results, time series and a capture of each host to this folder.
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the results that the folder holds.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Write at most one row of the time series per flow and interval (10 ms, ...); all rows if absent.
    #[arg(long, value_name = "TIME", requires = "output")]
    pub sample: Option<String>,
    /// Write no captures, which are the largest files.
    #[arg(long, requires = "output")]
    pub no_capture: bool,
    /// Capture at these hosts only.
    #[arg(long, value_name = "A,B,...", requires = "output", conflicts_with = "no_capture")]
    pub capture_at: Option<String>,
    /// Write one capture.pcapng for all hosts instead of a file for each; always so with more than 64 hosts.
    #[arg(long, requires = "output", conflicts_with = "no_capture")]
    pub one_capture: bool,
    /// Bytes of each packet that captures keep; 0 = all. The default of 128 holds all headers; packets of charging
    /// sessions and SCTP are kept whole.
    #[arg(long, value_name = "BYTES", requires = "output", conflicts_with = "no_capture")]
    pub snaplen: Option<u32>,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink emulate my.toml --exec server -- iperf3 -s \\
      --exec car -- sh -c 'iperf3 -c $ROUGHLINK_SERVER'
  roughlink emulate my.toml --until car --exec server -- ./serve \\
      --exec car -- ./update --from 10.0.0.1
  roughlink emulate my.toml --kernel server --kernel car --for 600s
      and then: roughlink shell car
  roughlink emulate my.toml --interface car=eth1 --interface charger=eth2
      this machine is the link between two others
Options come before the first `--exec NODE -- COMMAND`, of which there may be several. A program ends with the emulation, and so \
does everything that it started. The environment has ROUGHLINK_NODE, and ROUGHLINK_ and each node's name with its address. It ends when \
all programs have ended, or one of them fails, or when the scenario's duration is over.")]
pub(crate) struct Emulate {
    /// A scenario file, or the name of a built-in scenario; `-` reads standard input.
    pub scenario: String,
    /// Make this node a kernel node, a Linux host with its own network namespace, as `kernel = true` does in the
    /// scenario.
    #[arg(long, value_name = "NODE")]
    pub kernel: Vec<String>,
    /// Use this machine itself as the node, with an additional network device during the emulation.
    #[arg(long, value_name = "NODE")]
    pub here: Option<String>,
    /// Attach a network device of this machine, DEVICE or NETNS/DEVICE, as with `interface` in the scenario; the hosts
    /// behind it take the place of NODE.
    #[arg(long, value_name = "NODE=DEVICE")]
    pub interface: Vec<String>,
    /// Exchange IP datagrams (`ip`) or Ethernet frames (`ethernet`) with all kernel nodes, instead of `layer` in the
    /// scenario.
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// Turn off the carrier of a kernel node's device while all links at the node are down.
    #[arg(long)]
    pub carrier: bool,
    /// Run the command after `--` at this node, which becomes a kernel node.
    #[arg(long, value_name = "NODE", requires = "command")]
    pub exec: Option<String>,
    /// End the emulation when the program at this node ends.
    #[arg(long, value_name = "NODE", requires = "exec")]
    pub until: Option<String>,
    /// Maximum duration, instead of the scenario's.
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// Capture the packets of kernel nodes and attached devices in this pcapng file, in full and with the network's own
    /// times.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Write results to this folder, which must be new or empty: the scenario, the result, time series (CSV), a capture
    /// and the output of the programs. The folder also records the command line and versions. Files are written during
    /// the run, the result at the end.
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write no capture to the folder.
    #[arg(long, requires = "output", conflicts_with = "capture")]
    pub no_capture: bool,
    #[command(flatten)]
    pub real: RealTime,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub reading: ReadArgs,
    #[command(flatten)]
    pub memory: Memory,
    #[command(flatten)]
    pub form: OutputArgs,
    /// Program and its arguments, followed by `--exec NODE -- COMMAND` for each further program.
    #[arg(last = true, requires = "exec", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink shell car
  roughlink shell car -- ip -s link")]
pub(crate) struct ShellAt {
    /// Node of the emulation.
    pub node: String,
    /// Process ID of the emulation, if several run.
    #[arg(long, value_name = "N")]
    pub process: Option<u32>,
    /// Command to run instead of a shell.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options that all emulations share.
#[derive(Debug, Args)]
pub(crate) struct RealTime {
    /// Fail (exit code 4) if more than 1 % of packets leave later than this after they are due, or wait longer than
    /// this before the link reads them. Also fail if the link stalls for more than 100 times this time. The limit
    /// applies to programs, too: fail if more than 1 % of their time slices begin later than this after the program
    /// became runnable.
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    pub max_lateness: String,
    /// After all programs have ended, wait for at most this time until the data that they sent by TCP is acknowledged.
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    pub linger: String,
    /// Seed of all random streams, instead of the scenario's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Replica number: the same scenario with other random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub replica: u32,
    /// Serve the live view, a page that shows the emulation and can change links, at this address or at this port of
    /// 127.0.0.1. The command prints the URL. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub serve: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink reproduce                          what there is
  roughlink reproduce v2g                      the whole paper
  roughlink reproduce all                      all papers, results/index.html
  roughlink reproduce v2g table2 --quick
  roughlink reproduce v2g fig4 --only cc=newreno,illinois --stack ns3
  roughlink reproduce v2g table2 --set link.internet.delay='0.9 ms'
      another reading of the paper")]
pub(crate) struct Reproduce {
    /// Name of the paper, or `all`.
    pub paper: Option<String>,
    /// Experiments of the paper; all if absent. `fig8` means fig8a and fig8b.
    pub experiments: Vec<String>,
    /// Compute fewer and smaller cells.
    #[arg(long)]
    pub quick: bool,
    /// Fail (exit code 5) if a value, a ranking or a claim does not agree with the paper within the tolerance.
    #[arg(long)]
    pub strict: bool,
    /// Stacks to run on.
    #[arg(long, value_enum, default_value_t = StackArg::Both)]
    pub stack: StackArg,
    /// Override a key of the scenario, or an axis: axis.NAME.key, axis.NAME.values.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Keep only these values of an axis.
    #[arg(long, value_name = "AXIS=A,B,...")]
    pub only: Vec<String>,
    /// Runs of each cell, instead of the paper's number.
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink sweep v2g-one-car --set tcp.cc=newreno,cubic \\
      --set link.plc.noise.mean='0.5 %,1 %,2 %' --replicas 5
  roughlink sweep my.toml --set tcp.cc=cubic,htcp --metric throughput_mbps \\
      --metric rtt_p95_ms --json -o results/mine
The same command again goes on where it was interrupted.")]
pub(crate) struct Sweep {
    /// A scenario file, or the name of a built-in scenario.
    pub scenario: String,
    /// Set a key: a single value is fixed, several values form an axis.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Runs of each cell.
    #[arg(long, value_name = "N", default_value_t = SWEEP_REPLICAS)]
    pub replicas: u32,
    /// Metric to compute, such as throughput_mbps, throughput_mbps@car1, rtt_p95_ms:max or loss@plc; the default
    /// depends on the kinds of flows.
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    #[command(flatten)]
    pub division: Division,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink compare hello --cc newreno,cubic,htcp
  roughlink compare train-tunnels --cc 'cubic,avoca,avoca{hysteresis=6}'
  roughlink compare before.toml after.toml --replicas 12 \\
      --metric throughput_mbps --metric jain
  roughlink compare hello --set 'link.wire.delay=10 ms,40 ms' \\
      --metric duration_s:p50
Each is compared with the first: the difference within replicas, which share
their random numbers, its 95 % confidence interval, and whether that excludes
zero.")]
pub(crate) struct Compare {
    /// Scenario files or names of built-in scenarios.
    #[arg(required = true)]
    pub scenarios: Vec<String>,
    /// Algorithms to compare in each scenario; parameters follow in braces: 'avoca{rss_threshold=-110},cubic'.
    #[arg(long, value_name = "A,B,...")]
    pub cc: Option<String>,
    /// Override a key of the scenario; several values are compared.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Runs of each combination.
    #[arg(long, value_name = "N", default_value_t = COMPARE_REPLICAS)]
    pub replicas: u32,
    /// Metric to compare. The default depends on the kinds of flows. Transfers: throughput, time-outs and mean RTT.
    /// Charging sessions: latency and late messages of the charging loop, and survival. Calls: mean opinion score.
    /// Remaining flows: latency.
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    #[command(flatten)]
    pub division: Division,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink merge parts/* -o whole
  roughlink merge part1 part2 part3 -o whole --json
Runs that several parts have must be equal. If runs are missing, they are named, and so are the parts to be run again.")]
pub(crate) struct Merge {
    /// Folders of parts, written by `sweep --part` or `compare --part` for the same scenario and arguments.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Result folder of the whole grid.
    #[arg(short, value_name = "DIR")]
    pub output: PathBuf,
    /// Refuse a grid with more runs.
    #[arg(long, value_name = "N", default_value_t = MOST_RUNS)]
    pub max_runs: u64,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink report results/v2g
  roughlink report results/mine -o mine.html")]
pub(crate) struct ReportArgs {
    /// A folder written by `run -o`, `sweep`, `compare` or `reproduce`.
    pub folder: PathBuf,
    /// Output file; report.html in the folder if absent.
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// List the gateways with their parameters, defaults and units.
    #[command(after_help = "Examples:\n  roughlink gateway list\n  roughlink gateway list --json")]
    List(ListArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// List the built-in scenarios.
    #[command(after_help = "Examples:\n  roughlink scenario list\n  roughlink scenario list --json")]
    List(ListArgs),
    /// Print a scenario file unchanged.
    #[command(after_help = "Example:\n  roughlink scenario show v2g-one-car")]
    Show(ShowScenario),
    /// Check scenario files and summarize their links and flows, without a run.
    #[command(after_help = "Examples:
  roughlink scenario check my.toml other.toml
  roughlink scenario check my.toml --set tcp.cc=bbr --json
Exit code 2 if a file has a fault; all files are checked.")]
    Check(CheckScenarios),
    /// Copy a scenario to a file for editing.
    #[command(after_help = "Examples:
  roughlink scenario copy v2g-one-car              into v2g-one-car.toml
  roughlink scenario copy v2g-one-car mine.toml")]
    Copy(CopyScenario),
}

#[derive(Debug, Args)]
pub(crate) struct ShowScenario {
    /// Name of a built-in scenario, or a file.
    pub name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckScenarios {
    /// Scenario files or names of built-in scenarios; `-` reads standard input.
    #[arg(required = true, value_name = "FILE")]
    pub scenarios: Vec<String>,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Print one JSON array instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CopyScenario {
    /// Name of a built-in scenario, or a file.
    pub name: String,
    /// Output file or folder; NAME.toml if absent. Files that the scenario reads are copied to the same folder.
    pub file: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MetricCommand {
    /// List the metrics for `--metric`, with units and meanings.
    #[command(after_help = "Examples:\n  roughlink metric list\n  roughlink metric list --json")]
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink completions bash \\
      > ~/.local/share/bash-completion/completions/roughlink
  roughlink completions zsh > ~/.zfunc/_roughlink    with ~/.zfunc in fpath
  roughlink completions fish > ~/.config/fish/completions/roughlink.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl From<Shell> for clap_complete::Shell {
    fn from(shell: Shell) -> Self {
        match shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink man > roughlink.1
  roughlink man scenario copy | man -l -")]
pub(crate) struct Man {
    /// Command, followed by its subcommand if it has any; the whole program if absent.
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON array, with all details of each entry.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The kind of file.
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Scenario files: the input of `run`, `sweep` and `compare`.
    Scenario,
    /// The `results.json` that `sweep`, `compare` and `reproduce` write.
    Results,
}

#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// The folder of the pages.
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// List and remove leftovers of ended emulations on this machine: processes, and the network namespaces that they
    /// hold.
    #[arg(long)]
    pub clean: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Let the scenario read traces and logs outside its own folder.
    #[arg(long)]
    pub allow_outside: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Override a key of the scenario.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Set {
    /// Parses the overrides into keys and values.
    pub(crate) fn overrides(&self) -> Result<Overrides, LabError> {
        self.set.iter().map(|text| assignment(text)).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Suppress warnings and progress.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Memory {
    /// End a run with an error when its packets and records take more memory.
    #[arg(long, value_name = "MB", default_value_t = MOST_BYTES / 1_000_000)]
    pub max_memory: u64,
}

impl Memory {
    /// Returns the limits of a run.
    pub(crate) fn limits(&self) -> RunLimits {
        RunLimits { bytes: self.max_memory.saturating_mul(1_000_000), ..RunLimits::default() }
    }
}

/// Options that divide a grid among processes.
#[derive(Debug, Args)]
pub(crate) struct Division {
    /// Execute only part K of N of the runs, for a job array: `3/20`. `roughlink merge` merges the folders of all
    /// parts.
    #[arg(long, value_name = "K/N")]
    pub part: Option<String>,
}

/// Arguments of all commands that run a grid.
#[derive(Debug, Args)]
pub(crate) struct GridArgs {
    /// Result folder, which is resumed if it has results; if absent, a folder in results/ without results of other
    /// experiments.
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Seed of all random streams, instead of the scenario's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Refuse a grid with more runs.
    #[arg(long, value_name = "N", default_value_t = MOST_RUNS)]
    pub max_runs: u64,
    #[command(flatten)]
    pub memory: Memory,
    /// Number of parallel runs; the number of cores if absent.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackArg {
    /// The stack of the paper's simulator, which is compared with the published values.
    Ns3,
    /// The stack of ns-2, for papers that used it.
    Ns2,
    /// The stack that behaves like today's Linux.
    Linux,
    /// Both stacks of the paper's experiments, side by side.
    Both,
    /// Both stacks and the running kernel's TCP: in real time, over emulated links, with roughlink's algorithms in the
    /// kernel. Needs root and `make kernel`.
    Kernel,
}
