//! For C: `include/reveille_expect.h` is the documentation of what is here.
//!
//! What the caller promises: a handle is NULL, or was made by `reveille_expect_open` or `reveille_hints_open` and is not closed;
//! a string is NULL or ends with NUL; a pointer to a result is NULL or may be written to.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::libc;

use reveille_expect::remote::{Announced, Hint, Key, Sender, Service};
use reveille_expect::{Error, Expected, Kind, Refusal, SOCKET, Served, Waker, monotonic_ns};

/// `struct reveille_expect`.
pub struct Handle(Mutex<Waker>);

/// `struct reveille_prediction`.
#[repr(C)]
pub struct CPrediction {
    duration_ns: u64,
    early_ns: u64,
    late_ns: u64,
    drift_ns: f64,
    accuracy: f64,
    calls: u64,
}

/// `struct reveille_expect_counts`.
#[repr(C)]
pub struct CCounts {
    asked: u64,
    accepted: u64,
    refused: u64,
    cancelled: u64,
}

const BY_NOBODY: i32 = 0;
const BY_ENGINE: i32 = 1;
const BY_THREAD: i32 = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_open(path: *const c_char) -> *mut Handle {
    // SAFETY: as the caller promises.
    let path = unsafe { bytes_of(path) };
    let path = path.map_or(Path::new(SOCKET), |path| Path::new(OsStr::from_bytes(path)));
    Box::into_raw(Box::new(Handle(Mutex::new(Waker::connect_to(path)))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_close(waker: *mut Handle) {
    if !waker.is_null() {
        // SAFETY: it was made by `open`, and it has no other owner.
        drop(unsafe { Box::from_raw(waker) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_served(waker: *const Handle) -> i32 {
    // SAFETY: as the caller promises.
    let served = unsafe { with(waker, |waker| waker.served()) };
    match served {
        Some(Served::ByEngine) => BY_ENGINE,
        Some(Served::ByThread(_)) => BY_THREAD,
        Some(Served::ByNobody(_)) => BY_NOBODY,
        None => -libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_at(
    waker: *const Handle,
    at_ns: u64,
    window_ns: u64,
) -> i64 {
    // SAFETY: as the caller promises.
    match unsafe { with(waker, |waker| waker.expect_ns(at_ns, window_ns)) } {
        // From 1, one more each time.
        Some(Ok(expected)) => i64::try_from(expected.number()).unwrap_or(i64::MAX),
        Some(Err(error)) => (-errno(&error)).into(),
        None => (-libc::EINVAL).into(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_cancel(waker: *const Handle, request: i64) -> i32 {
    let Ok(number) = u64::try_from(request) else {
        return -libc::EINVAL;
    };
    let cancel = |waker: &mut Waker| match number {
        0 => waker.cancel(),
        number => waker.cancel_one(Expected::from_number(number)),
    };
    // SAFETY: as the caller promises.
    done(unsafe { with(waker, cancel) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_wait(waker: *const Handle, timeout_ns: u64) -> i32 {
    let timeout = Duration::from_nanos(timeout_ns);
    // SAFETY: as the caller promises.
    let answered = unsafe { with(waker, |waker| waker.wait_for_answers(timeout)) };
    answered.map_or(-libc::EINVAL, i32::from)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_counts(waker: *const Handle, counts: *mut CCounts) -> i32 {
    // SAFETY: as the caller promises.
    let now = unsafe { with(waker, |waker| waker.counts()) };
    let Some(now) = now.filter(|_| !counts.is_null()) else {
        return -libc::EINVAL;
    };
    let values = CCounts {
        asked: now.asked,
        accepted: now.accepted,
        refused: now.refused_in_all(),
        cancelled: now.cancelled,
    };
    // SAFETY: it is not NULL; the rest the caller promises.
    unsafe { counts.write(values) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_refused(waker: *const Handle, why: i32) -> i64 {
    let reason = usize::try_from(why).ok();
    let Some(why) = reason.and_then(|place| Refusal::ALL.get(place)) else {
        return (-libc::EINVAL).into();
    };
    // SAFETY: as the caller promises.
    let refused = unsafe { with(waker, |waker| waker.counts().refused(*why)) };
    refused.map_or((-libc::EINVAL).into(), |count| {
        i64::try_from(count).unwrap_or(i64::MAX)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_observe(
    waker: *const Handle,
    kind: u64,
    duration_ns: i64,
) -> i32 {
    // What is below 0 is nonsense as 0 is, and counted as such.
    let duration = Duration::from_nanos(duration_ns.try_into().unwrap_or(0));
    let observe = |waker: &mut Waker| waker.observe(Kind::from_number(kind), duration);
    // SAFETY: as the caller promises.
    done(unsafe { with(waker, observe) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_predict(
    waker: *const Handle,
    kind: u64,
    next: *mut CPrediction,
) -> i32 {
    let predict = |waker: &mut Waker| waker.predict(Kind::from_number(kind));
    // SAFETY: as the caller promises.
    let (Some(prediction), false) = (unsafe { with(waker, predict) }, next.is_null()) else {
        return -libc::EINVAL;
    };
    let Some(prediction) = prediction else {
        return 0;
    };
    // SAFETY: it is not NULL; the rest the caller promises.
    unsafe {
        next.write(CPrediction {
            duration_ns: whole_ns(prediction.duration),
            early_ns: whole_ns(prediction.early),
            late_ns: whole_ns(prediction.late),
            drift_ns: prediction.drift_ns,
            accuracy: prediction.accuracy.unwrap_or(-1.0),
            calls: prediction.calls as u64,
        });
    }
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_expect_kind(name: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    let name = unsafe { bytes_of(name) };
    name.map_or(0, |name| Kind::named(name).number())
}

#[unsafe(no_mangle)]
pub extern "C" fn reveille_expect_now() -> u64 {
    monotonic_ns()
}

/// `struct reveille_hints`.
pub struct Hints(Mutex<Sender>);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_hints_open(
    hints: *mut *mut Hints,
    to: *const c_char,
    key_file: *const c_char,
) -> i32 {
    // SAFETY: as the caller promises.
    let (to, key_file) = unsafe { (bytes_of(to), bytes_of(key_file)) };
    let (false, Some(to)) = (hints.is_null(), to) else {
        return -libc::EINVAL;
    };
    let key = key_file.map(|file| Key::read(Path::new(OsStr::from_bytes(file))));
    let Ok(key) = key.transpose() else {
        return -libc::EKEYREJECTED;
    };
    let Ok(to) = std::str::from_utf8(to) else {
        return -libc::EHOSTUNREACH;
    };
    match Sender::new(to, key) {
        Ok(sender) => {
            let made = Box::into_raw(Box::new(Hints(Mutex::new(sender))));
            // SAFETY: it is not NULL; the rest the caller promises.
            unsafe { hints.write(made) };
            0
        }
        // A name's errors are none of the system's.
        Err(error) => -error.raw_os_error().unwrap_or(libc::EHOSTUNREACH),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_hints_close(hints: *mut Hints) {
    if !hints.is_null() {
        // SAFETY: it was made by `open`, and it has no other owner.
        drop(unsafe { Box::from_raw(hints) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reveille_hints_send(
    hints: *const Hints,
    protocol: i32,
    port: u16,
    after_ns: u64,
    within_ns: u64,
) -> i32 {
    // SAFETY: as the caller promises.
    let hints = unsafe { hints.as_ref() };
    let service = match protocol {
        libc::IPPROTO_TCP => Service::tcp(port),
        libc::IPPROTO_UDP => Service::udp(port),
        _ => return -libc::EINVAL,
    };
    let Some(hints) = hints.filter(|_| port > 0) else {
        return -libc::EINVAL;
    };
    let announced = Announced {
        after: Duration::from_nanos(after_ns),
        within: Duration::from_nanos(within_ns),
    };
    let mut sender = hints.0.lock().unwrap_or_else(PoisonError::into_inner);
    match sender.send(&Hint { service, announced }) {
        Ok(()) => 0,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

/// `None` for NULL.
unsafe fn with<T>(waker: *const Handle, act: impl FnOnce(&mut Waker) -> T) -> Option<T> {
    // SAFETY: as the caller promises.
    let handle = unsafe { waker.as_ref() }?;
    let mut waker = handle.0.lock().unwrap_or_else(PoisonError::into_inner);
    Some(act(&mut waker))
}

/// `None` for NULL; the string must outlive `'a`.
unsafe fn bytes_of<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: it is not NULL; the rest the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn done(result: Option<reveille_expect::Result<()>>) -> i32 {
    match result {
        Some(Ok(())) => 0,
        Some(Err(error)) => -errno(&error),
        None => -libc::EINVAL,
    }
}

/// At most u64::MAX (584 years).
fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn errno(error: &Error) -> i32 {
    match error {
        Error::Refused(why) => match why {
            Refusal::Budget | Refusal::UserBudget | Refusal::Wakeups => libc::EDQUOT,
            Refusal::Past => libc::ETIME,
            Refusal::TooFar => libc::ERANGE,
            Refusal::TooLong => libc::EFBIG,
            Refusal::Empty => libc::EINVAL,
            Refusal::Cpu => libc::ENODEV,
            // Limit, Slots, Other, and reasons of later engines.
            _ => libc::EBUSY,
        },
        Error::InvalidDuration(_) => libc::EINVAL,
        Error::Cannot(_) => libc::ENOTSUP,
        Error::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EIO,
    }
}
