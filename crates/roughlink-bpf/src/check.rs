//! What this machine has of what the kernel's algorithms need, found out by looking and, at the end, by doing.

use crate::error::KernelError;
use crate::load::Wish;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _};
use roughlink_host::is_allowed;
use std::{fmt, fs};

/// One thing that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What.
    pub name: &'static str,
    /// What was found.
    pub found: String,
    /// What to do, if that is not enough.
    pub fix: Option<&'static str>,
}

/// What of the kernel's `tcp_congestion_ops` has changed between versions, as far as programs use it: those that pace do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The number of arguments of `cong_control`: four since Linux 6.10, two before.
    pub arguments: usize,
    /// There is `min_tso_segs`, which Linux 7.1 names otherwise.
    pub min_tso_segs: bool,
}

impl Interface {
    /// That of the running kernel.
    ///
    /// # Errors
    /// The kernel has no BTF, or another `tcp_congestion_ops`.
    pub fn running() -> Result<Self, KernelError> {
        let btf = Btf::from_vmlinux().map_err(KernelError::bpf("read the kernel's BTF"))?;
        let unknown = || KernelError::State("the kernel has another struct tcp_congestion_ops than is known".into());
        let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops").ok_or_else(unknown)?;
        let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let pointer = btf.type_by_id::<Ptr<'_>>(member("cong_control").ok_or_else(unknown)?.ty).ok_or_else(unknown)?;
        let function = FuncProto::try_from(pointer.referenced_type()).map_err(|_| unknown())?;
        Ok(Interface { arguments: function.iter().count(), min_tso_segs: member("min_tso_segs").is_some() })
    }

    /// Whether programs that pace know it.
    pub fn paces(self) -> bool {
        self == Interface { arguments: 4, min_tso_segs: true }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = if self.min_tso_segs { "is" } else { "is not" };
        write!(f, "cong_control has {} arguments; min_tso_segs {is} there", self.arguments)
    }
}

/// Everything that is needed, in the order in which it is needed.
pub fn needs() -> Vec<Need> {
    let read = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_owned());
    let mut all = Vec::new();
    let mut need = |name, found: String, fix: Option<&'static str>| all.push(Need { name, found, fix });
    need("kernel", read("/proc/sys/kernel/osrelease").unwrap_or_else(|e| e.to_string()), None);
    match Interface::running() {
        Ok(found) => {
            let fix = "`wave` needs the interface of Linux 6.10 to 7.0; the others do not use these";
            need("types", found.to_string(), (!found.paces()).then_some(fix));
        }
        Err(e) => {
            need("types", e.to_string(), Some("a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions have"))
        }
    }
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Ok("0") => need("jit", "off".into(), Some("sysctl -w net.core.bpf_jit_enable=1")),
        Ok(_) => need("jit", "on".into(), None),
        Err(_) => need("jit", "always on".into(), None),
    }
    let map = read("/proc/self/uid_map").unwrap_or_default();
    let is_first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let fix = "run it outside of the container, or of `unshare --user`: the kernel refuses BPF programs from inside";
    need("user namespace", if is_first { "the first" } else { "another" }.into(), (!is_first).then_some(fix));
    let rights = if is_allowed() { "as root" } else { "not root" };
    need("rights", rights.into(), (!is_allowed()).then_some("run it as root (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN)"));
    // The proof.
    let mut wish = Wish::new("newreno").expect("it is in the catalogue");
    wish.name = format!("try{}", std::process::id());
    match wish.load() {
        Ok(_) => need("load", "NewReno was loaded and unloaded".into(), None),
        Err(e) => need("load", e.to_string(), Some("the reason is above, or in what the kernel says here")),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_interface_paces() {
        let of = |arguments, min_tso_segs| Interface { arguments, min_tso_segs };
        assert!(of(4, true).paces());
        assert!(!of(2, true).paces() && !of(4, false).paces());
        assert_eq!(of(2, false).to_string(), "cong_control has 2 arguments; min_tso_segs is not there");
    }
}
