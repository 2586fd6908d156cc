//! The tables that say which tables, columns, keys and functions there are.
//!
//! DEDUP UPSERT KEYS are a primary key here: of rows that are equal in them there is one, the last, so they name a row
//! as tools need it to change it.

use super::client::Client;
use super::derived::Routine;
use super::granted::Granted;
use super::relation::{Key, NAMESPACES, OWNER, PG_CATALOG, Relation, Relations};
use super::routines;
use super::shape::table;
use super::types::{self, TYPES};
use super::value::Value;
use tickstone_query::Result;
use tickstone_query::arrow::array::RecordBatch;

/// The method by which tables are stored, and the one by which keys are found.
pub(super) const HEAP: i64 = 2;
pub(super) const BTREE: i64 = 403;

/// The size of a page, which tools multiply `relpages` by.
const PAGE_BYTES: u64 = 8192;

/// The collation of texts that have none of their own.
const DEFAULT_COLLATION: i64 = 100;

/// A row of `pg_class`.
enum Class<'a> {
    Relation(&'a Relation),
    Index(Key<'a>),
}

impl Class<'_> {
    fn relation(&self) -> &Relation {
        match self {
            Class::Relation(relation) => relation,
            Class::Index(key) => key.relation,
        }
    }

    fn is_index(&self) -> bool {
        matches!(self, Class::Index(_))
    }
}

pub(super) fn pg_class(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let classes: Vec<Class<'_>> =
        relations.all.iter().map(Class::Relation).chain(relations.keys().map(Class::Index)).collect();
    let granted = Granted::to(client);
    let pages = |class: &Class<'_>| class.relation().bytes.div_ceil(PAGE_BYTES);
    table(
        "pg_class",
        &classes,
        &[
            ("oid", &|class| match class {
                Class::Relation(relation) => relation.oid.into(),
                Class::Index(key) => key.index_oid.into(),
            }),
            ("relname", &|class| match class {
                Class::Relation(relation) => relation.name.as_str().into(),
                Class::Index(key) => key.name().into(),
            }),
            ("relnamespace", &|class| class.relation().namespace.into()),
            ("relowner", &|class| client.owner_of(&class.relation().name).0.into()),
            ("relam", &|class| match class {
                Class::Index(_) => BTREE.into(),
                Class::Relation(relation) => if relation.view.is_some() { 0 } else { HEAP }.into(),
            }),
            ("relpages", &|class| i64::try_from(pages(class)).unwrap_or(i64::MAX).into()),
            ("reltuples", &|class| (class.relation().rows as f64).into()),
            ("relhasindex", &|class| (!class.is_index() && !class.relation().key.is_empty()).into()),
            ("relpersistence", &|_| "p".into()),
            ("relkind", &|class| if class.is_index() { "i" } else { class.relation().kind() }.into()),
            ("relnatts", &|class| {
                let relation = class.relation();
                let count = if class.is_index() { relation.key.len() } else { relation.attributes.len() };
                i64::try_from(count).unwrap_or(i64::MAX).into()
            }),
            ("relhasrules", &|class| (!class.is_index() && class.relation().view.is_some()).into()),
            ("relispopulated", &|_| true.into()),
            ("relreplident", &|class| if class.is_index() { "n" } else { "d" }.into()),
            ("relacl", &|class| if class.is_index() { Value::Null } else { granted.on(class.relation()) }),
        ],
    )
}

pub(super) fn pg_attribute(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let granted = Granted::to(client);
    let of = |relation: &Relation| {
        let key = relation.primary_key();
        let own = relation.attributes.iter().map(|column| (relation.oid, column.number, column.clone()));
        let of_index = key.into_iter().flat_map(|key| {
            let columns = (1..).zip(&relation.key).filter_map(|(place, number)| {
                let column = relation.attributes.iter().find(|column| column.number == *number)?;
                Some((key.index_oid, place, column.clone()))
            });
            columns.collect::<Vec<_>>()
        });
        own.chain(of_index).collect::<Vec<_>>()
    };
    let attributes: Vec<_> = relations.all.iter().flat_map(of).collect();
    let known = |oid: u32, place: usize| types::get(oid).map_or("", |known| known.text(place));
    let number = |oid: u32, place: usize| types::get(oid).map_or(0, |known| known.number(place));
    table(
        "pg_attribute",
        &attributes,
        &[
            ("attrelid", &|(relation, ..)| (*relation).into()),
            ("attname", &|(_, _, column)| column.name.as_str().into()),
            ("atttypid", &|(_, _, column)| column.type_oid.into()),
            ("attstattarget", &|_| (-1_i64).into()),
            ("attlen", &|(_, _, column)| number(column.type_oid, types::LENGTH).into()),
            ("attnum", &|(_, place, _)| (*place).into()),
            ("attndims", &|(_, _, column)| i64::from(known(column.type_oid, types::CATEGORY) == "A").into()),
            ("attcacheoff", &|_| (-1_i64).into()),
            ("atttypmod", &|(_, _, column)| column.modifier.into()),
            ("attbyval", &|(_, _, column)| (known(column.type_oid, types::BY_VALUE) == "t").into()),
            ("attalign", &|(_, _, column)| known(column.type_oid, types::ALIGN).into()),
            ("attstorage", &|(_, _, column)| known(column.type_oid, types::STORAGE).into()),
            ("attcompression", &|_| "".into()),
            ("attnotnull", &|(_, _, column)| column.is_not_null.into()),
            ("attidentity", &|_| "".into()),
            ("attgenerated", &|_| "".into()),
            ("attislocal", &|_| true.into()),
            ("attacl", &|(oid, _, column)| {
                relations.get(*oid).map_or(Value::Null, |relation| granted.on_column(relation, &column.name))
            }),
            ("attcollation", &|(_, _, column)| number(column.type_oid, types::COLLATION).into()),
        ],
    )
}

pub(super) fn pg_type() -> Result<RecordBatch> {
    table(
        "pg_type",
        &TYPES,
        &[
            ("oid", &|of| of.oid.into()),
            ("typname", &|of| of.name.into()),
            ("typnamespace", &|_| PG_CATALOG.into()),
            ("typowner", &|_| OWNER.into()),
            ("typlen", &|of| of.number(types::LENGTH).into()),
            ("typbyval", &|of| (of.text(types::BY_VALUE) == "t").into()),
            ("typtype", &|of| of.text(types::KIND).into()),
            ("typcategory", &|of| of.text(types::CATEGORY).into()),
            ("typispreferred", &|of| (of.text(types::PREFERRED) == "t").into()),
            ("typisdefined", &|_| true.into()),
            ("typdelim", &|_| ",".into()),
            ("typsubscript", &|of| {
                let by_place = of.number(types::ELEMENT) != 0;
                let of_any_length = of.number(types::LENGTH) < 0;
                match (by_place, of_any_length) {
                    (true, true) => "array_subscript_handler",
                    (true, false) => "raw_array_subscript_handler",
                    (false, _) => "-",
                }
                .into()
            }),
            ("typelem", &|of| of.number(types::ELEMENT).into()),
            ("typarray", &|of| of.number(types::ARRAY).into()),
            ("typinput", &|of| of.text(types::INPUT).into()),
            ("typoutput", &|of| of.text(types::OUTPUT).into()),
            ("typreceive", &|of| of.text(types::RECEIVE).into()),
            ("typsend", &|of| of.text(types::SEND).into()),
            ("typmodin", &|_| "-".into()),
            ("typmodout", &|_| "-".into()),
            ("typanalyze", &|_| "-".into()),
            ("typalign", &|of| of.text(types::ALIGN).into()),
            ("typstorage", &|of| of.text(types::STORAGE).into()),
            ("typtypmod", &|_| (-1_i64).into()),
            ("typcollation", &|of| of.number(types::COLLATION).into()),
        ],
    )
}

pub(super) fn pg_index(relations: &Relations) -> Result<RecordBatch> {
    let keys: Vec<Key<'_>> = relations.keys().collect();
    let count = |key: &Key<'_>| i64::try_from(key.relation.key.len()).unwrap_or(i64::MAX);
    let each = |key: &Key<'_>, value: i64| vec![value; key.relation.key.len()];
    table(
        "pg_index",
        &keys,
        &[
            ("indexrelid", &|key| key.index_oid.into()),
            ("indrelid", &|key| key.relation.oid.into()),
            ("indnatts", &|key| count(key).into()),
            ("indnkeyatts", &|key| count(key).into()),
            ("indisunique", &|_| true.into()),
            ("indnullsnotdistinct", &|_| true.into()),
            ("indisprimary", &|_| true.into()),
            ("indimmediate", &|_| true.into()),
            ("indisvalid", &|_| true.into()),
            ("indisready", &|_| true.into()),
            ("indislive", &|_| true.into()),
            ("indkey", &|key| key.relation.key.clone().into()),
            ("indcollation", &|key| each(key, DEFAULT_COLLATION).into()),
            ("indclass", &|key| each(key, 0).into()),
            ("indoption", &|key| each(key, 0).into()),
        ],
    )
}

pub(super) fn pg_constraint(relations: &Relations) -> Result<RecordBatch> {
    let keys: Vec<Key<'_>> = relations.keys().collect();
    table(
        "pg_constraint",
        &keys,
        &[
            ("oid", &|key| key.oid.into()),
            ("conname", &|key| key.name().into()),
            ("connamespace", &|key| key.relation.namespace.into()),
            ("contype", &|_| "p".into()),
            ("convalidated", &|_| true.into()),
            ("conrelid", &|key| key.relation.oid.into()),
            ("conindid", &|key| key.index_oid.into()),
            ("confupdtype", &|_| " ".into()),
            ("confdeltype", &|_| " ".into()),
            ("confmatchtype", &|_| " ".into()),
            ("conislocal", &|_| true.into()),
            ("connoinherit", &|_| true.into()),
            ("conkey", &|key| key.relation.key.clone().into()),
        ],
    )
}

pub(super) fn pg_indexes(relations: &Relations) -> Result<RecordBatch> {
    let keys: Vec<Key<'_>> = relations.keys().collect();
    table(
        "pg_indexes",
        &keys,
        &[
            ("schemaname", &|key| key.relation.schema_name().into()),
            ("tablename", &|key| key.relation.name.as_str().into()),
            ("indexname", &|key| key.name().into()),
            ("indexdef", &|key| key.index_definition().into()),
        ],
    )
}

pub(super) fn pg_proc(all: &[Routine]) -> Result<RecordBatch> {
    let count = |of: &Routine| i64::try_from(routines::names(of).len()).unwrap_or(i64::MAX);
    let numbered: Vec<(u32, &Routine)> = routines::numbered(all).collect();
    table(
        "pg_proc",
        &numbered,
        &[
            ("oid", &|(oid, _)| (*oid).into()),
            ("proname", &|(_, of)| of.name.as_str().into()),
            ("pronamespace", &|(_, of)| routines::namespace(of).into()),
            ("proowner", &|_| OWNER.into()),
            ("prolang", &|_| 12_i64.into()),
            ("procost", &|_| 1_i64.into()),
            ("prosupport", &|_| "-".into()),
            ("prokind", &|(_, of)| of.kind.into()),
            ("proisstrict", &|_| false.into()),
            ("provolatile", &|_| "s".into()),
            ("proparallel", &|_| "s".into()),
            ("pronargs", &|(_, of)| count(of).into()),
            ("prorettype", &|_| routines::ANY.into()),
            ("proargtypes", &|(_, of)| {
                vec![routines::ANY.to_string(); routines::names(of).len()].join(" ").into()
            }),
            ("proargnames", &|(_, of)| routines::names(of).into()),
            ("prosrc", &|(_, of)| of.name.as_str().into()),
        ],
    )
}

pub(super) fn pg_description(all: &[Routine]) -> Result<RecordBatch> {
    let told: Vec<(u32, &str)> =
        routines::numbered(all).filter_map(|(oid, of)| Some((oid, of.about.as_deref()?))).collect();
    table(
        "pg_description",
        &told,
        &[
            ("objoid", &|(oid, _)| (*oid).into()),
            ("classoid", &|_| 1255_i64.into()),
            ("description", &|(_, about)| (*about).into()),
        ],
    )
}

pub(super) fn pg_namespace() -> Result<RecordBatch> {
    table(
        "pg_namespace",
        &NAMESPACES,
        &[
            ("oid", &|(oid, _)| (*oid).into()),
            ("nspname", &|(_, name)| (*name).into()),
            ("nspowner", &|_| OWNER.into()),
        ],
    )
}

pub(super) fn pg_tables(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let tables: Vec<&Relation> = relations.all.iter().filter(|relation| relation.view.is_none()).collect();
    table(
        "pg_tables",
        &tables,
        &[
            ("schemaname", &|of| of.schema_name().into()),
            ("tablename", &|of| of.name.as_str().into()),
            ("tableowner", &|of| client.owner_of(&of.name).1.into()),
            ("hasindexes", &|of| (!of.key.is_empty()).into()),
        ],
    )
}

pub(super) fn pg_views(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let views: Vec<&Relation> = relations.all.iter().filter(|relation| relation.view.is_some()).collect();
    table(
        "pg_views",
        &views,
        &[
            ("schemaname", &|of| of.schema_name().into()),
            ("viewname", &|of| of.name.as_str().into()),
            ("viewowner", &|of| client.owner_of(&of.name).1.into()),
            ("definition", &|of| of.view.clone().into()),
        ],
    )
}

pub(super) fn pg_stat_user_tables(relations: &Relations) -> Result<RecordBatch> {
    let tables: Vec<&Relation> = relations.users().filter(|relation| relation.view.is_none()).collect();
    table(
        "pg_stat_user_tables",
        &tables,
        &[
            ("relid", &|of| of.oid.into()),
            ("schemaname", &|of| of.schema_name().into()),
            ("relname", &|of| of.name.as_str().into()),
            ("n_live_tup", &|of| i64::try_from(of.rows).unwrap_or(i64::MAX).into()),
        ],
    )
}
