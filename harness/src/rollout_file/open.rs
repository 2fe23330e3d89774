//! Opens a rollout file for reading, compressed or not. Nothing is ever written.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::rc::Rc;

use super::regular;
use super::zstd::Frames;

/// Bytes that are asked of the disk at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// An open rollout file.
pub struct Source {
    /// The decompressed bytes.
    pub reader: Box<dyn BufRead>,
    /// Bytes of the file as it lies on the disk.
    pub bytes_on_disk: u64,
    /// The file is zstd.
    pub compressed: bool,
    /// It is a file and no pipe: it can be opened again.
    pub repeatable: bool,
    read: Rc<Cell<u64>>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("bytes_on_disk", &self.bytes_on_disk)
            .field("compressed", &self.compressed)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// How far the file on the disk is read; a handle that stays good while the reader is used.
    pub fn position(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.read)
    }
}

/// Counts what is read from the disk.
struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// Whether it is the end of a pipe that a shell gave us (`/dev/stdin`, `<(…)`), so that somebody
/// writes into it. A pipe with a name of its own may wait for a writer for ever.
fn is_handed_over(path: &Path) -> bool {
    let is_ours = path.starts_with("/dev") || path.starts_with("/proc/self");
    is_ours && std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Opens a file; its reader stands `offset` decompressed bytes behind the beginning.
///
/// The extension `.zst` says that it is compressed, and so do the first bytes: a rollout begins with
/// a brace.
pub fn open(path: &Path, offset: u64) -> std::io::Result<Source> {
    const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
    let mut file = if is_handed_over(path) {
        File::open(path)?
    } else {
        regular::open(path)?
    };
    let metadata = file.metadata()?;
    // A pipe has no beginning to go back to, so its name alone decides.
    let named = path.extension().is_some_and(|extension| extension == "zst");
    let mut first = Vec::new();
    if metadata.is_file() {
        (&mut file).take(4).read_to_end(&mut first)?;
        file.rewind()?;
    }
    let compressed = named || first == MAGIC;
    let read = Rc::new(Cell::new(0));
    if !compressed && offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let counted = Counted {
        inner: file,
        read: Rc::clone(&read),
    };
    let plain = BufReader::with_capacity(CHUNK_BYTES, counted);
    let reader: Box<dyn BufRead> = if compressed {
        let mut frames = BufReader::with_capacity(CHUNK_BYTES, Frames::new(plain));
        std::io::copy(&mut (&mut frames).take(offset), &mut std::io::sink())?;
        Box::new(frames)
    } else {
        Box::new(plain)
    };
    Ok(Source {
        reader,
        bytes_on_disk: metadata.len(),
        compressed,
        repeatable: metadata.is_file(),
        read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn text(path: &Path, offset: u64) -> (bool, String) {
        let mut source = open(path, offset).expect("opens");
        let mut text = String::new();
        source.reader.read_to_string(&mut text).expect("reads");
        (source.compressed, text)
    }

    #[test]
    fn plain_and_compressed_read_alike_from_any_offset() {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = folder.path().join("rollout-a.jsonl");
        let named = folder.path().join("rollout-a.jsonl.zst");
        let unnamed = folder.path().join("rollout-b.jsonl");
        std::fs::write(&plain, "one\ntwo\n").unwrap();
        let data = compress_to_vec(&b"one\ntwo\n"[..], CompressionLevel::Fastest);
        std::fs::write(&named, &data).unwrap();
        std::fs::write(&unnamed, &data).unwrap();
        assert_eq!(text(&plain, 0), (false, "one\ntwo\n".into()));
        for (offset, rest) in [(0, "one\ntwo\n"), (4, "two\n"), (8, "")] {
            assert_eq!(text(&plain, offset).1, rest);
            assert_eq!(text(&named, offset), (true, rest.into()));
            assert_eq!(text(&unnamed, offset), (true, rest.into()));
        }
    }

    #[test]
    fn a_folder_and_an_absent_file_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(open(folder.path(), 0).is_err());
        assert!(open(&folder.path().join("none"), 0).is_err());
    }
}
