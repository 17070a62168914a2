//! Where threads run.

use nix::errno::Errno;
pub use reveille_kernel::affinity::{Binding, allowed, visit};

use crate::{Error, Result};

/// Lets this thread run on that CPU only.
///
/// # Errors
/// [`Error::Usage`] where there is no such CPU, or this process may not use it.
pub fn on_cpu(cpu: u32) -> Result<Binding> {
    Binding::here(cpu).map_err(|errno| match errno {
        Errno::EINVAL => Error::Usage(format!(
            "CPU {cpu}: there is no such CPU, it is offline, or this process may not use it"
        )),
        errno => Error::Failed(format!("CPU {cpu}: {}", errno.desc())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_visit_this_thread_may_run_where_it_could_before() {
        let before = allowed();
        assert!(!before.is_empty());
        visit(&before);
        assert_eq!(allowed(), before);
        std::thread::spawn(move || {
            on_cpu(before[0]).unwrap();
            assert_eq!(allowed(), before[..1]);
            visit(&before);
            assert_eq!(allowed(), before[..1]);
        })
        .join()
        .unwrap();
        assert!(on_cpu(4000).is_err());
    }
}
