//! What the commands print: a reader that left, or a full disk, ends the command and is no panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};

use super::EXIT_COULD_NOT_RUN;

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

/// Writes to standard output. Where that fails the verdict could not be told: exit 3, with a word on
/// standard error unless the reader just left.
pub(crate) fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            complain!("failed to write the output: {error}");
        }
        std::process::exit(i32::from(EXIT_COULD_NOT_RUN));
    }
}

/// Prints one line.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::cli::out::write(format_args!("{}\n", format_args!($($part)*)))
    };
}
pub(crate) use say;
