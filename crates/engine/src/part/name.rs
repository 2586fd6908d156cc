//! What the files of parts are called: `EPOCH-NUMBER-SECONDS[-dense].part`.
//!
//! Epoch and number (hexadecimal) make the name one that no other file of the table has or had, and put names in the
//! order in which they were given. The seconds (hexadecimal, since the Unix epoch, by the engine's clock) say when the part
//! was written, `dense` how: both are known from the manifest without opening a file. Names of earlier builds
//! end after the number.

use crate::part::Density;
use std::fmt::{self, Display};

const EXTENSION: &str = ".part";
const DENSE: &str = "dense";

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartName {
    /// Of the opening that wrote the part.
    pub(crate) epoch: u64,
    /// Among the parts of the epoch.
    pub(crate) number: u64,
    /// When it was written (s since the Unix epoch); `None` where the name does not say.
    pub(crate) written_s: Option<u64>,
    pub(crate) density: Density,
}

impl PartName {
    /// What a file name says, `None` where it is no part's.
    pub(crate) fn of(file: &str) -> Option<Self> {
        let mut words = file.strip_suffix(EXTENSION)?.split('-');
        let number = |word: &str| u64::from_str_radix(word, 16).ok();
        let (epoch, counted) = (number(words.next()?)?, number(words.next()?)?);
        let written_s = words.next().map(|word| number(word).ok_or(())).transpose().ok()?;
        let density = match words.next() {
            None => Density::Fast,
            Some(DENSE) => Density::Dense,
            Some(_) => return None,
        };
        words.next().is_none().then_some(Self { epoch, number: counted, written_s, density })
    }
}

#[cfg(test)]
impl PartName {
    /// The file name of a part of which no more is known.
    pub(crate) fn numbered(epoch: u64, number: u64) -> String {
        Self { epoch, number, written_s: None, density: Density::Fast }.to_string()
    }
}

impl Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}-{:08x}", self.epoch, self.number)?;
        if let Some(written_s) = self.written_s {
            write!(f, "-{written_s:08x}")?;
            if self.density == Density::Dense {
                write!(f, "-{DENSE}")?;
            }
        }
        f.write_str(EXTENSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let name = PartName { epoch: 3, number: 0x2a, written_s: Some(0x66b4_0000), density: Density::Dense };
        assert_eq!(name.to_string(), "000003-0000002a-66b40000-dense.part");
        assert_eq!(PartName::of("000003-0000002a-66b40000-dense.part"), Some(name));
        let fast = PartName { density: Density::Fast, ..name };
        assert_eq!(PartName::of(&fast.to_string()), Some(fast));
        let earlier = PartName { written_s: None, ..fast };
        assert_eq!(PartName::of("000003-0000002a.part"), Some(earlier));
        for other in ["", "x.part", "3.part", "3-4", "3-4-5-6.part", "3-4-zz.part", "3-4-5-dense-1.part"] {
            assert_eq!(PartName::of(other), None, "{other}");
        }
    }
}
