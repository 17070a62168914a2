//! Compiles the BPF program and generates its skeleton; its types come from the object's BTF, so the
//! header is their only definition.

fn main() {
    #[cfg(feature = "bpf")]
    skeleton();
}

#[cfg(feature = "bpf")]
fn skeleton() {
    use std::env;
    use std::path::PathBuf;

    use libbpf_cargo::SkeletonBuilder;

    const SOURCE: &str = "src/bpf/server.bpf.c";

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed=../kernel/src/bpf");
    // Debian keeps <asm/types.h> per architecture, and clang does not look there for BPF.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let asm = format!("-I/usr/include/{arch}-linux-gnu");
    if let Err(error) = SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", &asm, "-I../kernel/src/bpf"])
        .build_and_generate(out.join("server.skel.rs"))
    {
        panic!(
            "{SOURCE}: {error:#}\nneeds clang with its BPF back end: Debian's packages clang and libbpf-dev"
        );
    }
}
