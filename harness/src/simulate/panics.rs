//! A panic of an engine as a value: it is a finding like any other, and can be shrunk.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// A panic of this thread is caught, and nobody has to read of it.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// What the last one said, and where.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Runs something; what it said and where if it panicked.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if CATCHES.get() {
                SAID.replace(info.to_string().replace('\n', " "));
            } else {
                before(info);
            }
        }));
    });
    let outer = CATCHES.replace(true);
    // Whatever was half done is dropped with the session.
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHES.set(outer);
    result.map_err(|_| SAID.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        assert_eq!(caught(|| 7), Ok(7));
        let said = caught(|| panic!("no such item")).expect_err("it panicked");
        assert!(
            said.contains("no such item") && said.contains("panics.rs"),
            "{said}"
        );
    }
}
