//! The tracepoints that the BPF programs of `measure`, `top`, `cost`, `path` and `anticipate`
//! sit on.

use super::{Facts, Feature, Group, Presence, Weight, names};
use crate::{Btf, Root};

/// Where tracefs is found: mounted by itself, or in debugfs.
const TRACEFS: [&str; 2] = [
    "sys/kernel/tracing/events",
    "sys/kernel/debug/tracing/events",
];

/// A kernel that traces, and has this one.
const TRACING: &str = "a newer kernel, or one with CONFIG_TRACING and CONFIG_FTRACE";

macro_rules! tracepoints {
    ($($group:ident:$name:ident $costs:expr;)*) => {
        &[$((stringify!($group), stringify!($name), $costs)),*]
    };
}

/// Group, name, and what the absence of the tracepoint costs.
const USED: &[(&str, &str, &str)] = tracepoints! {
    block:block_rq_issue "no `anticipate`";
    block:block_rq_complete "no `anticipate`";
    power:cpu_idle
        "no BPF probe: --probe user measures up to the waiting thread; `top` sees neither wake \
         latencies nor wakers; no `cost`, no `path`";
    irq_vectors:local_timer_entry
        "the timer's interrupt is seen only where its timer expires, some 100 ns later";
    irq_vectors:call_function_single_entry "source `remote` has no interrupt latency";
    irq_vectors:call_function_entry UNSEEN;
    irq_vectors:reschedule_entry UNSEEN;
    irq_vectors:irq_work_entry UNSEEN;
    irq_vectors:x86_platform_ipi_entry UNSEEN;
    irq_vectors:error_apic_entry UNSEEN;
    irq_vectors:spurious_apic_entry UNSEEN;
    irq_vectors:thermal_apic_entry UNSEEN;
    irq_vectors:threshold_apic_entry UNSEEN;
    irq_vectors:deferred_error_apic_entry UNSEEN;
    ipi:ipi_entry "source `remote` has no interrupt latency";
    irq:irq_handler_entry
        "datapoints that a device disturbs are not recognized; `top`, `cost` and `path` name no \
         device";
    irq:irq_handler_exit "`cost` and `path` cannot separate a device's handler from what follows";
    irq:softirq_entry "softirq_count is unknown; `cost` and `path` have no softirqs";
    irq:softirq_exit "`cost` and `path` have no softirqs";
    timer:hrtimer_start "if the timer cannot be absolute, its launch time is approximate";
    timer:hrtimer_expire_entry
        "where no interrupt's entry is traced, source `timer` has no interrupt latency; `top` sees \
         no wake latencies and names no timers";
    timer:timer_expire_entry "`top` names the tick where a timer of the timer wheel woke";
    nmi:nmi_handler "nmi_count is unknown";
    cpuhp:cpuhp_enter
        "`measure` does not see a CPU that is offline for less than a tenth of a second";
    sched:sched_wake_idle_without_ipi
        "source `remote` cannot distinguish the monitored flag from an interrupt; `top` and `cost` \
         do not report what wrote the flag";
    ipi:ipi_send_cpu
        "source `remote` takes its launch time before the kernel sends the interrupt, not at it; \
         `top` and `cost` do not report what sends interrupts to other CPUs";
    csd:csd_queue_cpu "`top` names a call from another CPU by the interrupt, not by the function";
    sched:sched_waking WAKING;
    sched:sched_switch WAKING;
    sched:sched_wakeup "no `cost`";
    sched:sched_process_fork "`cost` does not follow what the workload starts";
    napi:napi_poll "`path` has no stage for the driver's poll";
    net:net_dev_queue "`path --ping` does not see the reply being queued";
    irq:softirq_raise
        "`path` reports neither the interrupt of a packet nor the idle state that it met";
    net:netif_receive_skb "no `path`";
    net:net_dev_start_xmit "no `path`";
    net:napi_gro_receive_entry "`path` cannot separate the driver's poll from what follows";
    sock:sk_data_ready "`path --nic` takes the first thread that is woken for a packet's reader";
    raw_syscalls:sys_exit "`path --nic` follows no packet to its reader";
};

/// Tracepoints that are built with the interrupt that they trace (CONFIG_X86_MCE_AMD and such): a
/// kernel without the one is without the other, and nothing is missing.
const OF_THEIR_INTERRUPT: [&str; 4] = [
    "x86_platform_ipi_entry",
    "thermal_apic_entry",
    "threshold_apic_entry",
    "deferred_error_apic_entry",
];
const UNSEEN: &str = "datapoints that this interrupt disturbs are not recognized, and `top` does \
                      not see what it wakes";
const WAKING: &str = "no `cost`, and `path` does not follow a packet to its reader";

pub fn features(facts: &Facts) -> Vec<Feature> {
    let architecture = facts.identity.architecture.as_deref();
    let is_x86 = architecture.is_none_or(|name| matches!(name, "x86_64" | "i686"));
    let feature = |(group, name, costs): &(&str, &str, &str)| {
        // Other architectures trace all interrupts between CPUs by one tracepoint.
        if is_x86 && *name == "ipi_entry" || !is_x86 && *group == "irq_vectors" {
            return None;
        }
        let presence = presence(facts.root, facts.btf.as_ref(), group, name);
        if matches!(presence, Presence::No(_)) && OF_THEIR_INTERRUPT.contains(name) {
            return None;
        }
        let name = format!("{group}:{name}");
        let weight = match name == names::CPU_IDLE {
            true => Weight::Decides,
            false => Weight::Adds,
        };
        let feature = Feature::new(Group::Tracepoints, name, presence, *costs, TRACING);
        Some(feature.weighing(weight))
    };
    USED.iter().filter_map(feature).collect()
}

fn presence(root: &Root, btf: Option<&Btf>, subsystem: &str, name: &str) -> Presence {
    if let Some(btf) = btf {
        return match btf.tracepoint(name) {
            Some(_) => Presence::Yes(String::new()),
            None => Presence::No("not in the kernel's types".to_owned()),
        };
    }
    let folders = TRACEFS.map(|folder| root.path(folder));
    let Some(folder) = folders.iter().find(|folder| folder.join("power").is_dir()) else {
        return Presence::Unknown("neither BTF nor tracefs can be read".to_owned());
    };
    match folder.join(subsystem).join(name).is_dir() {
        true => Presence::Yes("in tracefs".to_owned()),
        false => Presence::No("not in tracefs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_btf_tracefs_lists_the_tracepoints() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let is = |name| presence(&root, None, "power", name);
        assert!(matches!(is("cpu_idle"), Presence::Unknown(_)));
        std::fs::create_dir_all(root.path(TRACEFS[1]).join("power/cpu_idle")).unwrap();
        assert!(is("cpu_idle").is_yes());
        assert!(matches!(is("cpu_frequency"), Presence::No(_)));
    }
}
