//! A zstd stream of any number of frames as a reader.
//!
//! Damaged data is an error of the kind [`ErrorKind::InvalidData`], so that it can be told from a
//! disk that fails. A frame's checksum is held against its data.

use std::io::{BufRead, Error, ErrorKind, Read, copy, sink};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Window that a frame may ask for, in bytes: four times that of zstd's level 19.
const WINDOW_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Decompresses.
pub struct Frames<R> {
    inner: R,
    decoder: FrameDecoder,
    /// A frame was begun and not all of it was handed out.
    inside: bool,
}

impl<R> std::fmt::Debug for Frames<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").finish_non_exhaustive()
    }
}

impl<R: BufRead> Frames<R> {
    /// A reader of what `inner` holds compressed.
    pub fn new(inner: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self {
            inner,
            decoder,
            inside: false,
        }
    }

    /// Begins the next frame that holds data; false at the end of the stream.
    fn begin(&mut self) -> Result<bool, Error> {
        while !self.inner.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.inner) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    copy(&mut (&mut self.inner).take(u64::from(length)), &mut sink())?;
                }
                Err(error) => return Err(frame_error(error)),
            }
        }
        Ok(false)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.inside = false;
        let said = self.decoder.get_checksum_from_data();
        let found = self.decoder.get_calculated_checksum();
        if said.is_some() && found.is_some() && said != found {
            return Err(broken("the checksum of a frame is not that of its data"));
        }
        Ok(())
    }
}

/// A window beyond the bound is no damage: the frame is fine for a reader with more memory.
fn frame_error(error: FrameDecoderError) -> Error {
    if let FrameDecoderError::WindowSizeTooBig { requested, .. } = error {
        let what = format!(
            "a zstd frame asks for a window of {requested} bytes, at most {WINDOW_BYTES_MAX} are \
             given; decompress it first"
        );
        return Error::new(ErrorKind::Unsupported, what);
    }
    broken(error)
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{error}"))
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.inside && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.inner, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(broken)?;
            }
            let count = self.decoder.read(buffer).map_err(broken)?;
            if count > 0 {
                return Ok(count);
            }
            self.end()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn read(data: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        Frames::new(data).read_to_end(&mut out).map(|_| out)
    }

    fn frame(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn frames_follow_each_other_and_empty_ones_are_left_out() {
        let mut data = frame(b"one\n");
        // A frame that a decoder has to skip: magic number, length, data.
        data.extend([0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        data.extend(frame(b""));
        data.extend(frame(b"two\n"));
        assert_eq!(read(&data).unwrap(), b"one\ntwo\n");
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused_and_no_damage() {
        // Magic number, a frame with a window, its size (exponent 17: 128 MiB).
        let error = read(&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x88, 1, 0, 0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn damage_is_invalid_data() {
        let whole = frame(&b"a line of text\n".repeat(500));
        let mut turned = whole.clone();
        let middle = turned.len() / 2;
        turned[middle] ^= 0x55;
        for data in [&b"no zstd at all"[..], &whole[..whole.len() - 6], &turned] {
            let error = read(data).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        }
    }
}
