//! Tests whether tracing programs work: loads and attaches a BPF program that does nothing. Without
//! libbpf, so that a build without BPF reports it, too.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;

// include/uapi/linux/bpf.h of the kernel.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_RAW_TP: u32 = 23;

/// `r0 = 0; exit`.
const DO_NOTHING: [u64; 2] = [instruction(0xb7), instruction(0x95)];

/// An instruction whose operands are all zero: its code is its first byte in memory.
const fn instruction(code: u8) -> u64 {
    u64::from_ne_bytes([code, 0, 0, 0, 0, 0, 0, 0])
}

/// `union bpf_attr` for BPF_PROG_LOAD, up to `attach_btf_id` (kernel 5.5, the first with tracing
/// programs).
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    /// `log_level` to `prog_ifindex`.
    unused: [u32; 11],
    expected_attach_type: u32,
    /// `prog_btf_fd` to `line_info_cnt`.
    unused_info: [u32; 9],
    attach_btf_id: u32,
}

/// `union bpf_attr` for BPF_RAW_TRACEPOINT_OPEN; a tracing program knows its tracepoint already.
#[repr(C)]
#[derive(Default)]
struct Attach {
    name: u64,
    program: u32,
    padding: u32,
}

/// Loads and attaches the program for a moment.
///
/// # Errors
/// The kernel's own: EPERM or EACCES where the user may not, others where the kernel cannot.
pub fn to_tracepoint(btf_type: u32) -> io::Result<()> {
    let program = bpf(
        BPF_PROG_LOAD,
        &Load {
            program_type: BPF_PROG_TYPE_TRACING,
            instruction_count: DO_NOTHING.len() as u32,
            instructions: DO_NOTHING.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            expected_attach_type: BPF_TRACE_RAW_TP,
            attach_btf_id: btf_type,
            ..Load::default()
        },
    )?;
    let program = program.as_raw_fd() as u32;
    bpf(
        BPF_RAW_TRACEPOINT_OPEN,
        &Attach {
            program,
            ..Attach::default()
        },
    )
    .map(drop)
}

fn bpf<Attributes>(command: libc::c_int, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes of the attributes as `size`; what they point to is
    // static.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>() as libc::c_uint,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
