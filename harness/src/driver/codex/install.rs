//! Where the binary comes from: the npm package of a version, kept in the user's cache.
//!
//! Nothing is written outside the cache folder. Two processes that install the same version wait
//! for each other; a half-unpacked package is never seen, because it is renamed when whole.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::driver::NoVerdict;
use crate::rollout_file::regular;

/// Longest download of a package.
const NPM_PACK_MAX: Duration = Duration::from_mins(10);
/// Longest answer to `--version`.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Step of the waits above.
const POLL: Duration = Duration::from_millis(20);

/// A binary that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The executable.
    pub path: PathBuf,
    /// SHA-256 of the executable, in hex.
    pub sha256: String,
    /// What it says of itself, for instance `0.171.0`.
    pub version: String,
}

/// The cache folder: `$TURNPROOF_CACHE`, else `turnproof` below the user's cache folder.
pub fn cache_dir() -> Result<PathBuf, NoVerdict> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("TURNPROOF_CACHE")
        .and_then(|dir| std::path::absolute(dir).ok())
        .or_else(|| {
            // A relative one is to be ignored, says the XDG specification.
            let dir = set("XDG_CACHE_HOME").map(PathBuf::from);
            let dir = dir.filter(|dir| dir.is_absolute());
            dir.map(|dir| dir.join("turnproof"))
        })
        .or_else(|| set("HOME").map(|dir| Path::new(&dir).join(".cache/turnproof")))
        .ok_or_else(|| could_not_run("no cache folder: set TURNPROOF_CACHE"))
}

/// Whether a version is in the cache already.
pub fn is_installed(version: &str) -> bool {
    let target = target();
    match (cache_dir(), target) {
        (Ok(cache), Ok((_, triple))) => {
            executable(&cache.join("codex").join(version), triple).is_file()
        }
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// The binary of a version; the first use downloads it.
pub fn ensure(version: &str) -> Result<Binary, NoVerdict> {
    let (platform, triple) = target()?;
    let folder = cache_dir()?.join("codex");
    fs::create_dir_all(&folder).map_err(|error| io("create", &folder, &error))?;
    let installed = folder.join(version);
    let path = executable(&installed, triple);
    let lock_path = folder.join(format!("{version}.lock"));
    let lock = File::create(&lock_path).map_err(|error| io("create", &lock_path, &error))?;
    lock.lock()
        .map_err(|error| io("lock", &lock_path, &error))?;
    if !path.is_file() {
        install(version, platform, &folder, &installed)?;
    }
    let hash_path = installed.join("sha256");
    let sha256 = if let Ok(hash) = fs::read_to_string(&hash_path) {
        hash.trim().to_owned()
    } else {
        let said = ask_version(&path)?;
        if said != version {
            let path = path.display();
            return Err(could_not_run(&format!("{path} says {said}, not {version}")));
        }
        let hash = hash_of(&path)?;
        fs::write(&hash_path, &hash).map_err(|error| io("write", &hash_path, &error))?;
        hash
    };
    Ok(Binary {
        path,
        sha256,
        version: version.to_owned(),
    })
}

/// A local build.
pub fn at_path(path: &Path) -> Result<Binary, NoVerdict> {
    let path = path
        .canonicalize()
        .map_err(|error| io("find", path, &error))?;
    Ok(Binary {
        version: ask_version(&path)?,
        sha256: hash_of(&path)?,
        path,
    })
}

/// Suffix of the package and target triple of this machine.
fn target() -> Result<(&'static str, &'static str), NoVerdict> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok(("linux-x64", "x86_64-unknown-linux-musl")),
        ("linux", "aarch64") => Ok(("linux-arm64", "aarch64-unknown-linux-musl")),
        ("macos", "x86_64") => Ok(("darwin-x64", "x86_64-apple-darwin")),
        ("macos", "aarch64") => Ok(("darwin-arm64", "aarch64-apple-darwin")),
        (os, arch) => Err(could_not_run(&format!("no package for {os} on {arch}"))),
    }
}

fn executable(installed: &Path, triple: &str) -> PathBuf {
    installed
        .join("package/vendor")
        .join(triple)
        .join("bin/codex")
}

fn install(
    version: &str,
    platform: &str,
    folder: &Path,
    installed: &Path,
) -> Result<(), NoVerdict> {
    let fresh = folder.join(format!("{version}.part"));
    // Left over from an install that was ended; the lock says that nobody works on it now.
    let _ = fs::remove_dir_all(&fresh);
    let _ = fs::remove_dir_all(installed);
    fs::create_dir_all(&fresh).map_err(|error| io("create", &fresh, &error))?;
    let spec = format!("@openai/codex@{version}-{platform}");
    tracing::info!(spec, "downloading");
    npm_pack(&spec, &fresh)?;
    let archive = fs::read_dir(&fresh)
        .map_err(|error| io("read", &fresh, &error))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| could_not_run(&format!("npm pack {spec} left no archive")))?;
    let file = File::open(&archive).map_err(|error| io("open", &archive, &error))?;
    tar::Archive::new(flate2::read::GzDecoder::new(file))
        .unpack(&fresh)
        .map_err(|error| io("unpack", &archive, &error))?;
    fs::remove_file(&archive).map_err(|error| io("remove", &archive, &error))?;
    fs::rename(&fresh, installed).map_err(|error| io("rename", &fresh, &error))
}

fn npm_pack(spec: &str, folder: &Path) -> Result<(), NoVerdict> {
    let command = format!("npm pack {spec} --pack-destination {}", folder.display());
    let failed = |why: &str| could_not_run(&format!("{why}; the command was: {command}"));
    let child = Command::new("npm")
        .args(["pack", spec, "--silent", "--pack-destination"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| failed(&format!("npm could not be started ({error})")))?;
    let status = wait(child, NPM_PACK_MAX).map_err(|why| failed(&why))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(&format!("npm ended with {status}")))
    }
}

fn ask_version(path: &Path) -> Result<String, NoVerdict> {
    let failed = |why: &str| could_not_run(&format!("{} --version: {why}", path.display()));
    let mut child = Command::new(path)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(&error.to_string()))?;
    let mut out = child.stdout.take();
    wait(child, VERSION_MAX).map_err(|why| failed(&why))?;
    let mut said = String::new();
    if let Some(out) = &mut out {
        out.read_to_string(&mut said)
            .map_err(|error| failed(&error.to_string()))?;
    }
    said.split_whitespace()
        .last()
        .map(str::to_owned)
        .ok_or_else(|| failed("it said nothing"))
}

fn wait(
    mut child: std::process::Child,
    longest: Duration,
) -> Result<std::process::ExitStatus, String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        let interrupt = crate::interrupt::came();
        if interrupt.is_some() || start.elapsed() > longest {
            // It may have ended by itself in between; both is fine.
            let _ = child.kill();
            let _ = child.wait();
            return Err(interrupt.map_or_else(
                || format!("no end after {} s", longest.as_secs()),
                |interrupt| format!("interrupted by {}", interrupt.name),
            ));
        }
        std::thread::sleep(POLL);
    }
}

fn hash_of(path: &Path) -> Result<String, NoVerdict> {
    let mut file = regular::open(path).map_err(|error| io("open", path, &error))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file
            .read(&mut buffer)
            .map_err(|error| io("read", path, &error))?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes all");
            hex
        })
}

fn could_not_run(why: &str) -> NoVerdict {
    NoVerdict::CouldNotRun(why.to_owned())
}

fn io(what: &str, path: &Path, error: &std::io::Error) -> NoVerdict {
    could_not_run(&format!("could not {what} {}: {error}", path.display()))
}
