//! What the commands print: a reader that left, or a full disk, ends the command and is no panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};

use super::EXIT_COULD_NOT_RUN;
use crate::interrupt::{self, Cause, Interrupt};

/// Writes to standard error. Where nobody listens, the exit code has to say it all.
pub(crate) fn write_error(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Prints one line on standard error.
macro_rules! complain {
    ($($part:tt)*) => {
        $crate::cli::out::write_error(format_args!("{}\n", format_args!($($part)*)))
    };
}
pub(crate) use complain;

/// Writes to standard output. Where the reader left (`| head -1`) the command ends as the system
/// ends others: by SIGPIPE and without a word. Where it fails otherwise the verdict could not be
/// told: exit 3, with a word on standard error. What runs is dropped first, with its folders.
pub(crate) fn write(text: Arguments<'_>) {
    if interrupt::came().is_some_and(Interrupt::is_mute) {
        return;
    }
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else {
        return;
    };
    let cause = if error.kind() == ErrorKind::BrokenPipe {
        Cause::NoReader
    } else {
        complain!("failed to write the output: {error}");
        Cause::NoOutput
    };
    if interrupt::raise(cause) {
        return;
    }
    match cause {
        Cause::NoReader => interrupt::end_by_sigpipe(),
        Cause::NoOutput => std::process::exit(i32::from(EXIT_COULD_NOT_RUN)),
    }
}

/// Prints one line.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::cli::out::write(format_args!("{}\n", format_args!($($part)*)))
    };
}
pub(crate) use say;
