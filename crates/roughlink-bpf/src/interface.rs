//! Interface of the kernel for congestion controls, which differs between versions.

use crate::error::KernelError;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType as _};
use std::fmt;

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
