//! Requirements of the kernel's algorithms, checked on this machine. The last check loads an algorithm.

use crate::error::KernelError;
use crate::load::LoadRequest;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _};
use roughlink_host::is_allowed;
use std::{fmt, fs};

/// One requirement and its state on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Name of the requirement.
    pub name: &'static str,
    /// State found on this machine.
    pub found: String,
    /// Advice if the requirement is not met.
    pub fix: Option<&'static str>,
}

/// Parts of the kernel's `tcp_congestion_ops` that differ between versions. Only pacing programs depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionOps {
    /// Number of arguments of `cong_control`: four since Linux 6.10, two before.
    pub arguments: usize,
    /// True if `min_tso_segs` exists. Linux 7.1 renamed it.
    pub min_tso_segs: bool,
}

impl CongestionOps {
    /// Reads the interface of the running kernel.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF or an unknown `tcp_congestion_ops`.
    pub fn running() -> Result<Self, KernelError> {
        let btf = Btf::from_vmlinux().map_err(KernelError::bpf("read the kernel's BTF"))?;
        let unknown = || KernelError::State("unknown layout of this kernel's struct tcp_congestion_ops".into());
        let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops").ok_or_else(unknown)?;
        let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let pointer = btf.type_by_id::<Ptr<'_>>(member("cong_control").ok_or_else(unknown)?.ty).ok_or_else(unknown)?;
        let function = FuncProto::try_from(pointer.referenced_type()).map_err(|_| unknown())?;
        Ok(CongestionOps { arguments: function.iter().count(), min_tso_segs: member("min_tso_segs").is_some() })
    }

    /// Returns true if pacing programs support this interface.
    pub fn paces(self) -> bool {
        self == CongestionOps { arguments: 4, min_tso_segs: true }
    }
}

impl fmt::Display for CongestionOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = if self.min_tso_segs { "exists" } else { "does not exist" };
        write!(f, "cong_control has {} arguments and min_tso_segs {exists}", self.arguments)
    }
}

/// Checks all requirements, in the order in which loading depends on them.
pub fn needs() -> Vec<Need> {
    let read = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_owned());
    let mut all = Vec::new();
    let mut need = |name, found: String, fix: Option<&'static str>| all.push(Need { name, found, fix });
    need("kernel", read("/proc/sys/kernel/osrelease").unwrap_or_else(|e| e.to_string()), None);
    match CongestionOps::running() {
        Ok(found) => {
            let fix = "use Linux 6.10 to 7.0 for `wave`; the other algorithms do not depend on this interface";
            need("types", found.to_string(), (!found.paces()).then_some(fix));
        }
        Err(e) => {
            need("types", e.to_string(), Some("use a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions do"))
        }
    }
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Ok("0") => need("jit", "off".into(), Some("run `sysctl -w net.core.bpf_jit_enable=1`")),
        Ok(_) => need("jit", "on".into(), None),
        Err(_) => need("jit", "always on".into(), None),
    }
    let map = read("/proc/self/uid_map").unwrap_or_default();
    let is_first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let fix = "run it outside the container or `unshare --user`: inside, the kernel rejects BPF programs";
    need("user namespace", if is_first { "the first" } else { "another" }.into(), (!is_first).then_some(fix));
    let rights = if is_allowed() { "as root" } else { "not root" };
    need("rights", rights.into(), (!is_allowed()).then_some("run it as root (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN)"));
    let mut request = LoadRequest::new("newreno").expect("it is in the catalogue");
    request.name = format!("try{}", std::process::id());
    match request.load() {
        Ok(_) => need("load", "NewReno was loaded and unloaded".into(), None),
        Err(e) => need("load", e.to_string(), Some("fix the failed checks above, or read the kernel's message here")),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_needs_four_arguments_and_min_tso_segs() {
        let of = |arguments, min_tso_segs| CongestionOps { arguments, min_tso_segs };
        assert!(of(4, true).paces());
        assert!(!of(2, true).paces() && !of(4, false).paces());
        assert_eq!(of(2, false).to_string(), "cong_control has 2 arguments and min_tso_segs does not exist");
    }
}
