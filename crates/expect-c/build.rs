//! Gives the shared library its soname.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The numbers that a change of the interface raises: before 1.0 the first two of the version.
    let [major, minor] =
        ["MAJOR", "MINOR"].map(|part| var(format!("CARGO_PKG_VERSION_{part}")).unwrap());
    let interface = match major.as_str() {
        "0" => format!("0.{minor}"),
        _ => major,
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libreveille_expect.so.{interface}");
}
