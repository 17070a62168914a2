//! Properties of the parsers: any text is read or refused, and written text is read back.

use proptest::collection::vec;
use proptest::prelude::*;
use reveille_kernel::capabilities::Credentials;
use reveille_kernel::interrupts::{Interrupts, quietest_cpu};
use reveille_kernel::{Btf, Identity, Idle, Root, boot, counters, cpulist};

/// Text that resembles a kernel file: its own words in any order.
fn nearly() -> impl Strategy<Value = String> {
    let words = [
        "CPU0",
        "CPU1",
        "CPU",
        "0",
        "1",
        "-1",
        "4294967296",
        "99999999999999999999",
        ":",
        "=",
        ",",
        "-",
        "--",
        "\n",
        " ",
        "\t",
        "\"",
        "processor",
        "flags",
        "model name",
        "hypervisor",
        "LOC:",
        "24:",
        "Uid",
        "CapEff",
        "idle",
        "poll",
        "intel_idle.max_cstate",
        "nohlt",
        "config:0-63",
        "0x",
        "event",
        "µ",
        "\0",
        "n/a",
        "none",
    ];
    vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.concat())
}

fn anything() -> impl Strategy<Value = String> {
    prop_oneof![nearly(), any::<String>()]
}

proptest! {
    #[test]
    fn any_cpu_list_survives_writing_and_reading(mut cpus in vec(0u32..9000, 0..80)) {
        let list = cpulist::format(&cpus);
        cpus.sort_unstable();
        cpus.dedup();
        prop_assert_eq!(cpulist::parse(&list), Some(cpus));
    }

    #[test]
    fn any_text_is_a_list_of_cpus_or_none(text in anything()) {
        if let Some(cpus) = cpulist::parse(&text) {
            prop_assert!(cpus.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn any_interrupt_table_has_a_count_per_cpu(text in anything()) {
        let interrupts = Interrupts::parse(&text);
        for line in &interrupts.lines {
            prop_assert_eq!(line.counts.len(), interrupts.cpus.len());
        }
        let quietest = quietest_cpu(&interrupts, &interrupts, &[0, 1]);
        prop_assert!(quietest.is_none_or(|cpu| interrupts.cpus.contains(&cpu)));
    }

    #[test]
    fn parameters_of_any_command_line_are_among_its_words(text in anything()) {
        for setting in boot::settings(&text) {
            prop_assert!(!setting.meaning.is_empty());
            prop_assert!(text.replace('-', "_").contains(&setting.name));
        }
    }

    #[test]
    fn any_bytes_are_btf_or_none(bytes in vec(any::<u8>(), 0..300), types in vec(any::<u8>(), 0..200)) {
        prop_assert!(Btf::parse(&bytes).is_none_or(|btf| btf == Btf::parse(&bytes).unwrap()));
        // After a valid header, the types are parsed.
        let length = types.len() as u32;
        let mut data = 0xeb9f_u16.to_ne_bytes().to_vec();
        data.extend([1, 0]);
        for word in [24, 0, length, length, 0] {
            data.extend(u32::to_ne_bytes(word));
        }
        data.extend(types);
        let _ = Btf::parse(&data);
    }

    #[test]
    fn any_status_is_read_or_refused(text in anything()) {
        let _ = Credentials::parse(&text);
    }

    /// Files of a machine may contain anything: nothing panics, and an invalid number is unknown.
    #[test]
    fn any_files_give_a_machine(text in vec(anything(), 12)) {
        let folder = tempfile::tempdir().unwrap();
        let cpu = "sys/devices/system/cpu";
        let files = [
            format!("{cpu}/online"),
            format!("{cpu}/cpuidle/current_driver"),
            format!("{cpu}/cpu0/cpuidle/state0/name"),
            format!("{cpu}/cpu0/cpuidle/state0/usage"),
            format!("{cpu}/cpu0/topology/thread_siblings_list"),
            format!("{cpu}/cpu0/power/pm_qos_resume_latency_us"),
            "sys/bus/event_source/devices/msr/type".to_owned(),
            "sys/bus/event_source/devices/msr/events/tsc".to_owned(),
            "sys/bus/event_source/devices/msr/format/event".to_owned(),
            "proc/cpuinfo".to_owned(),
            "proc/cmdline".to_owned(),
            "proc/version".to_owned(),
        ];
        for (file, text) in files.iter().zip(&text) {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        let idle = Idle::read(&root).unwrap();
        prop_assert!(idle.cpu(0).is_some());
        let usage = text[3].trim().parse().ok();
        prop_assert_eq!(idle.cpu(0).unwrap().states[0].usage, usage);
        let _ = (Identity::read(&root), counters::discover(&root));
        let _ = (idle.groups(), boot::WithoutDriver::of(&idle, &root));
    }
}
