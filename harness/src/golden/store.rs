//! Golden files: insta's snapshot form with our metadata under `info:`, read and written strictly.
//!
//! insta's reader drops carriage returns and its comparison trims blanks, so bytes are compared
//! here. A file is written by rename, after [`scan`] and the caller's remnant check.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::render::print;
use super::scan::scan;

/// Version of the golden form; readers refuse others.
pub const FORMAT: u32 = 1;

/// What stands above the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// One sentence: the scenario's own.
    pub description: String,
    /// The subject whose recording it is.
    pub blessed_by: String,
    /// SHA-256 of the binary; `none` for an `only: engine` scenario.
    pub binary_sha256: String,
    /// File name of the golden it stands beside in the chain; `none` for the first.
    pub base: String,
    /// Version of the form.
    pub format: u32,
}

/// One golden file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenFile {
    /// What stands above the body.
    pub header: Header,
    /// The body, with its final newline.
    pub body: String,
}

/// Why a golden could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The text has not the form of a golden.
    #[error("{file}:{line}: {message}")]
    Form {
        /// Path.
        file: String,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The file system refused.
    #[error("{file}: {message}")]
    Io {
        /// Path.
        file: String,
        /// What the system said.
        message: String,
    },
    /// The text may not be stored.
    #[error("{file}: not written: {}", findings.join("; "))]
    Refused {
        /// Path.
        file: String,
        /// What was found in it.
        findings: Vec<String>,
    },
}

/// Lines above the body: the header and the two lines around it.
const HEAD_LINES: usize = 8;

impl GoldenFile {
    /// Reads the text of a golden.
    pub fn parse(file: &str, text: &str) -> Result<Self, StoreError> {
        let golden = Self::parse_head(file, text)?;
        golden.check_body(file)?;
        Ok(golden)
    }

    /// Reads the text of a golden whose body is not looked into.
    fn parse_head(file: &str, text: &str) -> Result<Self, StoreError> {
        let fail = |line: usize, message: &str| form(file, line, message);
        if let Some(at) = text.lines().position(|l| l.ends_with(['\r', ' ', '\t'])) {
            return Err(fail(
                at + 1,
                "carriage return or blank at the end of a line",
            ));
        }
        if text.contains('\r') {
            return Err(fail(1, "carriage returns"));
        }
        let rest = text
            .strip_prefix("---\n")
            .ok_or_else(|| fail(1, "expected `---`"))?;
        let (head, body) = rest
            .split_once("\n---\n")
            .ok_or_else(|| fail(1, "expected a closing `---`"))?;
        let header = Header::parse(head).map_err(|(line, message)| fail(line + 2, &message))?;
        Ok(Self {
            header,
            body: body.to_owned(),
        })
    }

    /// Whether the body is JSON in the printed form. A body that equals what was printed needs no
    /// check.
    pub fn check_body(&self, file: &str) -> Result<(), StoreError> {
        let doc: Value = serde_json::from_str(&self.body).map_err(|e| {
            let line = HEAD_LINES + e.line();
            form(file, line, &format!("body is not JSON: {e}"))
        })?;
        let canonical = print(&doc);
        if canonical != self.body {
            let lines = canonical.lines().zip(self.body.lines());
            let at = lines.take_while(|(a, b)| a == b).count();
            let message = "body is not in the printed form; bless it again";
            return Err(form(file, HEAD_LINES + 1 + at, message));
        }
        Ok(())
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let h = &self.header;
        let mut out = String::from("---\n");
        let _ = writeln!(out, "description: {}", Value::String(h.description.clone()));
        let _ = writeln!(out, "info:\n  blessed_by: {}", h.blessed_by);
        let _ = writeln!(
            out,
            "  binary_sha256: {}\n  base: {}",
            h.binary_sha256, h.base
        );
        let _ = write!(out, "  format: {}\n---\n{}", h.format, self.body);
        out
    }

    /// The body as a document.
    pub fn doc(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// Reads a file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let golden = Self::read_head(path)?;
        if let Some(golden) = &golden {
            golden.check_body(&path.display().to_string())?;
        }
        Ok(golden)
    }

    /// Reads a file whose body is not looked into; `None` if there is none.
    pub fn read_head(path: &Path) -> Result<Option<Self>, StoreError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse_head(&path.display().to_string(), &text).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io(path, &e)),
        }
    }

    /// Writes a file by rename, after the scan. `remnants` says which real texts are left in it.
    pub fn write(
        &self,
        path: &Path,
        remnants: &dyn Fn(&str) -> Vec<String>,
    ) -> Result<(), StoreError> {
        let text = self.to_text();
        let mut findings = scan(&text);
        findings.extend(remnants(&text));
        if !findings.is_empty() {
            return Err(StoreError::Refused {
                file: path.display().to_string(),
                findings,
            });
        }
        write_atomically(path, &text)
    }
}

impl Header {
    fn parse(head: &str) -> Result<Self, (usize, String)> {
        let mut lines = head.lines().enumerate();
        let mut next = |key: &str| -> Result<String, (usize, String)> {
            let (at, line) = lines
                .next()
                .ok_or((0, format!("header lacks `{}`", key.trim())))?;
            let value = line.strip_prefix(key).and_then(|v| v.strip_prefix(':'));
            let value = value.ok_or_else(|| (at, format!("expected `{}:`", key.trim())))?;
            Ok(value.strip_prefix(' ').unwrap_or(value).to_owned())
        };
        let quoted = next("description")?;
        let description = serde_json::from_str(&quoted).map_err(|e| (0, e.to_string()))?;
        next("info")?;
        let header = Self {
            description,
            blessed_by: next("  blessed_by")?,
            binary_sha256: next("  binary_sha256")?,
            base: next("  base")?,
            format: next("  format")?
                .parse()
                .map_err(|_| (5, "format is a number".to_owned()))?,
        };
        if header.format != FORMAT {
            return Err((
                5,
                format!("format {} is not readable by {FORMAT}", header.format),
            ));
        }
        match lines.next() {
            Some((at, line)) => Err((at, format!("unknown header line `{line}`"))),
            None => Ok(header),
        }
    }
}

/// Writes beside the target and renames, so that no half file is ever seen.
pub fn write_atomically(path: &Path, text: &str) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| io(path, &e))?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    std::fs::write(&part, text).map_err(|e| io(path, &e))?;
    std::fs::rename(&part, path).map_err(|e| io(path, &e))
}

fn form(file: &str, line: usize, message: &str) -> StoreError {
    StoreError::Form {
        file: file.to_owned(),
        line,
        message: message.to_owned(),
    }
}

fn io(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Io {
        file: path.display().to_string(),
        message: error.to_string(),
    }
}

/// `x.snap` → `x.snap.new`, the name insta gives to a pending file.
pub fn pending_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn golden(by: &str, base: &str, doc: &Value) -> GoldenFile {
        GoldenFile {
            header: Header {
                description: "Does a thing: well.".into(),
                blessed_by: by.into(),
                binary_sha256: "0a".into(),
                base: base.into(),
                format: FORMAT,
            },
            body: print(doc),
        }
    }

    #[test]
    fn text_and_file_are_inverse() {
        let file = golden(
            "codex@0.144.6",
            "none",
            &serde_json::json!({"requests": [{"a": 1}]}),
        );
        assert_eq!(GoldenFile::parse("x", &file.to_text()).unwrap(), file);
    }

    #[test]
    fn every_byte_counts() {
        let text = golden(
            "codex@0.144.6",
            "none",
            &serde_json::json!({"requests": []}),
        )
        .to_text();
        let crlf = text.replace('\n', "\r\n");
        let blank = text.replace("{\n", "{ \n");
        let spaced = text.replace("  \"requests\"", "   \"requests\"");
        let longer = format!("{text}\n");
        for wrong in [
            crlf,
            blank,
            spaced,
            longer,
            text.replace("format: 1", "format: 9"),
        ] {
            let error = GoldenFile::parse("x.snap", &wrong).unwrap_err();
            assert!(error.to_string().starts_with("x.snap:"), "{error}");
        }
    }

    #[test]
    fn writes_by_rename_and_refuses_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/wire.snap");
        let file = golden("codex@0.144.6", "none", &serde_json::json!({"events": []}));
        file.write(&path, &|_| Vec::new()).unwrap();
        assert_eq!(GoldenFile::read(&path).unwrap(), Some(file.clone()));
        let refused = file
            .write(&path, &|_| vec!["a real text".into()])
            .unwrap_err();
        assert!(refused.to_string().contains("a real text"));
        let left: Vec<_> = std::fs::read_dir(folder.path().join("a"))
            .unwrap()
            .collect();
        assert_eq!(left.len(), 1, "no part file is left");
    }
}
