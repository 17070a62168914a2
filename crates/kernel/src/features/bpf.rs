//! BPF: the kernel's types, tracing programs, and timers with their flags.

use std::io;

use super::{Facts, Feature, Group, Presence, absent, attach, names, recorded};
use crate::capabilities::Capability;
use crate::{Btf, Root};

const USER_PROBE: &str = "no BPF probe: --probe user measures up to the waiting thread, including \
                          scheduling";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let (root, btf) = (facts.root, facts.btf.as_ref());
    table! { Bpf;
        names::BTF, kernel_types(root, btf) =>
            USER_PROBE, "a kernel with CONFIG_DEBUG_INFO_BTF (those of the distributions have it)",
            Decides;
        names::TRACING, tracing(facts) =>
            USER_PROBE,
            "root, or CAP_BPF and CAP_PERFMON; kernel 5.5 or later with CONFIG_BPF_SYSCALL, \
             CONFIG_BPF_JIT and CONFIG_BPF_EVENTS", Decides;
        "JIT compiler for BPF", compiled(root) =>
            "each probe is interpreted, which costs the measured CPU several times as much",
            "sysctl net.core.bpf_jit_enable=1, or a kernel with CONFIG_BPF_JIT", Distorts;
        names::TIMER, enumerator(btf, "BPF_FUNC_timer_start") =>
            "no source `timer` with the BPF probe; `remote` remains", "kernel 5.15 or later",
            Decides;
        names::TIMER_ABSOLUTE, enumerator(btf, "BPF_F_TIMER_ABS") =>
            "the timer is armed relatively; the launch time is then read off the timer itself \
             (timer:hrtimer_start)",
            "kernel 6.4 or later";
        names::TIMER_PINNED, enumerator(btf, "BPF_F_TIMER_CPU_PIN") =>
            "the kernel may move the timer to another CPU; wake-ups that went astray are dropped \
             and counted",
            "kernel 6.7 or later, or sysctl kernel.timer_migration=0";
        "ring buffer", enumerator(btf, "BPF_FUNC_ringbuf_reserve") =>
            USER_PROBE, "kernel 5.8 or later", Decides;
        "loops in programs", enumerator(btf, "BPF_FUNC_loop") =>
            "no `anticipate`", "kernel 5.17 or later";
        "threads for programs", function(btf, "bpf_wq_start") =>
            "`anticipate` wakes CPUs by timers only and keeps them awake in softirqs, which \
             regains less, in a virtual machine perhaps nothing",
            "kernel 6.10 or later";
        "counters in programs", enumerator(btf, "BPF_FUNC_perf_event_read_value") =>
            "residency, SMIs and cycles are not counted per wake-up",
            "kernel 4.15 or later with CONFIG_PERF_EVENTS";
        "fentry:smp_call_function_single", function(btf, "smp_call_function_single") =>
            "source `remote` takes the launch time in its own thread: the figure includes the entry of \
             the system call",
            "a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE";
        "probe cost counting", run_time_statistics(facts) =>
            "what the probes cost the measured CPU is unknown",
            "kernel 5.1 or later (kernel.bpf_stats_enabled), and root";
    }
}

fn kernel_types(root: &Root, btf: Option<&Btf>) -> Presence {
    const FILE: &str = "sys/kernel/btf/vmlinux";
    match btf {
        Some(_) => Presence::Yes(format!("/{FILE}")),
        None if root.path(FILE).exists() => Presence::No(format!(
            "/{FILE} is unreadable, or its BTF has an unknown format"
        )),
        None => absent(root, format!("no /{FILE}")),
    }
}

fn tracing(facts: &Facts) -> Presence {
    if !facts.root.is_live() {
        return recorded();
    }
    let Some(btf) = &facts.btf else {
        return Presence::No("none without BTF".to_owned());
    };
    let Some(tracepoint) = btf.tracepoint("cpu_idle") else {
        return Presence::Unknown("no power:cpu_idle to try it on".to_owned());
    };
    tried(facts, attach::to_tracepoint(tracepoint))
}

/// What came of loading and attaching a program.
pub(super) fn tried(facts: &Facts, result: io::Result<()>) -> Presence {
    match result {
        Ok(()) => Presence::Yes("tried: loaded and attached to power:cpu_idle".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            facts.refused("tried and refused: this user may not".to_owned())
        }
        Err(error) => Presence::No(format!("tried, and the kernel reports: {error}")),
    }
}

fn compiled(root: &Root) -> Presence {
    // Where the kernel always compiles, the setting is there and 1.
    match root.text("proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => Presence::No("net.core.bpf_jit_enable is 0".to_owned()),
        Some(value) => Presence::Yes(format!("net.core.bpf_jit_enable is {value}")),
        // In a container with its own network, it is not shown.
        None => Presence::Unknown("net.core.bpf_jit_enable is not shown here".to_owned()),
    }
}

/// Names of the uapi that the kernel's own types carry only where it has the thing.
fn enumerator(btf: Option<&Btf>, name: &str) -> Presence {
    match btf.map(|btf| btf.has_enumerator(name)) {
        Some(true) => Presence::Yes(format!("{name} is in the kernel's types")),
        Some(false) => Presence::No(format!("{name} is not in the kernel's types")),
        None => unknown_without_types(),
    }
}

fn function(btf: Option<&Btf>, name: &str) -> Presence {
    match btf.map(|btf| btf.function(name).is_some()) {
        Some(true) => Presence::Yes("in the kernel's types".to_owned()),
        Some(false) => Presence::No("not in the kernel's types".to_owned()),
        None => unknown_without_types(),
    }
}

fn unknown_without_types() -> Presence {
    Presence::Unknown("unknown without BTF".to_owned())
}

fn run_time_statistics(facts: &Facts) -> Presence {
    const FILE: &str = "proc/sys/kernel/bpf_stats_enabled";
    let is_live = facts.root.is_live();
    let may = facts
        .credentials
        .is_some_and(|credentials| credentials.may(Capability::SysAdmin));
    match facts.root.text(FILE).as_deref() {
        Some(value) if value != "0" => {
            let costs = "every BPF program on this machine pays for it";
            Presence::Yes(format!(
                "kernel.bpf_stats_enabled is {value} already: {costs}"
            ))
        }
        _ if !is_live => recorded(),
        Some(_) if may => {
            Presence::Yes("kernel.bpf_stats_enabled is 0; enabled while counting".to_owned())
        }
        // The file is root's to read, too.
        _ if facts.root.path(FILE).exists() => {
            facts.refused("this user may not set kernel.bpf_stats_enabled".to_owned())
        }
        _ => Presence::No("no kernel.bpf_stats_enabled".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Credentials;
    use crate::{Identity, Idle};

    /// A recorded machine with that file and no BTF; `/` stands for the running one.
    fn facts(root: &Root) -> Facts<'_> {
        Facts {
            root,
            credentials: None,
            idle: Idle::read(root),
            identity: Identity::default(),
            btf: None,
        }
    }

    #[test]
    fn settings_of_a_recorded_machine_are_reported_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |file: &str, text: &str| {
            let path = root.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let jit = "proc/sys/net/core/bpf_jit_enable";
        assert!(matches!(compiled(&root), Presence::Unknown(_)));
        write(jit, "0\n");
        let no = "net.core.bpf_jit_enable is 0";
        assert_eq!(compiled(&root), Presence::No(no.to_owned()));
        write(jit, "2\n");
        let yes = "net.core.bpf_jit_enable is 2";
        assert_eq!(compiled(&root), Presence::Yes(yes.to_owned()));

        let counting = "proc/sys/kernel/bpf_stats_enabled";
        assert_eq!(run_time_statistics(&facts(&root)), recorded());
        write(counting, "0\n");
        assert_eq!(run_time_statistics(&facts(&root)), recorded());
        write(counting, "1\n");
        assert!(run_time_statistics(&facts(&root)).is_yes());

        assert_eq!(kernel_types(&root, None), recorded());
        write("sys/kernel/btf/vmlinux", "");
        assert!(matches!(kernel_types(&root, None), Presence::No(_)));
    }

    #[test]
    fn counting_on_the_running_machine_needs_permission_to_set_it() {
        let root = Root::default();
        let setting = root.text("proc/sys/kernel/bpf_stats_enabled");
        let there = root.path("proc/sys/kernel/bpf_stats_enabled").exists();
        let of = |user, capabilities| {
            run_time_statistics(&Facts {
                credentials: Some(Credentials {
                    user,
                    capabilities,
                    is_outermost: true,
                }),
                ..facts(&root)
            })
        };
        let (admin, unprivileged) = (of(0, u64::MAX), of(1000, 0));
        match setting.as_deref() {
            Some("0") => {
                let on = "kernel.bpf_stats_enabled is 0; enabled while counting";
                assert_eq!(admin, Presence::Yes(on.to_owned()));
            }
            // It is on, or the file is unreadable.
            Some(_) => assert!(admin.is_yes() && unprivileged.is_yes()),
            None => assert!(!admin.is_yes()),
        }
        if there && setting.as_deref().is_none_or(|value| value == "0") {
            assert!(matches!(unprivileged, Presence::Denied(_)));
        }
        if !there {
            let none = "no kernel.bpf_stats_enabled";
            assert_eq!(unprivileged, Presence::No(none.to_owned()));
        }
    }
}
