//! Files that a user names, which may be anything.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use crate::{Error, Result};

/// The content of a file of at most so many bytes.
///
/// # Errors
/// [`Error::Unreadable`] for what is no file, or a longer one; [`Error::Io`].
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let failed = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let unreadable = |why: String| Error::Unreadable {
        path: path.to_owned(),
        why,
    };
    // A FIFO without a writer, and files of /proc such as kmsg, would wait for ever.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(unreadable("is not a file".into()));
    }
    let mut content = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut content);
    read.map_err(failed)?;
    match content.len() as u64 > bytes_max {
        true => Err(unreadable(format!(
            "is longer than {} MiB",
            bytes_max >> 20
        ))),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_no_file_of_that_length_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let long = folder.path().join("long");
        std::fs::write(&long, vec![b'a'; (1 << 20) + 1]).unwrap();
        for (path, why) in [
            (folder.path(), "is not a file"),
            (&fifo, "is not a file"),
            (Path::new("/dev/zero"), "is not a file"),
            (&long, "is longer than 1 MiB"),
        ] {
            let error = read(path, 1 << 20).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(read(&long, (1 << 20) + 1).unwrap().len(), (1 << 20) + 1);
    }
}
