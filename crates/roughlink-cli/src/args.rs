//! The command line interface: commands, arguments, help.

pub(crate) mod agent;
pub(crate) mod cc;
pub(crate) mod gateway;
pub(crate) mod link;

use agent::AgentArgs;
use cc::CcCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gateway::GatewayCommand;
use link::LinkArgs;
use roughlink_core::net::{MAX_BYTES, RunLimits};
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::assignment;
use roughlink_lab::experiment::grid::{COMPARE_REPLICAS, SWEEP_REPLICAS};
use roughlink_lab::experiment::order::MAX_RUNS;
use roughlink_lab::library::Overrides;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Version, and the revision of the source that the program was built from.
const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (revision ", env!("ROUGHLINK_REVISION"), ")");

/// Simulate and emulate transport over links that lose packets.
#[derive(Debug, Parser)]
#[command(name = "roughlink", version, long_version = LONG_VERSION, propagate_version = true)]
#[command(arg_required_else_help = true, max_term_width = 80)]
#[command(after_help = "Exit codes:
  0    success
  2    invalid input
  3    the machine lacks something: disk space, permissions, a tool
  4    an emulated link was late
  5    an expectation failed
  70   a bug in roughlink
  130  interrupted; the process ends by the signal
If a program at an emulated link fails, roughlink exits with the program's code.")]
pub(crate) struct Roughlink {
    #[command(subcommand)]
    pub command: Command,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario and print its results.
    Run(RunArgs),
    /// Run programs behind the links of a scenario, in real time (Linux).
    Emulate(Box<Emulate>),
    /// Run a program behind one link, or put the link between two network devices (Linux).
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
    /// List gateways, and run them on real packets.
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Report the coverage of a mobile link to gateways and algorithms (Linux).
    Agent(Box<AgentArgs>),
    /// List, print, check and copy scenarios.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// List the metrics.
    #[command(subcommand)]
    Metric(MetricCommand),
    /// Print the JSON Schema of scenario files or of results.
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
    /// Scenario file or name of a built-in scenario; `-` reads standard input.
    pub scenario: String,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Seed of all random streams; defaults to the scenario's seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Replica number; each replica uses other random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub replica: u32,
    /// End the run with an error after this many events and sent packets; defaults to no limit.
    #[arg(long, value_name = "N")]
    pub max_events: Option<u64>,
    #[command(flatten)]
    pub memory: Memory,
    /// Number of threads; defaults to the number of cores. Parts of the network that share no link run in parallel,
    /// with the same results, unless `-o` or `--max-events` is given.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Write results, time series and a capture of each host to this folder.
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the results in the folder.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Write at most one row of the time series per flow and interval, such as '10 ms'; defaults to all rows.
    #[arg(long, value_name = "TIME", requires = "output")]
    pub sample: Option<String>,
    /// Write no captures, which are the largest files.
    #[arg(long, requires = "output")]
    pub no_capture: bool,
    /// Capture at these hosts only.
    #[arg(long, value_name = "A,B,...", requires = "output", conflicts_with = "no_capture")]
    pub capture_at: Option<String>,
    /// Write one capture.pcapng instead of one file per host; implied if there are more than 64 hosts.
    #[arg(long, requires = "output", conflicts_with = "no_capture")]
    pub one_capture: bool,
    /// Bytes to keep of each captured packet; 0 keeps whole packets. By default, captures keep 128 bytes, which hold
    /// all headers, and whole packets of charging sessions and SCTP.
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
      then, in another terminal: roughlink shell car
  roughlink emulate my.toml --interface car=eth1 --interface charger=eth2
      puts the links between the hosts behind eth1 and eth2
All options precede the first `--exec NODE -- COMMAND`. Repeat `--exec NODE -- COMMAND` to run further programs.

Each program finds the name of its node in ROUGHLINK_NODE, and the address of each node in a variable such as \
ROUGHLINK_CAR for the node `car`.

The emulation ends when all programs have ended, when one of them fails, or after the scenario's duration. Programs \
that still run then are ended, with all processes that they started.")]
pub(crate) struct Emulate {
    /// Scenario file or name of a built-in scenario; `-` reads standard input.
    pub scenario: String,
    /// Make this node a kernel node, with its own network namespace, like `kernel = true` in the scenario.
    #[arg(long, value_name = "NODE")]
    pub kernel: Vec<String>,
    /// Use this machine as NODE, with an additional network device during the emulation.
    #[arg(long, value_name = "NODE")]
    pub here: Option<String>,
    /// Attach a network device of this machine, DEVICE or NETNS/DEVICE, like `interface` in the scenario. The hosts
    /// behind DEVICE take the place of NODE.
    #[arg(long, value_name = "NODE=DEVICE")]
    pub interface: Vec<String>,
    /// Layer of all kernel nodes: `ip` exchanges IP datagrams, `ethernet` exchanges Ethernet frames. Overrides `layer`
    /// in the scenario.
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// Turn off the carrier of a kernel node's device while all links of the node are down.
    #[arg(long)]
    pub carrier: bool,
    /// Run the command after `--` at this node, which becomes a kernel node.
    #[arg(long, value_name = "NODE", requires = "command")]
    pub exec: Option<String>,
    /// End the emulation when the program at this node ends.
    #[arg(long, value_name = "NODE", requires = "exec")]
    pub until: Option<String>,
    /// Maximum duration; defaults to the scenario's duration.
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<String>,
    /// Capture the packets of kernel nodes and attached devices in this new pcapng file. Packets are whole, and
    /// timestamps are in the time of the emulated network.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Write results to this folder, which must be new or empty: the scenario, the result, time series (CSV), a
    /// capture, the output of the programs, the command line and versions. The result is written at the end, the other
    /// files during the emulation.
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
    /// Program and its arguments; add `--exec NODE -- COMMAND` for each further program.
    #[arg(last = true, requires = "exec", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink shell car
  roughlink shell car -- ip -s link")]
pub(crate) struct ShellAt {
    /// Node at which to open the shell.
    pub node: String,
    /// Process ID of the emulation; needed if several emulations have this node.
    #[arg(long, value_name = "N")]
    pub process: Option<u32>,
    /// Command to run instead of a shell.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options that all emulations share.
#[derive(Debug, Args)]
pub(crate) struct RealTime {
    /// Fail (exit code 4) if more than 1 % of packets are late by more than this, or wait longer than this before the
    /// link reads them. Also fail if more than 1 % of the programs' time slices begin more than this after the program
    /// became runnable, or if the link stalls for more than 100 times as long.
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    pub max_lateness: String,
    /// After all programs have ended, wait at most this long until the TCP data that they sent is acknowledged.
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    pub linger: String,
    /// Seed of all random streams; defaults to the scenario's seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Replica number; each replica uses other random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub replica: u32,
    /// Serve the live view, a web page that shows the emulation and can change links, at this address and port, or at
    /// this port of 127.0.0.1. Port 0 selects a free port. The command prints the URL.
    #[arg(long, value_name = "ADDRESS")]
    pub serve: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink reproduce                          list papers and experiments
  roughlink reproduce v2g                      recompute the whole paper
  roughlink reproduce all                      recompute all papers
  roughlink reproduce v2g table2 --quick
  roughlink reproduce v2g fig4 --only cc=newreno,illinois --stack ns3
  roughlink reproduce v2g table2 --set link.internet.delay='0.9 ms'
      with another interpretation of the paper")]
pub(crate) struct Reproduce {
    /// Name of the paper, or `all`; if absent, the command lists the papers.
    pub paper: Option<String>,
    /// Experiments of the paper; defaults to all. `fig8` selects fig8a and fig8b.
    pub experiments: Vec<String>,
    /// Compute fewer and smaller cells.
    #[arg(long)]
    pub quick: bool,
    /// Fail (exit code 5) if a value, ranking or claim differs from the paper by more than the tolerance.
    #[arg(long)]
    pub strict: bool,
    /// TCP stacks to run.
    #[arg(long, value_enum, default_value_t = StackArg::Both)]
    pub stack: StackArg,
    /// Override a key of the scenario, or `axis.NAME.key` or `axis.NAME.values` of an axis.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Keep only these values of an axis.
    #[arg(long, value_name = "AXIS=A,B,...")]
    pub only: Vec<String>,
    /// Runs of each cell; defaults to the paper's number.
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
Run the same command again to resume an interrupted sweep.")]
pub(crate) struct Sweep {
    /// Scenario file or name of a built-in scenario.
    pub scenario: String,
    /// Override a key of the scenario; several values form an axis of the grid. `KEY1,KEY2=[A,B],[C,D]` varies keys
    /// together.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub set: Vec<String>,
    /// CSV file of keys that vary together: the heading names the keys, and each line has a value for each.
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
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
The command compares each variant with the first. It prints the difference, its
95 % confidence interval, and whether the interval excludes zero. Differences
are computed within replicas, which share their random numbers.")]
pub(crate) struct Compare {
    /// Scenario files or names of built-in scenarios.
    #[arg(required = true)]
    pub scenarios: Vec<String>,
    /// Algorithms to compare in each scenario, with parameters in braces: 'avoca{rss_threshold=-110},cubic'.
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
    /// Metric to compare. The default depends on the kinds of flows: throughput, time-outs and mean RTT of transfers;
    /// survival, latency and late messages of charging sessions; mean opinion score of calls; latency of other flows.
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
Runs that several parts contain must be equal. If runs are missing, the command \
lists them and the parts to run again.")]
pub(crate) struct Merge {
    /// Folders of parts, written by `sweep --part` or `compare --part` for the same scenario and arguments.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Result folder of the whole grid.
    #[arg(short, value_name = "DIR")]
    pub output: PathBuf,
    /// Refuse grids with more runs than this.
    #[arg(long, value_name = "N", default_value_t = MAX_RUNS)]
    pub max_runs: u64,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  roughlink report results/v2g
  roughlink report results/mine -o mine.html")]
pub(crate) struct ReportArgs {
    /// Result folder of `run -o`, `emulate -o`, `sweep`, `compare` or `reproduce`.
    pub folder: PathBuf,
    /// Output file; defaults to report.html in the folder.
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// List the built-in scenarios.
    #[command(after_help = "Examples:\n  roughlink scenario list\n  roughlink scenario list --json")]
    List(ListArgs),
    /// Print a scenario file unchanged.
    #[command(after_help = "Example:\n  roughlink scenario show v2g-one-car")]
    Show(ShowScenario),
    /// Check scenario files and summarize their links and flows.
    #[command(after_help = "Examples:
  roughlink scenario check my.toml other.toml
  roughlink scenario check my.toml --set tcp.cc=bbr --json
The command checks all files and exits with code 2 if one of them is invalid.")]
    Check(CheckScenarios),
    /// Copy a scenario to a file for editing.
    #[command(after_help = "Examples:
  roughlink scenario copy v2g-one-car              writes v2g-one-car.toml
  roughlink scenario copy v2g-one-car mine.toml")]
    Copy(CopyScenario),
}

#[derive(Debug, Args)]
pub(crate) struct ShowScenario {
    /// Scenario file or name of a built-in scenario.
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
    /// Scenario file or name of a built-in scenario.
    pub name: String,
    /// Output file or folder; defaults to NAME.toml. Files that the scenario reads are copied to the same folder.
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
  roughlink completions zsh > ~/.zfunc/_roughlink    fpath must list ~/.zfunc
  roughlink completions fish > ~/.config/fish/completions/roughlink.fish")]
pub(crate) struct Completions {
    /// Shell that will read the script.
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
    /// Command, followed by its subcommand if any; defaults to the whole program.
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
    /// Kind of file.
    #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
    pub of: SchemaOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Scenario files, the input of `run`, `emulate`, `sweep` and `compare`.
    Scenario,
    /// The `results.json` that `sweep`, `compare` and `reproduce` write.
    Results,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Remove and list leftovers of ended emulations: processes, and the network namespaces that they hold.
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
    /// End a run with an error if its packets and records need more memory than this.
    #[arg(long, value_name = "MB", default_value_t = MAX_BYTES / 1_000_000)]
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
    /// Execute only part K of N of the runs, such as 3/20, for a job array. `roughlink merge` merges the folders of
    /// all parts.
    #[arg(long, value_name = "K/N")]
    pub part: Option<String>,
}

/// Arguments of all commands that run a grid.
#[derive(Debug, Args)]
pub(crate) struct GridArgs {
    /// Result folder; the command resumes if it already has results. Defaults to a folder in results/ that has no
    /// results of other experiments.
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Seed of all random streams; defaults to the scenario's seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Refuse grids with more runs than this.
    #[arg(long, value_name = "N", default_value_t = MAX_RUNS)]
    pub max_runs: u64,
    #[command(flatten)]
    pub memory: Memory,
    /// Number of parallel runs; defaults to the number of cores.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    #[command(flatten)]
    pub form: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackArg {
    /// Stack of ns-3, whose results are compared with the published values.
    Ns3,
    /// Stack of ns-2, for papers that used it.
    Ns2,
    /// Stack that behaves like current Linux.
    Linux,
    /// Both stacks of the paper's experiments, side by side.
    Both,
    /// Both stacks and the running kernel's TCP, in real time over emulated links, with roughlink's algorithms in the
    /// kernel. Needs root and a build by `make kernel`.
    Kernel,
}
