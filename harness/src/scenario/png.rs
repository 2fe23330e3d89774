//! A black PNG of any size, built by hand: one bit a pixel, stored (uncompressed) blocks.
//!
//! The same size gives the same bytes on every machine, which a compressor does not promise.

use base64::Engine as _;

/// Largest side in pixels.
const SIDE_PIXELS_MAX: u32 = 10_000;
/// Largest stored block in bytes.
const BLOCK_BYTES_MAX: usize = 65_535;

/// A data URL of a black PNG; `size` is `WIDTHxHEIGHT`.
pub(crate) fn data_url(size: &str) -> Result<String, String> {
    let sides = size.split_once('x').and_then(|(width, height)| {
        Some((width.parse::<u32>().ok()?, height.parse::<u32>().ok()?))
    });
    let valid = |side: u32| (1..=SIDE_PIXELS_MAX).contains(&side);
    match sides {
        Some((width, height)) if valid(width) && valid(height) => {
            let bytes = png(width, height);
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            Ok(format!("data:image/png;base64,{text}"))
        }
        _ => Err(format!(
            "`{size}` is no size: WIDTHxHEIGHT, sides 1 to {SIDE_PIXELS_MAX}"
        )),
    }
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let row_bytes = width.div_ceil(8) as usize + 1;
    let pixels = vec![0_u8; row_bytes * height as usize];
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([1, 0, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &stored(&pixels));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    file.extend(data);
    let checksum = crc32(&file[start..]);
    file.extend(checksum.to_be_bytes());
}

/// A zlib stream of stored blocks.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = data.len().div_ceil(BLOCK_BYTES_MAX);
    for (index, block) in data.chunks(BLOCK_BYTES_MAX).enumerate() {
        let length = block.len() as u16;
        stream.push(u8::from(index + 1 == blocks));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(data).to_be_bytes());
    stream
}

fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

fn adler32(data: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    (high << 16) | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_known_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn sizes_are_checked() {
        assert!(
            data_url("1x1")
                .expect("a size")
                .starts_with("data:image/png;base64,iVBORw0KGgo")
        );
        assert!(data_url("0x1").is_err() && data_url("big").is_err());
    }
}
