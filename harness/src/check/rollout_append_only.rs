//! A rollout file only grows: what was written once stays as it is.

use crate::mask::Masked;
use crate::recording::Rewrite;

/// Reports every file that lost or changed a byte between two steps.
pub(super) fn check(masked: &Masked) -> Vec<String> {
    let say = |rewrite: &Rewrite| {
        let Rewrite { step, file, byte } = rewrite;
        format!("behind step {step} {file} is another file from byte {byte} on")
    };
    masked.rewrites.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_passes_and_a_rewrite_is_named() {
        assert_eq!(check(&Masked::default()), [""; 0]);
        let masked = Masked {
            rewrites: vec![Rewrite {
                step: 2,
                file: "rollout-x.jsonl".to_owned(),
                byte: 17,
            }],
            ..Masked::default()
        };
        assert_eq!(
            check(&masked),
            ["behind step 2 rollout-x.jsonl is another file from byte 17 on"]
        );
    }
}
