//! [`Granted`]: who was granted what, as PostgreSQL's `aclitem[]` writes it (section 5.8 of its manual, "Privileges").

use super::client::Client;
use super::relation::Relation;
use super::value::Value;
use std::collections::BTreeMap;
use tickstone_model::Rights;
use tickstone_query::Privilege;

/// The letters of rights, in PostgreSQL's order.
const LETTERS: [(char, Rights); 5] = [
    ('a', Rights::INSERT),
    ('r', Rights::SELECT),
    ('w', Rights::UPDATE),
    ('d', Rights::DELETE),
    ('D', Rights::ALTER),
];

/// The rights to tables and views that a client sees.
pub(super) struct Granted<'a> {
    client: &'a Client,
    /// By table.
    privileges: BTreeMap<String, Vec<Privilege>>,
}

impl<'a> Granted<'a> {
    pub(super) fn to(client: &'a Client) -> Self {
        let mut privileges = BTreeMap::<_, Vec<_>>::new();
        for privilege in client.privileges() {
            privileges.entry(privilege.table.clone()).or_default().push(privilege);
        }
        Self { client, privileges }
    }

    /// `relacl`: rights to all columns of a relation, those of its owner first; NULL where nobody was granted any, and the
    /// owner has all.
    pub(super) fn on(&self, relation: &Relation) -> Value {
        let all = self.of(relation);
        let whole = || all.iter().filter(|privilege| privilege.columns.is_none());
        if whole().all(|privilege| privilege.is_owner) {
            return Value::Null;
        }
        let (_, owner) = self.client.owner_of(&relation.name);
        let mut items = vec![item(&owner, Rights::ALL, &owner)];
        let others = whole().filter(|privilege| !privilege.is_owner);
        items.extend(others.map(|privilege| item(&privilege.grantee, privilege.rights, &owner)));
        items.into()
    }

    /// `attacl`: rights to this column and not to all.
    pub(super) fn on_column(&self, relation: &Relation, column: &str) -> Value {
        let (_, owner) = self.client.owner_of(&relation.name);
        let names = |privilege: &&Privilege| {
            privilege.columns.as_ref().is_some_and(|columns| columns.iter().any(|name| name == column))
        };
        let of_column = self.of(relation).iter().filter(names);
        let items: Vec<String> =
            of_column.map(|privilege| item(&privilege.grantee, privilege.rights, &owner)).collect();
        Some(items).filter(|items| !items.is_empty()).into()
    }

    fn of(&self, relation: &Relation) -> &[Privilege] {
        match relation.is_system() {
            true => &[],
            false => self.privileges.get(&relation.name).map_or(&[], Vec::as_slice),
        }
    }
}

/// Rights of a grantee as one `aclitem`.
fn item(grantee: &str, rights: Rights, grantor: &str) -> String {
    let letters: String =
        LETTERS.iter().filter(|(_, right)| rights.has(*right)).map(|(letter, _)| letter).collect();
    format!("{}={letters}/{}", name(grantee), name(grantor))
}

/// A name as an `aclitem` has it.
fn name(name: &str) -> String {
    match name.chars().all(|one| one.is_alphanumeric() || one == '_') && !name.is_empty() {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
