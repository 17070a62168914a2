//! Which computer and kernel this is.

use serde::{Deserialize, Serialize};

use crate::{PreWake, Root, cpuinfo, cpulist, prewake};

/// The machine that a result was measured on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Identity {
    /// The node's name, by /proc/sys/kernel/hostname.
    pub hostname: Option<String>,
    /// `model name` of /proc/cpuinfo, or the architecture's nearest to it.
    pub cpu_model: Option<String>,
    /// As `uname -m` prints it.
    pub architecture: Option<String>,
    /// Kernel release, as `uname -r` prints it; from /proc/version for a recorded machine.
    pub kernel: Option<String>,
    /// /proc/cmdline: what the kernel was booted with.
    pub command_line: Option<String>,
    /// The hypervisor's name where there is one ("KVM", "hypervisor" where the name is unknown).
    pub hypervisor: Option<String>,
    /// The processor's microcode revision, as /proc/cpuinfo has it: `0x2b000571`.
    pub microcode: Option<String>,
    /// How many CPUs are online.
    pub cpus_online: Option<u32>,
    /// How many CPUs there are, offline ones among them.
    pub cpus_present: Option<u32>,
    /// The kernel's timekeeping: `tsc`, `kvm-clock`, `hpet`, ...
    pub clock_source: Option<String>,
    /// Whether the processor wakes ahead of its own timer; `None` where it has no pre-wake, in a guest, and in
    /// results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_state_pre_wake: Option<PreWake>,
}

impl Identity {
    /// The known ones of its name, processor and kernel.
    pub fn words(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
        let known = [self.hostname.clone(), self.cpu_model.clone(), kernel];
        known.into_iter().flatten().collect()
    }

    /// Its kernel and hypervisor, in words.
    pub fn kernel_words(&self) -> String {
        let kernel = self.kernel.as_deref().unwrap_or("unknown");
        let hypervisor = self.hypervisor.as_ref();
        let hypervisor = hypervisor.map_or(String::new(), |name| format!(", under {name}"));
        format!("{kernel}{hypervisor}")
    }

    /// Reads what is available below `root`.
    pub fn read(root: &Root) -> Self {
        let text = |path: &str| root.line(path);
        let count = |list: &str| {
            let cpus = cpulist::parse(&text(&format!("sys/devices/system/cpu/{list}"))?)?;
            u32::try_from(cpus.len()).ok()
        };
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let processors = cpuinfo::parse(&cpuinfo);
        let first = processors.first();
        let version = text("proc/version");
        let clock_source = text("sys/devices/system/clocksource/clocksource0/current_clocksource");
        Self {
            hostname: text("proc/sys/kernel/hostname"),
            cpu_model: first.and_then(cpuinfo::Processor::model),
            architecture: text("proc/sys/kernel/arch")
                .or_else(|| root.is_live().then(running_architecture).flatten())
                .or_else(|| first.and_then(architecture).map(str::to_owned)),
            kernel: text("proc/sys/kernel/osrelease")
                .or_else(|| version.as_deref().and_then(release).map(str::to_owned)),
            command_line: text("proc/cmdline"),
            hypervisor: hypervisor(root, first, clock_source.as_deref()),
            microcode: first
                .and_then(|processor| processor.get("microcode"))
                .map(str::to_owned),
            cpus_online: count("online"),
            cpus_present: count("present"),
            clock_source,
            c_state_pre_wake: prewake::read(root),
        }
    }
}

/// The release in a /proc/version text: `Linux version RELEASE (...`.
fn release(version: &str) -> Option<&str> {
    let mut words = version.strip_prefix("Linux version ")?.split_whitespace();
    words.next()
}

/// `uname -m`, for kernels without /proc/sys/kernel/arch (before 6.1).
fn running_architecture() -> Option<String> {
    let uname = nix::sys::utsname::uname().ok()?;
    Some(uname.machine().to_str()?.to_owned())
}

/// The architecture by a recorded machine's cpuinfo.
fn architecture(processor: &cpuinfo::Processor) -> Option<&'static str> {
    let x86 = processor.get("vendor_id").is_some() && processor.get("flags").is_some();
    if x86 {
        // `lm`, long mode: the CPU's, and thereby nearly always the kernel's.
        return Some(if processor.has_flag("lm") {
            "x86_64"
        } else {
            "i686"
        });
    }
    if processor.get("CPU implementer").is_some() {
        let is_64_bit = processor.get("CPU architecture") == Some("8");
        return Some(if is_64_bit { "aarch64" } else { "arm" });
    }
    match processor.get("isa") {
        Some(isa) if isa.starts_with("rv64") => Some("riscv64"),
        _ => None,
    }
}

fn hypervisor(
    root: &Root,
    processor: Option<&cpuinfo::Processor>,
    clock_source: Option<&str>,
) -> Option<String> {
    // Xen's own folder; the guest's device tree on ARM and RISC-V.
    if let Some(name) = root.line("sys/hypervisor/type") {
        return Some(known_as(&name));
    }
    if let Some(compatible) = root.text("proc/device-tree/hypervisor/compatible") {
        let name = compatible.split('\0').next().unwrap_or_default();
        return Some(known_as(name));
    }
    if !processor.is_some_and(|processor| processor.has_flag("hypervisor")) {
        return None;
    }
    let signature = if root.is_live() { signature() } else { None };
    let clock = match clock_source {
        Some("kvm-clock") => Some("KVM"),
        Some("hyperv_clocksource_tsc_page") => Some("Hyper-V"),
        Some("xen") => Some("Xen"),
        _ => None,
    };
    let name = signature
        .map(|name| known_as(&name))
        .or(clock.map(str::to_owned));
    Some(name.unwrap_or_else(|| "hypervisor".to_owned()))
}

/// The hypervisor's signature, CPUID leaf 0x4000_0000.
fn signature() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 CPU has CPUID, and the hypervisor bit is set. Safe in newer versions of Rust.
        #[allow(unused_unsafe)]
        let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
        spelt([leaf.ebx, leaf.ecx, leaf.edx])
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

/// The text in registers, up to a zero; `None` if it is empty or not printable.
#[cfg(any(target_arch = "x86_64", test))]
fn spelt(registers: [u32; 3]) -> Option<String> {
    let bytes: Vec<u8> = registers
        .iter()
        .flat_map(|register| register.to_le_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    let name = String::from_utf8(bytes).ok()?;
    (!name.trim().is_empty() && name.chars().all(|c| c.is_ascii_graphic() || c == ' '))
        .then_some(name)
}

/// The common name of the hypervisor with that signature or `compatible`.
/// Source of the signatures: arch/x86/include/asm and hypervisor.c of the kernel.
fn known_as(signature: &str) -> String {
    match signature.trim() {
        "KVMKVMKVM" | "linux,kvm" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" | "xen" | "xen,xen" => "Xen",
        "ACRNACRNACRN" => "ACRN",
        "BHyVE BHyVE" | "bhyve bhyve" => "bhyve",
        "TCGTCGTCGTCG" => "QEMU (TCG)",
        "Jailhouse" => "Jailhouse",
        "" => "hypervisor",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_text_gives_the_release() {
        let version = "Linux version 6.18.8-200.fc43.x86_64 (mockbuild@x) (gcc (GCC) 15.2.1)";
        assert_eq!(release(version), Some("6.18.8-200.fc43.x86_64"));
        assert_eq!(release("FreeBSD 14"), None);
        assert_eq!(release("Linux version "), None);
    }

    #[test]
    fn an_empty_root_has_no_identity() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(Identity::read(&Root::at(empty.path())), Identity::default());
    }

    #[test]
    fn the_running_machine_has_a_kernel_and_cpus() {
        let identity = Identity::read(&Root::default());
        assert!(identity.kernel.is_some() && identity.architecture.is_some());
        assert!(identity.cpus_online.is_some_and(|cpus| cpus > 0));
    }

    #[test]
    fn a_virtual_machine_is_reported_even_with_an_unknown_hypervisor() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        let cpuinfo = "processor : 0\nflags : fpu hypervisor lm\nvendor_id : X\n";
        std::fs::write(folder.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let identity = Identity::read(&Root::at(folder.path()));
        assert_eq!(identity.hypervisor.as_deref(), Some("hypervisor"));
        assert_eq!(identity.architecture.as_deref(), Some("x86_64"));
    }

    #[test]
    fn folder_device_tree_and_clock_identify_a_hypervisor() {
        let guest = ("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n");
        let bare = ("proc/cpuinfo", "processor : 0\nflags : fpu\n");
        let clock = |name| {
            let file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
            (file, name)
        };
        let tree = "proc/device-tree/hypervisor/compatible";
        let kind = "sys/hypervisor/type";
        for (files, expected) in [
            (vec![(kind, "xen\n"), bare], Some("Xen")),
            (vec![(tree, "linux,kvm\0")], Some("KVM")),
            (
                vec![(tree, "xen,xen-4.17\0xen,xen\0")],
                Some("xen,xen-4.17"),
            ),
            (vec![(tree, "\0")], Some("hypervisor")),
            (vec![guest, clock("kvm-clock\n")], Some("KVM")),
            (
                vec![guest, clock("hyperv_clocksource_tsc_page\n")],
                Some("Hyper-V"),
            ),
            (vec![guest, clock("xen\n")], Some("Xen")),
            (vec![guest, clock("tsc\n")], Some("hypervisor")),
            (vec![bare, clock("kvm-clock\n")], None),
            (vec![clock("kvm-clock\n")], None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (file, text) in &files {
                let path = folder.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let found = Identity::read(&Root::at(folder.path())).hypervisor;
            assert_eq!(found.as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn the_registers_spell_a_signature() {
        let of = |text: &[u8; 12]| {
            let register = |at| u32::from_le_bytes(text[at..at + 4].try_into().unwrap());
            spelt([register(0), register(4), register(8)])
        };
        for (text, spelt) in [
            (b"KVMKVMKVM\0\0\0", Some("KVMKVMKVM")),
            (b"BHyVE BHyVE ", Some("BHyVE BHyVE ")),
            (b"\0KVMKVMKVM\0\0", None),
            (b"            ", None),
            (b"KVM\x1bKVMKVM\0\0", None),
            (b"KVM\xffKVMKVM\0\0", None),
        ] {
            assert_eq!(of(text).as_deref(), spelt, "{text:?}");
        }
    }

    #[test]
    fn cpuinfo_gives_the_architecture_of_a_recording() {
        for (cpuinfo, expected) in [
            ("vendor_id : GenuineIntel\nflags : fpu lm\n", Some("x86_64")),
            ("vendor_id : GenuineIntel\nflags : fpu\n", Some("i686")),
            // s390 has a vendor line and a features line.
            ("vendor_id : IBM/S390\nfeatures : esan3\n", None),
            ("flags : fpu lm\n", None),
            (
                "CPU implementer : 0x41\nCPU architecture: 8\n",
                Some("aarch64"),
            ),
            ("CPU implementer : 0x41\nCPU architecture: 7\n", Some("arm")),
            ("isa : rv64imafdc\n", Some("riscv64")),
            ("isa : rv32imac\n", None),
        ] {
            let cpuinfo = format!("processor : 0\n{cpuinfo}");
            let processors = cpuinfo::parse(&cpuinfo);
            assert_eq!(architecture(&processors[0]), expected, "{cpuinfo}");
        }
    }

    #[test]
    fn uname_gives_the_running_architecture() {
        let Ok(uname) = std::process::Command::new("uname").arg("-m").output() else {
            return println!("skipped: there is no uname");
        };
        let reported = String::from_utf8(uname.stdout).unwrap();
        assert_eq!(running_architecture().as_deref(), Some(reported.trim()));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn cpuid_gives_the_running_machines_signature() {
        // SAFETY: every x86-64 CPU has CPUID.
        #[allow(unused_unsafe)]
        let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
        assert_eq!(signature(), spelt([leaf.ebx, leaf.ecx, leaf.edx]));
    }
}
