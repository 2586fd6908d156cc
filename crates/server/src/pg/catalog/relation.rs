//! Tables and views as PostgreSQL counts them: those of the database, and the catalog's own.
//!
//! Numbers (OIDs) stay with a thing as long as it is there: a table's is made of the engine's number for it, its key's and
//! that key's index of the same.

use super::derived::Derived;
use super::shape;
use super::types;
use std::collections::HashMap;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_query::arrow::datatypes::{DataType, Schema};
use tickstone_query::listed;

/// The schemas, and their numbers.
pub(super) const PG_CATALOG: u32 = 11;
pub(super) const PUBLIC: u32 = 2200;
pub(super) const INFORMATION_SCHEMA: u32 = 13_000;
pub(super) const NAMESPACES: [(u32, &str); 3] =
    [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")];

/// The role that owns what no user owns.
pub(super) const OWNER: u32 = 10;

/// The only database.
pub(super) const DATABASE_OID: u32 = 5;

/// What is added to the engine's number of a table: PostgreSQL's own things have smaller ones.
const FIRST_TABLE: u32 = 16_384;
const FIRST_INDEX: u32 = 1 << 30;
const FIRST_KEY: u32 = (1 << 30) + (1 << 29);
/// What the first of the catalog's tables without a number of its own gets.
const FIRST_SYSTEM: u32 = 13_100;

/// Tables of the catalog that others name by number.
const SYSTEM_OIDS: [(&str, u32); 16] = [
    ("pg_type", 1247),
    ("pg_attribute", 1249),
    ("pg_proc", 1255),
    ("pg_class", 1259),
    ("pg_authid", 1260),
    ("pg_database", 1262),
    ("pg_tablespace", 1213),
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_constraint", 2606),
    ("pg_description", 2609),
    ("pg_index", 2610),
    ("pg_language", 2612),
    ("pg_namespace", 2615),
    ("pg_extension", 3079),
    ("pg_collation", 3456),
];

/// Those of the catalog that are views there.
const SYSTEM_VIEWS: [&str; 24] = [
    "pg_available_extension_versions",
    "pg_available_extensions",
    "pg_cursors",
    "pg_get_keywords",
    "pg_group",
    "pg_indexes",
    "pg_locks",
    "pg_matviews",
    "pg_policies",
    "pg_prepared_statements",
    "pg_publication_tables",
    "pg_replication_slots",
    "pg_roles",
    "pg_rules",
    "pg_seclabels",
    "pg_sequences",
    "pg_settings",
    "pg_shadow",
    "pg_stats",
    "pg_tables",
    "pg_timezone_names",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
];

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    pub(super) name: String,
    /// Its place, from 1.
    pub(super) number: i64,
    pub(super) type_oid: u32,
    /// What is said beside the type: the digits of a DECIMAL; -1 for nothing.
    pub(super) modifier: i32,
    pub(super) is_not_null: bool,
}

/// A table or a view.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) oid: u32,
    pub(super) name: String,
    pub(super) namespace: u32,
    pub(super) attributes: Vec<Attribute>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// The columns of DEDUP UPSERT KEYS, by their places.
    pub(super) key: Vec<i64>,
    /// The query of a view; an empty one of the catalog's own.
    pub(super) view: Option<String>,
}

impl Relation {
    /// `r` or `v`.
    pub(super) fn kind(&self) -> &'static str {
        if self.view.is_some() { "v" } else { "r" }
    }

    pub(super) fn is_system(&self) -> bool {
        self.namespace != PUBLIC
    }

    pub(super) fn schema_name(&self) -> &'static str {
        namespace(self.namespace).unwrap_or_default()
    }

    /// Those columns of which a row is the only one.
    pub(super) fn primary_key(&self) -> Option<Key<'_>> {
        let id = self.oid.checked_sub(FIRST_TABLE)?;
        let is_there = !self.key.is_empty();
        is_there.then(|| Key { relation: self, oid: FIRST_KEY + id, index_oid: FIRST_INDEX + id })
    }

    /// The name of a column by its place.
    pub(super) fn column(&self, number: i64) -> Option<&str> {
        self.attributes.iter().find(|column| column.number == number).map(|column| column.name.as_str())
    }
}

/// The key of a table, its constraint and its index at once.
#[derive(Debug)]
pub(super) struct Key<'a> {
    pub(super) relation: &'a Relation,
    pub(super) oid: u32,
    pub(super) index_oid: u32,
}

impl Key<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}_pkey", self.relation.name)
    }

    pub(super) fn columns(&self) -> Vec<String> {
        self.relation.key.iter().filter_map(|number| self.relation.column(*number)).map(quoted).collect()
    }

    pub(super) fn definition(&self) -> String {
        format!("PRIMARY KEY ({})", self.columns().join(", "))
    }

    pub(super) fn index_definition(&self) -> String {
        let (name, table) = (quoted(&self.name()), quoted(&self.relation.name));
        format!("CREATE UNIQUE INDEX {name} ON public.{table} USING btree ({})", self.columns().join(", "))
    }
}

/// A name as SQL has to have it.
pub(super) fn quoted(name: &str) -> String {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let goes_on = characters.all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_');
    if begins && goes_on { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name of a schema.
pub(super) fn namespace(oid: u32) -> Option<&'static str> {
    NAMESPACES.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

/// All relations of a snapshot.
#[derive(Debug)]
pub(super) struct Relations {
    pub(super) all: Vec<Relation>,
    by_oid: HashMap<u32, usize>,
    by_name: HashMap<(u32, String), usize>,
}

impl Relations {
    pub(super) fn of(snapshot: &Snapshot, derived: &Derived) -> Self {
        let users = listed(snapshot).map(|table| of_table(table, snapshot, derived));
        let all: Vec<Relation> = users.chain(system()).collect();
        let places = || all.iter().enumerate();
        let by_oid = places().map(|(place, relation)| (relation.oid, place)).collect();
        let by_name =
            places().map(|(place, relation)| ((relation.namespace, relation.name.clone()), place)).collect();
        Self { all, by_oid, by_name }
    }

    /// Those of the database.
    pub(super) fn users(&self) -> impl Iterator<Item = &Relation> {
        self.all.iter().filter(|relation| !relation.is_system())
    }

    pub(super) fn get(&self, oid: u32) -> Option<&Relation> {
        self.all.get(*self.by_oid.get(&oid)?)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        self.users().filter_map(Relation::primary_key)
    }

    /// By its name as SQL has it: `t`, `public.t`, `"T"`. The database's own come first, as in queries.
    pub(super) fn named(&self, name: &str) -> Option<&Relation> {
        let parts = super::names::parts(name)?;
        let (schemas, name) = match parts.as_slice() {
            [name] => (vec![PUBLIC, PG_CATALOG], name),
            [schema, name] | [_, schema, name] => {
                (NAMESPACES.iter().filter(|(_, known)| known == schema).map(|(oid, _)| *oid).collect(), name)
            }
            _ => return None,
        };
        let exact = |schema: &u32| self.all.get(*self.by_name.get(&(*schema, name.clone()))?);
        let any_case = || self.users().find(|relation| relation.name.eq_ignore_ascii_case(name));
        let is_public = schemas.contains(&PUBLIC);
        schemas.iter().find_map(exact).or_else(|| if is_public { any_case() } else { None })
    }
}

fn of_table(table: &TableSnapshot, snapshot: &Snapshot, derived: &Derived) -> Relation {
    let schema = table.schema();
    let attributes = match schema.view() {
        Some(_) => derived.view(schema.name(), snapshot).as_deref().map_or_else(Vec::new, attributes),
        None => attributes(schema.edge()),
    };
    let is_not_null = |attribute: &Attribute| {
        schema.timestamp().is_some_and(|place| i64::try_from(place + 1) == Ok(attribute.number))
    };
    let attributes: Vec<Attribute> = attributes
        .into_iter()
        .map(|column| Attribute { is_not_null: is_not_null(&column), ..column })
        .collect();
    let number = |place: &usize| i64::try_from(place + 1).unwrap_or(i64::MAX);
    Relation {
        oid: FIRST_TABLE.saturating_add(table.id()),
        name: schema.name().to_string(),
        namespace: PUBLIC,
        attributes,
        rows: table.rows(),
        bytes: table.partitions().disk_bytes() + table.recent_bytes() as u64,
        key: schema.dedup().iter().map(number).collect(),
        view: schema.view().map(str::to_string),
    }
}

fn attributes(schema: &Schema) -> Vec<Attribute> {
    let attribute =
        |(number, field): (i64, &std::sync::Arc<tickstone_query::arrow::datatypes::Field>)| Attribute {
            name: field.name().clone(),
            number,
            type_oid: types::oid(field.data_type()),
            modifier: modifier(field.data_type()),
            is_not_null: false,
        };
    (1..).zip(schema.fields()).map(attribute).collect()
}

/// The digits of a DECIMAL, as PostgreSQL packs them.
fn modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            (i32::from(*precision) << 16 | i32::from(*scale & 0x7f)) + types::VARHDRSZ
        }
        DataType::List(element) => modifier(element.data_type()),
        _ => -1,
    }
}

/// The tables of the catalog itself.
fn system() -> impl Iterator<Item = Relation> {
    (FIRST_SYSTEM..).zip(shape::NAMES.iter()).filter_map(|(number, full_name)| {
        let (namespace, name) = match full_name.split_once('.') {
            Some((_, name)) => (INFORMATION_SCHEMA, name),
            None => (PG_CATALOG, *full_name),
        };
        let known = SYSTEM_OIDS.iter().find(|(known, _)| known == full_name);
        let is_view =
            namespace == INFORMATION_SCHEMA || SYSTEM_VIEWS.contains(&name) || name.starts_with("pg_stat");
        Some(Relation {
            oid: known.map_or(number, |(_, oid)| *oid),
            name: name.to_string(),
            namespace,
            attributes: attributes(shape::schema(full_name)?.as_ref()),
            rows: 0,
            bytes: 0,
            key: Vec::new(),
            view: is_view.then(String::new),
        })
    })
}
