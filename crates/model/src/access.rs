//! Who may do what with a table: [`Rights`], and the [`TableAccess`] that stands in its schema.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Names of the rights, each at the place of its bit.
const NAMES: [&str; 9] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "CREATE", "SUBSCRIBE", "STREAM", "ADMIN"];

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Rights(u32);

impl Rights {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Reading rows; reading documents of a stream.
    pub const SELECT: Self = Self(1);
    /// Adding rows; appending documents to a stream.
    pub const INSERT: Self = Self(1 << 1);
    /// Changing rows.
    pub const UPDATE: Self = Self(1 << 2);
    /// Removing rows.
    pub const DELETE: Self = Self(1 << 3);
    /// Changing the shape of what there is, emptying it, dropping it.
    pub const ALTER: Self = Self(1 << 4);
    /// Making tables, views and streams.
    pub const CREATE: Self = Self(1 << 5);
    /// Hearing changes as they come; replaying them.
    pub const SUBSCRIBE: Self = Self(1 << 6);
    /// Reading documents of a stream, and appending some.
    pub const STREAM: Self = Self(1 << 7);
    /// Everything: users and grants, settings, statements of others, backups.
    pub const ADMIN: Self = Self(1 << 8);
    /// All of them.
    pub const ALL: Self = Self((1 << NAMES.len()) - 1);
    /// Those that a table, a view or a stream can be granted by itself.
    pub const OF_OBJECTS: Self = Self(Self::ALL.0 & !(Self::CREATE.0 | Self::ADMIN.0));

    /// The right of a name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let place = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Self(1 << place))
    }

    /// The set as a number, a bit for each right.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of such a number; `None` where a bit is that of no right.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// Whether all of these are among them.
    pub fn has(self, rights: Self) -> bool {
        self.0 & rights.0 == rights.0
    }

    /// Whether any of these is among them.
    pub fn has_any(self, rights: Self) -> bool {
        self.0 & rights.0 != 0
    }

    /// Those that are not among these.
    #[must_use]
    pub fn without(self, rights: Self) -> Self {
        Self(self.0 & !rights.0)
    }

    /// Those that both have.
    #[must_use]
    pub fn common(self, rights: Self) -> Self {
        Self(self.0 & rights.0)
    }

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Each of them alone.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..NAMES.len()).map(|place| Self(1 << place)).filter(move |one| self.has(*one))
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Rights {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl FromIterator<Rights> for Rights {
    fn from_iter<I: IntoIterator<Item = Rights>>(rights: I) -> Self {
        rights.into_iter().fold(Self::NONE, BitOr::bitor)
    }
}

/// The names of the rights, with `, ` between them.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.each().map(|one| NAMES[one.0.trailing_zeros() as usize]);
        for (place, name) in names.enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

/// What a user or a role may do with one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The number of the user or role.
    pub to: u32,
    /// What it may do.
    pub rights: Rights,
    /// The ids of the columns it is for ([`TableSchema::column_id`](crate::TableSchema::column_id)), ascending; all where
    /// it says none.
    pub columns: Option<Vec<u32>>,
    /// A condition in SQL of the rows it is for; all where there is none.
    pub filter: Option<String>,
}

impl Grant {
    /// Whether it is for all rows and columns.
    pub fn is_whole(&self) -> bool {
        self.columns.is_none() && self.filter.is_none()
    }
}

/// Who owns a table or a view, and who else may do what with it. It goes with the table: another name keeps it, and a
/// table that takes this one's place has it from then on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableAccess {
    /// The number of the user who made it; `None` where that was the database's own owner.
    pub owner: Option<u32>,
    /// What was granted.
    pub grants: Vec<Grant>,
}

impl TableAccess {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.owner.is_none() && self.grants.is_empty()
    }

    /// Adds a grant; what the same user has for the same columns and rows becomes one.
    pub fn grant(&mut self, grant: Grant) {
        let is_same = |other: &&mut Grant| {
            other.to == grant.to && other.columns == grant.columns && other.filter == grant.filter
        };
        match self.grants.iter_mut().find(is_same) {
            Some(there) => there.rights |= grant.rights,
            None => self.grants.push(grant),
        }
    }

    /// Takes rights away from a user or role, whatever columns and rows they were for; whether it had any.
    pub fn revoke(&mut self, from: u32, rights: Rights) -> bool {
        let before = self.grants.clone();
        for grant in self.grants.iter_mut().filter(|grant| grant.to == from) {
            grant.rights = grant.rights.without(rights);
        }
        self.grants.retain(|grant| !grant.rights.is_none());
        self.grants != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_have_names_and_numbers() {
        for right in Rights::ALL.each() {
            assert_eq!(Rights::named(&right.to_string().to_lowercase()), Some(right));
            assert_eq!(Rights::from_bits(right.bits()), Some(right));
        }
        assert_eq!(Rights::from_bits(1 << 30), None);
        assert_eq!((Rights::SELECT | Rights::ALTER).to_string(), "SELECT, ALTER");
        assert!(!Rights::OF_OBJECTS.has_any(Rights::CREATE | Rights::ADMIN));
    }

    #[test]
    fn grants_of_the_same_rows_are_one() {
        let of = |rights, filter: Option<&str>| Grant {
            to: 7,
            rights,
            columns: None,
            filter: filter.map(str::to_string),
        };
        let mut access = TableAccess::default();
        access.grant(of(Rights::SELECT, None));
        access.grant(of(Rights::INSERT, None));
        access.grant(of(Rights::SELECT, Some("px > 5")));
        assert_eq!(
            access.grants,
            [of(Rights::SELECT | Rights::INSERT, None), of(Rights::SELECT, Some("px > 5"))]
        );
        assert!(access.revoke(7, Rights::SELECT));
        assert!(!access.revoke(8, Rights::ALL));
        assert_eq!(access.grants, [of(Rights::INSERT, None)]);
    }
}
