//! Errors of algorithms in the kernel.

use crate::error::LabError;
use crate::nearest;
use roughlink_bpf::KernelError;
use roughlink_bpf::catalogue::ENTRIES;

/// Name of the V2G paper's NewReno ND, which is an option of the receiver and not an algorithm of the sender.
pub(super) const ND: &str = "newreno-nd";

/// Classifies an error as bad input or as a missing feature of the machine.
impl From<KernelError> for LabError {
    fn from(e: KernelError) -> Self {
        let usage = |message: String, help: String| LabError::Usage { message, help };
        let machine = |message: String, help| LabError::Machine { message, help };
        match e {
            KernelError::UnknownAlgorithm(name) if name == ND => usage(
                format!("cannot load `{ND}`: it is NewReno with a receiver that acknowledges every segment"),
                "run `ip route change ROUTE quickack 1` at the receiver".into(),
            ),
            KernelError::UnknownAlgorithm(ref name) => {
                usage(e.to_string(), nearest::suggest(name, "expected", ENTRIES.iter().map(|e| e.name)))
            }
            KernelError::Parameter(message) => {
                usage(message, "run `roughlink cc list --kernel` to list the parameters".into())
            }
            KernelError::Name { .. } => usage(e.to_string(), "choose another name with --as".into()),
            KernelError::NotLoaded { ref name, ref loaded } => {
                let all = match loaded.is_empty() {
                    true => "nothing is loaded".to_owned(),
                    false => nearest::suggest(name, "loaded:", loaded.iter().map(String::as_str)),
                };
                machine(format!("{e}; {all}"), None)
            }
            KernelError::State(message) => machine(message, None),
            KernelError::File { .. } => machine(e.to_string(), None),
            other => machine(other.to_string(), Some("run `roughlink cc check` to see what is missing")),
        }
    }
}
