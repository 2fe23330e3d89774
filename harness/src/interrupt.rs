//! What ends a run that leaves traces: SIGINT, SIGTERM, SIGHUP, or an output that nobody takes. The
//! first one is noted, so that the run is dropped with its processes and its folders; a second signal
//! ends the command at once.
//!
//! Commands that start nothing never call [`watch`]: there the system ends them, as ever.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

/// The signals, with the names that people know.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];
/// How often a waiting run looks.
const POLL: Duration = Duration::from_millis(50);

/// What a shell adds to the number of the signal that ended a command.
const EXIT_BASE: i32 = 128;
/// Exit code where the output could not be written.
const EXIT_NO_OUTPUT: u8 = 3;

/// The number of what came; 0 for nothing.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
/// Something runs that is dropped when something comes.
static RUNS: AtomicBool = AtomicBool::new(false);

/// A number that no signal has.
const NO_OUTPUT: usize = 255;

/// Why nothing can be said any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The reader of the output has left.
    NoReader,
    /// The output cannot be written.
    NoOutput,
}

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupt {
    /// `SIGINT`, …
    pub name: &'static str,
    /// The exit code that tells it, as shells do: 128 and the number of the signal.
    pub exit_code: u8,
}

impl Interrupt {
    /// Nobody would read a word about it, or it was said already.
    pub fn is_mute(self) -> bool {
        [NO_READER, UNWRITTEN].contains(&self)
    }
}

const NO_READER: Interrupt = Interrupt {
    name: "SIGPIPE",
    exit_code: (EXIT_BASE + SIGPIPE).cast_unsigned() as u8,
};
const UNWRITTEN: Interrupt = Interrupt {
    name: "an output that cannot be written",
    exit_code: EXIT_NO_OUTPUT,
};

/// As long as it lives, what comes ends a run instead of the process.
#[derive(Debug)]
pub struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        RUNS.store(false, Ordering::Relaxed);
    }
}

/// Takes the signals over, and says that something runs.
pub fn watch() -> std::io::Result<Running> {
    if CAME.get().is_none() {
        let came = Arc::clone(CAME.get_or_init(Arc::default));
        let again = Arc::new(AtomicBool::new(false));
        for (signal, _) in SIGNALS {
            // In this order: the first signal finds the flag down and raises it.
            let code = EXIT_BASE + signal;
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&again))?;
            signal_hook::flag::register(signal, Arc::clone(&again))?;
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&came), number)?;
        }
    }
    RUNS.store(true, Ordering::Relaxed);
    Ok(Running(()))
}

/// Ends the run that is going on; false if there is none.
pub fn raise(cause: Cause) -> bool {
    let Some(came) = CAME.get().filter(|_| RUNS.load(Ordering::Relaxed)) else {
        return false;
    };
    let number = match cause {
        Cause::NoReader => usize::try_from(SIGPIPE).unwrap_or(NO_OUTPUT),
        Cause::NoOutput => NO_OUTPUT,
    };
    came.store(number, Ordering::Relaxed);
    true
}

/// Ends the process as the system ends one whose reader has left.
pub fn end_by_sigpipe() {
    // Rust ignores the signal from the start; this sets it back and raises it.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    std::process::exit(i32::from(NO_READER.exit_code));
}

/// What came, if something did.
pub fn came() -> Option<Interrupt> {
    let number = CAME.get()?.load(Ordering::Relaxed);
    if number == NO_OUTPUT {
        return Some(UNWRITTEN);
    }
    let is = |signal: i32| usize::try_from(signal).is_ok_and(|signal| signal == number);
    if is(SIGPIPE) {
        return Some(NO_READER);
    }
    let known = SIGNALS.iter().find(|(signal, _)| is(*signal));
    known.map(|(signal, name)| Interrupt {
        name,
        exit_code: u8::try_from(EXIT_BASE + signal).unwrap_or(u8::MAX),
    })
}

/// Waits for something to come.
pub async fn arrival() -> Interrupt {
    loop {
        if let Some(interrupt) = came() {
            return interrupt;
        }
        tokio::time::sleep(POLL).await;
    }
}
