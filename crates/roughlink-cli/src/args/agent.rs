//! Arguments of `roughlink agent`.

use super::Set;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).multiple(true))]
#[command(after_help = "Examples:
  sudo roughlink agent --interface wwan0 --threshold -110 --hysteresis 6 \\
      --signal-command 'mmcli -m any --signal-get'
      a modem that ModemManager controls: run mmcli -m any --signal-setup=1 first
  sudo roughlink agent --interface wlan0 --signal-command 'iw dev wlan0 link'
  roughlink agent --replay circle-line --socket coverage.sock
      plays the coverage of a scenario in real time
  sudo roughlink agent --interface wlan0 --avoca avoca
      also freezes the connections of this machine that use avoca
`roughlink gateway run avoca-rx --coverage SOCKET` and other programs read the
socket. Ctrl-C ends the agent; programs then assume coverage.")]
pub(crate) struct AgentArgs {
    /// Watch the carrier, addresses and default routes of this network device.
    #[arg(long, value_name = "DEVICE", group = "source")]
    pub interface: Option<String>,
    /// Let the carrier alone decide, as on a bridge, whose devices have no addresses.
    #[arg(long, requires = "interface")]
    pub carrier_only: bool,
    /// Shell command that prints the signal strength, such as `-81.5` or `signal: -81.5 dBm`; the first level counts.
    #[arg(long, value_name = "COMMAND", group = "source")]
    pub signal_command: Option<String>,
    /// Time between two calls of the signal command.
    #[arg(long, value_name = "TIME", default_value = "1 s", requires = "signal_command")]
    pub every: String,
    /// Play the events of a link of this scenario in real time: its coverage or its timeline.
    #[arg(long, value_name = "SCENARIO", group = "source", conflicts_with_all = ["interface", "signal_command"])]
    pub replay: Option<String>,
    /// With --replay, name of the link; may be left out if only one link has events.
    #[arg(long, value_name = "NAME", requires = "replay")]
    pub link: Option<String>,
    #[command(flatten)]
    pub set: Set,
    /// Signal at or below which coverage ends, dBm.
    #[arg(long, value_name = "DBM", allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    /// Margin above the threshold at which coverage begins, dB.
    #[arg(long, value_name = "DB", requires = "threshold", default_value_t = 0.0)]
    pub hysteresis: f64,
    /// Unix socket at which programs read events, one JSON object per line.
    #[arg(long, value_name = "SOCKET", default_value = "/run/roughlink/coverage.sock")]
    pub socket: PathBuf,
    /// Group whose members may read the socket, in addition to the agent's user.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Set the coverage state of this algorithm in the kernel (`roughlink cc load avoca --as NAME`); may be repeated.
    #[arg(long, value_name = "NAME")]
    pub avoca: Vec<String>,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    pub json: bool,
    /// Run nothing; print a systemd unit that runs the agent with these options.
    #[arg(long)]
    pub unit: bool,
}
