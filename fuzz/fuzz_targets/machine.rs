#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_kernel::capabilities::Credentials;
use reveille_kernel::interrupts::{self, Interrupts};
use reveille_kernel::{boot, cpulist};

// The kernel's text files, or a recorded machine in their place.
fuzz_target!(|text: &str| {
    if let Some(cpus) = cpulist::parse(text) {
        assert_eq!(cpulist::parse(&cpulist::format(&cpus)), Some(cpus));
    }
    let counts = Interrupts::parse(text);
    let _ = interrupts::quietest_cpu(&counts, &counts, &[0, 1]);
    let _ = boot::settings(text);
    let _ = Credentials::parse(text);
});
