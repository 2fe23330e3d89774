//! A rollout file as the engine's reader asks for it: bytes anywhere, nothing kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use engine::ports::ReadAt;

use super::regular;

/// An open file. A compressed one is not read this way.
#[derive(Debug)]
pub struct Bytes(File);

impl Bytes {
    /// Opens a file for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        regular::open(path).map(Self)
    }
}

impl ReadAt for Bytes {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_anywhere_and_none_behind_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").expect("written");
        let file = Bytes::open(&path).expect("opens");
        assert_eq!(file.bytes().expect("a length"), 10);
        let mut four = [0; 4];
        file.read_exact_at(&mut four, 3).expect("reads");
        assert_eq!(&four, b"3456");
        assert!(file.read_exact_at(&mut four, 8).is_err());
    }
}
