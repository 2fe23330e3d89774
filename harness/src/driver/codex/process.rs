//! One `codex app-server` process: start, handshake, end.
//!
//! The child gets an allow-listed environment and a process group of its own, and is ended by its
//! pid. It ends by itself when its standard input closes, so it outlives nobody: not a panic, not
//! Ctrl-C, not SIGKILL of this process.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::Mutex as AsyncMutex;

use super::home::RunDir;
use super::install::Binary;
use super::rpc::Rpc;
use crate::driver::NoVerdict;
use crate::scenario::plan::StopKind;

/// Longest end of a process after it was told to.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How much of standard error is kept, in bytes.
const STDERR_TAIL_BYTES: usize = 8 * 1024;

/// A running server.
#[derive(Debug)]
pub(crate) struct CodexProcess {
    pub(crate) rpc: Rpc,
    child: AsyncMutex<Child>,
    pid: Option<Pid>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl CodexProcess {
    /// Starts the server in `cwd` and shakes hands.
    pub(crate) async fn start(
        binary: &Binary,
        run: &RunDir,
        cwd: &Path,
    ) -> Result<Self, NoVerdict> {
        let failed = |why: String| NoVerdict::CouldNotRun(format!("codex app-server: {why}"));
        let mut child = Command::new(&binary.path)
            .args(["app-server", "--strict-config"])
            .current_dir(cwd)
            .env_clear()
            .env("CODEX_HOME", run.home())
            .env("HOME", run.user_home())
            .env("TERM", "dumb")
            .env("TZ", "UTC")
            .env("LANG", "C.UTF-8")
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(stdin), Some(stdout), Some(stderr_pipe)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("no pipes".to_owned()));
        };
        let stderr = Arc::default();
        tokio::spawn(keep_tail(stderr_pipe, Arc::clone(&stderr)));
        let process = Self {
            rpc: Rpc::new(stdin, stdout),
            child: AsyncMutex::new(child),
            pid,
            stderr,
        };
        let hello = json!({
            "clientInfo": {"name": "turnproof", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"experimentalApi": true},
        });
        if let Err(error) = process.rpc.request("initialize", hello).await {
            return Err(failed(format!("{error}{}", process.stderr_tail())));
        }
        process.rpc.notify("initialized").await;
        tracing::debug!(pid = ?pid, version = binary.version, "started");
        Ok(process)
    }

    /// Ends the process and waits until it is gone.
    pub(crate) async fn stop(&self, kind: StopKind) -> Result<ExitStatus, NoVerdict> {
        let mut child = self.child.lock().await;
        match (kind, self.pid) {
            (StopKind::Term, Some(pid)) => {
                // It may have ended by itself; the wait below says so.
                let _ = kill_process(pid, Signal::TERM);
            }
            (StopKind::Kill, _) => {
                let _ = child.start_kill();
            }
            (StopKind::Eof | StopKind::Term, _) => self.rpc.close().await,
        }
        let ended = tokio::time::timeout(STOP_MAX, child.wait()).await;
        self.rpc.close().await;
        match ended {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(error)) => Err(NoVerdict::CouldNotDecide(format!("wait failed: {error}"))),
            Err(_) => {
                let _ = child.kill().await;
                let limit = STOP_MAX.as_secs();
                Err(NoVerdict::CouldNotDecide(format!(
                    "codex did not end within {limit} s"
                )))
            }
        }
    }

    /// Whether the process is still there.
    pub(crate) async fn is_running(&self) -> bool {
        matches!(self.child.lock().await.try_wait(), Ok(None))
    }

    /// Whether the process is gone, or about to be: nobody reads or writes its pipes any more.
    pub(crate) async fn has_ended(&self) -> bool {
        self.rpc.has_ended() || !self.is_running().await
    }

    /// Its id.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid.map(Pid::as_raw_pid)
    }

    /// The end of standard error, for messages; empty if it said nothing.
    pub(crate) fn stderr_tail(&self) -> String {
        let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.is_empty() {
            String::new()
        } else {
            format!(
                "\nstandard error ends with:\n{}",
                String::from_utf8_lossy(&tail).trim_end()
            )
        }
    }
}

async fn keep_tail(mut pipe: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; STDERR_TAIL_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.drain(..surplus);
    }
}
