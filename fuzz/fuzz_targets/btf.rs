#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_kernel::Btf;

fuzz_target!(|bytes: &[u8]| {
    if let Some(btf) = Btf::parse(bytes) {
        let _ = (btf.tracepoint("nap"), btf.function("x"));
    }
});
