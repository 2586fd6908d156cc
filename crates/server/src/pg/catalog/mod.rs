//! `pg_catalog` and `information_schema`: what there is in the database, in PostgreSQL's words, for its tools.
//!
//! Tables are made when a statement names them, of the snapshot it runs on: their columns are those of PostgreSQL 15
//! ([`shape`]); who fills them says what is in a column by its name ([`described`], [`standard`], [`fixed`]), and those
//! of things that there are none of stay empty. Functions find the newest snapshot by the engine ([`functions`]).
//!
//! Never changes anything. Enter at [`PgCatalog`].

mod client;
mod derived;
mod described;
mod fixed;
mod functions;
mod granted;
mod names;
mod relation;
mod routines;
mod settings;
mod shape;
mod standard;
mod types;
mod value;

pub(crate) use client::Client;
use derived::Derived;
use relation::Relations;
use std::sync::Arc;
use std::time::SystemTime;
use tickstone_engine::{Engine, Snapshot};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::logical_expr::ScalarUDF;
use tickstone_query::{Database, Result, SystemCatalog};

/// The catalog of a database, as a client sees it.
#[derive(Debug)]
pub(crate) struct PgCatalog {
    known: Arc<Known>,
    client: Arc<Client>,
}

/// What tables and functions are made of.
#[derive(Debug)]
struct Known {
    engine: Engine,
    derived: Derived,
    started: SystemTime,
}

impl PgCatalog {
    pub(crate) fn new(database: &Database) -> Self {
        let engine = database.engine().clone();
        let derived = Derived::new(database);
        let known = Known { engine, derived, started: SystemTime::now() };
        Self { known: Arc::new(known), client: Arc::default() }
    }

    /// The same, as another client sees it.
    pub(crate) fn of_client(&self, client: &Arc<Client>) -> Self {
        Self { known: Arc::clone(&self.known), client: Arc::clone(client) }
    }
}

impl SystemCatalog for PgCatalog {
    fn tables(&self) -> &[&'static str] {
        &shape::NAMES
    }

    fn schema(&self, name: &str) -> Option<SchemaRef> {
        shape::schema(name)
    }

    fn table(&self, name: &str, snapshot: &Arc<Snapshot>) -> Result<RecordBatch> {
        let (derived, client) = (&self.known.derived, &*self.client);
        let relations = || Relations::of(snapshot, derived);
        match name {
            "pg_class" => described::pg_class(&relations(), client),
            "pg_attribute" => described::pg_attribute(&relations(), client),
            "pg_type" => described::pg_type(),
            "pg_index" => described::pg_index(&relations()),
            "pg_indexes" => described::pg_indexes(&relations()),
            "pg_constraint" => described::pg_constraint(&relations()),
            "pg_proc" => described::pg_proc(derived.routines()),
            "pg_description" => described::pg_description(derived.routines()),
            "pg_namespace" => described::pg_namespace(),
            "pg_tables" => described::pg_tables(&relations(), client),
            "pg_views" => described::pg_views(&relations(), client),
            "pg_stat_user_tables" => described::pg_stat_user_tables(&relations()),
            "pg_database" => fixed::pg_database(client),
            "pg_am" => fixed::pg_am(),
            "pg_collation" => fixed::pg_collation(),
            "pg_language" => fixed::pg_language(),
            "pg_tablespace" => fixed::pg_tablespace(),
            "pg_roles" | "pg_authid" => fixed::roles(name, client),
            "pg_auth_members" => fixed::members(client),
            "pg_user" | "pg_shadow" => fixed::users(name, client),
            "pg_settings" => fixed::pg_settings(client),
            "pg_timezone_names" => fixed::pg_timezone_names(),
            "pg_get_keywords" => fixed::pg_get_keywords(),
            "information_schema.columns" => standard::columns(&relations(), client),
            "information_schema.tables" => standard::tables(&relations(), client),
            "information_schema.views" => standard::views(&relations(), client),
            "information_schema.schemata" => standard::schemata(client),
            "information_schema.table_constraints" => standard::table_constraints(&relations(), client),
            "information_schema.key_column_usage" => {
                standard::key_columns("key_column_usage", &relations(), client)
            }
            "information_schema.constraint_column_usage" => {
                standard::key_columns("constraint_column_usage", &relations(), client)
            }
            "information_schema.table_privileges" | "information_schema.role_table_grants" => {
                standard::table_privileges(name, client)
            }
            "information_schema.column_privileges" => standard::column_privileges(&relations(), client),
            "information_schema.applicable_roles" => standard::applicable_roles(client),
            "information_schema.enabled_roles" => fixed::enabled_roles(client),
            other => shape::empty(other),
        }
    }

    fn functions(&self) -> Vec<Arc<ScalarUDF>> {
        functions::all(&self.known, &self.client)
    }
}
