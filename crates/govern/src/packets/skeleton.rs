//! The BPF program's skeleton and types, which `build.rs` generates.

#![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/govern.skel.rs"));
