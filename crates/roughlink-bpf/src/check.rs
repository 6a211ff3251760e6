//! Requirements of the kernel's algorithms, checked on this machine. The last check loads an algorithm.

use crate::interface::CongestionOps;
use crate::load::LoadRequest;
use roughlink_host::is_allowed;
use std::fs;

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

/// Checks all requirements, in the order in which loading depends on them.
pub fn needs() -> Vec<Need> {
    let read = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_owned());
    let mut all = Vec::new();
    let mut need = |name, found: String, fix: Option<&'static str>| all.push(Need { name, found, fix });
    need("kernel", read("/proc/sys/kernel/osrelease").unwrap_or_else(|e| e.to_string()), None);
    match CongestionOps::running() {
        Ok(found) => {
            let fix =
                "use Linux 6.10 to 7.0 for `wave` and `rough`; the other algorithms do not depend on this interface";
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
