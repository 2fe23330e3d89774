//! Opens files that a user named: a pipe, a terminal or a device under that name is refused at once,
//! since reading it could wait for ever.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a file for reading.
pub fn open(path: &Path) -> Result<File> {
    // Without this flag the open itself waits until somebody writes into the pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    let what = if kind.is_fifo() {
        "it is a pipe"
    } else {
        "it is a device"
    };
    let what = format!("{what} and no regular file: save its contents to a file first");
    Err(Error::new(ErrorKind::InvalidInput, what))
}

/// The first bytes of a file, at most so many.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether it is the name that is to blame, and so whoever typed it.
pub fn is_slip(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename
            | ErrorKind::AlreadyExists
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        std::fs::write(&file, "0123456789").expect("written");
        assert_eq!(read(&file, 4).expect("read"), b"0123");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        for (path, what) in [
            (pipe.as_path(), "it is a pipe and no regular file"),
            (Path::new("/dev/null"), "it is a device and no regular file"),
            (folder.path(), "it is a folder"),
        ] {
            let error = open(path).expect_err("refused");
            assert!(error.to_string().starts_with(what), "{error}");
            assert!(is_slip(&error));
        }
        let absent = open(&folder.path().join("none")).expect_err("absent");
        assert!(is_slip(&absent));
    }
}
