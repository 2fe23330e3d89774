//! What was received: exact body bytes and headers, in order of arrival.

use std::io::Read as _;

use bytes::Bytes;
use serde_json::Value;

use crate::script::HANDSHAKE_METHOD;

/// Largest decoded body, so that a small compressed body cannot fill the memory.
pub const DECODED_BODY_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// One request as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `POST`, `GET`.
    pub method: String,
    /// Path and query below the base URL, for instance `/responses`.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Exact bytes, still encoded if the client encoded them.
    pub body: Bytes,
}

/// Why a body could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The encoding is none of `zstd`, `gzip`, `identity`.
    #[error("unknown content encoding `{0}`")]
    UnknownEncoding(String),
    /// The bytes do not fit the encoding.
    #[error("body is not valid {encoding}: {source}")]
    Damaged {
        /// Name of the encoding.
        encoding: &'static str,
        /// What the decoder said.
        source: std::io::Error,
    },
}

impl Request {
    /// First value of a header; `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body without its content encoding.
    pub fn decoded(&self) -> Result<Bytes, DecodeError> {
        match self.header("content-encoding") {
            None | Some("identity") => Ok(self.body.clone()),
            Some("zstd") => zstd::Decoder::new(&self.body[..])
                .and_then(read_limited)
                .map_err(|source| DecodeError::Damaged {
                    encoding: "zstd",
                    source,
                }),
            Some("gzip") => {
                read_limited(flate2::read::GzDecoder::new(&self.body[..])).map_err(|source| {
                    DecodeError::Damaged {
                        encoding: "gzip",
                        source,
                    }
                })
            }
            Some(other) => Err(DecodeError::UnknownEncoding(other.to_owned())),
        }
    }

    /// The decoded body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.decoded().ok()?).ok()
    }
}

fn read_limited(reader: impl std::io::Read) -> std::io::Result<Bytes> {
    let mut decoded = Vec::new();
    reader
        .take(DECODED_BODY_BYTES_MAX)
        .read_to_end(&mut decoded)?;
    Ok(Bytes::from(decoded))
}

/// One request and what answered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// Label of the reply; `None` where nothing was scripted.
    pub reply: Option<String>,
    /// The client closed the stream before its end.
    pub client_left: bool,
}

/// Requests in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    entries: Vec<Entry>,
}

impl Journal {
    /// Adds a request; the number returned identifies it.
    pub fn push(&mut self, request: Request, reply: Option<String>) -> usize {
        self.entries.push(Entry {
            request,
            reply,
            client_left: false,
        });
        self.entries.len() - 1
    }

    /// Notes that the client closed the stream that answers request `number`.
    pub fn note_client_left(&mut self, number: usize) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.client_left = true;
        }
    }

    /// Handshakes received so far.
    pub fn handshakes(&self) -> usize {
        let entries = self.entries.iter();
        entries
            .filter(|entry| entry.request.method == HANDSHAKE_METHOD)
            .count()
    }

    /// What was received so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn request(encoding: Option<&str>, body: Vec<u8>) -> Request {
        Request {
            method: "POST".into(),
            path: "/responses".into(),
            headers: encoding
                .map(|name| ("content-encoding".to_owned(), name.to_owned()))
                .into_iter()
                .collect(),
            body: Bytes::from(body),
        }
    }

    #[test]
    fn encodings_are_undone_and_the_raw_bytes_stay() {
        let zstd = zstd::encode_all(&b"{\"a\":1}"[..], 1).expect("zstd encodes");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"{\"a\":1}").expect("gzip encodes");
        let gzip = gzip.finish().expect("gzip ends");
        for request in [
            request(None, b"{\"a\":1}".to_vec()),
            request(Some("zstd"), zstd.clone()),
            request(Some("gzip"), gzip),
        ] {
            assert_eq!(request.decoded().expect("decodes"), "{\"a\":1}");
        }
        assert_eq!(request(Some("zstd"), zstd.clone()).body, zstd);
        let failed = request(Some("br"), vec![])
            .decoded()
            .expect_err("unknown encoding");
        assert_eq!(failed.to_string(), "unknown content encoding `br`");
    }
}
