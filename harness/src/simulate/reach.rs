//! What a generator may draw: which groups of faults, and whether a real binary has to follow.

use std::fmt;
use std::str::FromStr;

use super::swarm::FaultKind;

/// Faults that are switched together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Inside a stream, or at its end.
    Stream,
    /// Instead of a stream.
    Transport,
    /// Of the rollout's storage, with kills.
    Storage,
    /// Hooks that stop, complain or speak.
    Hooks,
}

impl Group {
    /// Every group, as it is listed.
    pub const ALL: [Self; 4] = [Self::Stream, Self::Transport, Self::Storage, Self::Hooks];

    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Transport => "transport",
            Self::Storage => "storage",
            Self::Hooks => "hooks",
        }
    }
}

/// The groups of faults that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults([bool; Group::ALL.len()]);

impl Faults {
    /// All of them.
    pub const ALL: Self = Self([true; Group::ALL.len()]);
    /// None at all.
    pub const NONE: Self = Self([false; Group::ALL.len()]);

    /// The same without one group.
    #[must_use]
    pub const fn without(mut self, group: Group) -> Self {
        self.0[group as usize] = false;
        self
    }

    /// Whether a group may be drawn.
    pub const fn has(self, group: Group) -> bool {
        self.0[group as usize]
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = Group::ALL.into_iter().filter(|group| self.has(*group));
        let names: Vec<&str> = on.map(Group::name).collect();
        f.write_str(
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(",")
            }
            .as_str(),
        )
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        let mut faults = Self::NONE;
        for name in text.split(',') {
            let group = Group::ALL.into_iter().find(|group| group.name() == name);
            let Some(group) = group else {
                let known = Group::ALL.map(Group::name).join(", ");
                return Err(format!(
                    "there is no group of faults `{name}`: `all`, `none`, or some of {known} with \
                     commas between"
                ));
            };
            faults.0[group as usize] = true;
        }
        Ok(faults)
    }
}

/// What a generator may draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Groups of faults. Only our engine has a storage that fails when it is told to.
    pub faults: Faults,
    /// Only what a real binary does the same way each time.
    pub repeatable: bool,
}

impl Reach {
    /// All that our engine can be given.
    pub const ENGINE: Self = Self {
        faults: Faults::ALL,
        repeatable: false,
    };

    /// Whether a fault of an answer may be drawn.
    pub(super) fn allows(self, fault: FaultKind) -> bool {
        let (stream, transport) = (Group::Stream, Group::Transport);
        match fault {
            FaultKind::None => true,
            FaultKind::Http | FaultKind::Drop | FaultKind::RateLimit => self.faults.has(transport),
            // It comes as a status or in a stream.
            FaultKind::Window => self.faults.has(stream) && self.faults.has(transport),
            FaultKind::Cut
            | FaultKind::Failed
            | FaultKind::Incomplete
            | FaultKind::NoCompleted
            | FaultKind::Malformed
            | FaultKind::Duplicate => self.faults.has(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_they_are_printed_and_a_wrong_name_lists_them() {
        for text in [
            "none",
            "stream",
            "transport,hooks",
            "stream,transport,storage,hooks",
        ] {
            let faults: Faults = text.parse().expect("groups");
            assert_eq!(faults.to_string(), text);
        }
        assert_eq!("all".parse(), Ok(Faults::ALL));
        let without = Faults::ALL.without(Group::Storage);
        assert_eq!(without.to_string(), "stream,transport,hooks");
        for wrong in ["", "stream,", "disk", "none,stream"] {
            let why = wrong.parse::<Faults>().expect_err("no group");
            assert!(why.contains("stream, transport, storage, hooks"), "{why}");
        }
    }
}
