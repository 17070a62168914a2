//! The names of wakers.

use std::collections::HashMap;

use reveille_kernel::Root;
use reveille_kernel::interrupts::{Interrupts, Line};

use crate::live::model::{Waker, WakerKind};
use crate::live::seen::{Cause, Ended};
use crate::live::symbols::Symbols;

/// Finds names, and caches those of interrupts.
pub struct Names {
    root: Root,
    symbols: Option<Symbols>,
    interrupts: HashMap<u32, String>,
}

impl Names {
    pub fn new(root: Root, symbols: Option<Symbols>) -> Self {
        Self {
            root,
            symbols,
            interrupts: HashMap::new(),
        }
    }

    fn function(&self, address: u64) -> String {
        let name = self
            .symbols
            .as_ref()
            .and_then(|symbols| symbols.name(address));
        name.map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    /// The handlers of an interrupt: `/sys/kernel/irq/N/actions`.
    fn interrupt(&mut self, irq: u32) -> String {
        let root = &self.root;
        let actions = || root.line(&format!("sys/kernel/irq/{irq}/actions"));
        let name = self.interrupts.entry(irq);
        name.or_insert_with(|| actions().unwrap_or_else(|| format!("interrupt {irq}")))
            .clone()
    }

    fn command_of(&self, pid: u32) -> Option<String> {
        (pid > 0).then(|| self.root.line(&format!("proc/{pid}/comm")))?
    }

    /// A waker's name in one line: `kworker/0:1 (reschedule)`, `virtio0-input.0`.
    #[cfg(feature = "bpf")]
    pub fn of(&mut self, ended: &Ended) -> String {
        let waker = self.waker(ended, 1.0);
        match waker.command {
            Some(command) => format!("{command} ({})", waker.name),
            None => waker.name,
        }
    }

    fn waker(&mut self, ended: &Ended, elapsed_s: f64) -> Waker {
        let command = Some(ended.command.clone()).filter(|command| !command.is_empty());
        let (kind, name) = match ended.cause {
            Cause::Device => (WakerKind::Interrupt, self.interrupt(ended.irq)),
            Cause::Timer if ended.function == 0 => (WakerKind::Timer, "local timer".to_owned()),
            Cause::Timer => (WakerKind::Timer, self.function(ended.function)),
            Cause::IrqWork => (WakerKind::Ipi, "irq_work".to_owned()),
            Cause::Other => (WakerKind::Other, "other interrupt".to_owned()),
            Cause::CallFunction | Cause::Reschedule | Cause::Flag if ended.function > 0 => {
                (WakerKind::Ipi, self.function(ended.function))
            }
            Cause::CallFunction => (WakerKind::Ipi, "function call".to_owned()),
            Cause::Reschedule => (WakerKind::Ipi, "reschedule".to_owned()),
            // Without a function, the flag is written only for rescheduling.
            Cause::Flag => (WakerKind::Ipi, "reschedule, by flag".to_owned()),
        };
        Waker {
            kind,
            name,
            command: command.or_else(|| self.command_of(ended.pid)),
            pid: (ended.pid > 0).then_some(ended.pid),
            irq: (ended.cause == Cause::Device).then_some(ended.irq),
            cpu: ended.cpu,
            per_s: None,
            wakes_per_s: Some(ended.times as f64 / elapsed_s),
            joint_ended_per_s: Some(ended.joint as f64 / elapsed_s),
        }
    }
}

/// The wakers between two readings, most frequent first. Devices also have their total rate.
pub fn that_woke(
    names: &mut Names,
    ended: &[Ended],
    counts: Option<(&Interrupts, &Interrupts)>,
    elapsed_s: f64,
) -> Vec<Waker> {
    let mut wakers: Vec<Waker> = ended
        .iter()
        .map(|ended| names.waker(ended, elapsed_s))
        .collect();
    for waker in &mut wakers {
        let Some((irq, (before, after))) = waker.irq.zip(counts) else {
            continue;
        };
        let line = irq.to_string();
        let came = after
            .count(&line, waker.cpu)
            .zip(before.count(&line, waker.cpu));
        let came = came.and_then(|(after, before)| after.checked_sub(before));
        // The counts are read at slightly different times: it may seem to come less often than it
        // woke.
        waker.per_s = came
            .map(|came| came as f64 / elapsed_s)
            .map(|per_s| per_s.max(waker.wakes_per_s.unwrap_or(0.0)));
    }
    sort(&mut wakers);
    wakers
}

/// The interrupts between two readings, without BPF.
pub fn that_came(before: &Interrupts, after: &Interrupts, elapsed_s: f64) -> Vec<Waker> {
    let mut wakers = Vec::new();
    for line in &after.lines {
        for (&cpu, &count) in after.cpus.iter().zip(&line.counts) {
            let came = before
                .count(&line.name, cpu)
                .and_then(|before| count.checked_sub(before));
            if let Some(came @ 1..) = came {
                wakers.push(interrupt(line, cpu, came as f64 / elapsed_s));
            }
        }
    }
    sort(&mut wakers);
    wakers
}

fn interrupt(line: &Line, cpu: u32, per_s: f64) -> Waker {
    let kind = match line.name.as_str() {
        "LOC" => WakerKind::Timer,
        "RES" | "CAL" | "TLB" => WakerKind::Ipi,
        name if name.starts_with("IPI") => WakerKind::Ipi,
        _ if line.is_device() => WakerKind::Interrupt,
        // The other numbered ones are per-CPU timers.
        name if name.bytes().all(|byte| byte.is_ascii_digit()) => WakerKind::Timer,
        _ => WakerKind::Other,
    };
    // Chip, its line, then the handlers.
    let name = match kind {
        WakerKind::Interrupt => line.description.split(' ').next_back().unwrap_or_default(),
        _ => &line.description,
    };
    Waker {
        kind,
        name: match name {
            "" => line.name.clone(),
            name => name.to_owned(),
        },
        command: None,
        pid: None,
        irq: line.name.parse().ok(),
        cpu,
        per_s: Some(per_s),
        wakes_per_s: None,
        joint_ended_per_s: None,
    }
}

fn sort(wakers: &mut [Waker]) {
    let rate = |waker: &Waker| waker.wakes_per_s.or(waker.per_s).unwrap_or(0.0);
    wakers.sort_by(|a, b| {
        let by_rate = rate(b).total_cmp(&rate(a));
        by_rate.then_with(|| (a.cpu, a.kind, &a.name).cmp(&(b.cpu, b.kind, &b.name)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(device: u64, timer: u64) -> Interrupts {
        Interrupts::parse(&format!(
            "     CPU0 CPU1\n 31: 5 {device} PCI-MSIX-0000:00:01.0 3-edge virtio0-input\nLOC: \
             {timer} 7 Local timer interrupts\n"
        ))
    }

    #[test]
    fn without_bpf_interrupts_are_counted_and_their_wake_ups_are_unknown() {
        let wakers = that_came(&reading(10, 100), &reading(30, 300), 2.0);
        let rates: Vec<_> = wakers
            .iter()
            .map(|waker| (waker.kind, waker.name.as_str(), waker.cpu, waker.per_s))
            .collect();
        assert_eq!(
            rates,
            [
                (WakerKind::Timer, "Local timer interrupts", 0, Some(100.0)),
                (WakerKind::Interrupt, "virtio0-input", 1, Some(10.0)),
            ]
        );
        assert!(wakers.iter().all(|waker| waker.wakes_per_s.is_none()));
    }

    #[test]
    fn a_device_is_named_by_its_handlers_and_a_thread_by_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("sys/kernel/irq/31/actions", "virtio0-input\n"),
            ("proc/77/comm", "cron\n"),
        ];
        for (file, text) in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut names = Names::new(Root::at(folder.path()), None);
        let ended = |cause, irq, pid, command: &str, times| Ended {
            cpu: 1,
            cause,
            function: if cause == Cause::Timer { 0xabc } else { 0 },
            irq,
            pid,
            command: command.to_owned(),
            times,
            joint: times / 2,
        };
        let ended = [
            ended(Cause::Device, 31, 0, "", 4),
            ended(Cause::Timer, 0, 77, "", 2),
            ended(Cause::Flag, 0, 5, "swift", 1),
        ];
        let (before, after) = (reading(10, 0), reading(30, 0));
        let wakers = that_woke(&mut names, &ended, Some((&before, &after)), 2.0);
        let named: Vec<_> = wakers
            .iter()
            .map(|waker| {
                (
                    waker.name.as_str(),
                    waker.command.as_deref(),
                    waker.wakes_per_s,
                )
            })
            .collect();
        assert_eq!(
            named,
            [
                ("virtio0-input", None, Some(2.0)),
                ("0xabc", Some("cron"), Some(1.0)),
                ("reschedule, by flag", Some("swift"), Some(0.5)),
            ]
        );
        assert_eq!((wakers[0].per_s, wakers[0].irq), (Some(10.0), Some(31)));
    }
}
