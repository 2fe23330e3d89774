//! The table of version families, oldest first, and the subjects that belong to them.

use engine::planted::Planted;

/// One version family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Short name, used in file names and engine profiles.
    pub name: &'static str,
    /// The real version that blesses its goldens.
    pub real: &'static str,
    /// SHA-256 of the binaries that may bless: one a platform, here Linux on x86-64.
    pub binaries: &'static [&'static str],
}

impl Version {
    /// Whether a golden's header names a binary of this version that we know.
    pub fn knows(&self, sha256: &str) -> bool {
        self.binaries.contains(&sha256)
    }
}

/// All families, oldest first. When adding one: also a profile in the engine.
pub const VERSIONS: &[Version] = &[
    Version {
        name: "0.144",
        real: "0.144.6",
        binaries: &["a31ae9450a26216eb1e7c53102fd42123dd675974310b0e2ca3aa4cb622a2c15"],
    },
    Version {
        name: "0.164",
        real: "0.164.0",
        binaries: &["b93f6811d3f653f0fb83be4050d857fb9abbb111dfa2ce160563327daff7f306"],
    },
    Version {
        name: "0.171",
        real: "0.171.0",
        binaries: &["b76a027d6b210f9a8da7aaf321dd235c700f0ef7a794d4a5314b9af6c134f0f0"],
    },
];

/// What kind of thing is under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Our engine.
    Engine,
    /// A real binary.
    Codex,
}

/// A subject and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// As written, for instance `engine@0.171`.
    pub name: String,
    /// Engine or binary.
    pub arm: Arm,
    /// Index in [`VERSIONS`].
    pub version: usize,
}

impl Subject {
    /// Reads `engine@0.144[+fixed][+planted:NAME]`, `codex@0.144.6`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (arm, rest) = match text.split_once('@') {
            Some(("engine", rest)) => (Arm::Engine, rest),
            Some(("codex", rest)) => (Arm::Codex, rest),
            _ => {
                return Err(format!(
                    "unknown subject `{text}`: expected engine@V or codex@V"
                ));
            }
        };
        let mut wanted = rest;
        // No real binary has its faults mended, or one planted.
        if arm == Arm::Engine {
            if let Some((engine, name)) = rest.split_once(PLANTED) {
                planted(name).map_err(|why| format!("subject `{text}`: {why}"))?;
                wanted = engine;
            }
            wanted = wanted.strip_suffix("+fixed").unwrap_or(wanted);
        }
        let found = VERSIONS.iter().position(|v| match arm {
            Arm::Engine => v.name == wanted,
            Arm::Codex => v.real == wanted,
        });
        let known = || {
            let names = VERSIONS.iter().map(|v| match arm {
                Arm::Engine => format!("engine@{}", v.name),
                Arm::Codex => format!("codex@{}", v.real),
            });
            names.collect::<Vec<_>>().join(", ")
        };
        let version =
            found.ok_or_else(|| format!("unknown subject `{text}`: one of {}", known()))?;
        Ok(Self {
            name: text.to_owned(),
            arm,
            version,
        })
    }

    /// Expands `engine` to its profiles and `codex` to its versions.
    pub fn expand(text: &str) -> Result<Vec<Self>, String> {
        let names: Vec<String> = match text {
            "engine" => VERSIONS
                .iter()
                .map(|v| format!("engine@{}", v.name))
                .collect(),
            "codex" => VERSIONS
                .iter()
                .map(|v| format!("codex@{}", v.real))
                .collect(),
            one => vec![one.to_owned()],
        };
        names.iter().map(|name| Self::parse(name)).collect()
    }

    /// Its row in the table.
    pub fn family(&self) -> Version {
        VERSIONS[self.version]
    }
}

/// What stands before the name of a planted fault.
pub const PLANTED: &str = "+planted:";

/// The fault of a name, or which there are.
pub fn planted(name: &str) -> Result<Planted, String> {
    Planted::named(name).ok_or_else(|| {
        let known: Vec<&str> = Planted::ALL.iter().map(|fault| fault.name()).collect();
        format!(
            "there is no fault `{name}` to plant; one of {}",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_subjects() {
        assert_eq!(Subject::parse("engine@0.164+fixed").unwrap().version, 1);
        assert_eq!(Subject::parse("codex@0.171.0").unwrap().arm, Arm::Codex);
        assert_eq!(Subject::expand("engine").unwrap().len(), 3);
        assert!(Subject::parse("codex@0.171.0+fixed").is_err());
        let planted = Subject::parse("engine@0.171+planted:kept_reversed").unwrap();
        assert_eq!((planted.arm, planted.version), (Arm::Engine, 2));
        let both = Subject::parse("engine@0.144+fixed+planted:kept_reversed").unwrap();
        assert_eq!((both.arm, both.version), (Arm::Engine, 0));
        let wrong = Subject::parse("engine@0.171+planted:no_such").unwrap_err();
        assert!(wrong.contains("kept_reversed"), "{wrong}");
        assert!(Subject::parse("codex@0.171.0+planted:kept_reversed").is_err());
        let wrong = Subject::parse("codex@0.171").unwrap_err();
        assert!(wrong.contains("codex@0.171.0"), "{wrong}");
    }
}
