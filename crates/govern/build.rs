//! Compiles the BPF programs (the service's, and the benchmark's) and generates their skeletons; the
//! skeletons' types are those of the headers, taken from the objects' BTF, so that kernel side and program
//! side cannot drift.

fn main() {
    #[cfg(feature = "bpf")]
    for (source, name) in [
        ("src/bpf/govern.bpf.c", "govern.skel.rs"),
        ("benches/ways.bpf.c", "ways.skel.rs"),
    ] {
        skeleton(source, name);
    }
}

#[cfg(feature = "bpf")]
fn skeleton(source: &str, name: &str) {
    use std::env;
    use std::path::PathBuf;

    use libbpf_cargo::SkeletonBuilder;

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-changed={}", source.replace(".bpf.c", ".h"));
    println!("cargo:rerun-if-changed=../kernel/src/bpf");
    // Debian keeps <asm/types.h> per architecture, and clang does not look there for BPF.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let asm = format!("-I/usr/include/{arch}-linux-gnu");
    if let Err(error) = SkeletonBuilder::new()
        .source(source)
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", &asm, "-I../kernel/src/bpf"])
        .build_and_generate(out.join(name))
    {
        panic!(
            "{source}: {error:#}\nclang with its BPF back end is needed: Debian's packages clang and libbpf-dev"
        );
    }
}
