//! What there is, in the words of Flight SQL: one catalog, one schema, tables and views, the keys of tables.
//!
//! The columns of each answer are those of Flight SQL's specification ("Arrow Flight SQL", FlightSql.proto).

use super::failure::{defect, not_supported, status};
use super::info::{sql_info, type_info};
use super::service::Inner;
use crate::statement::Conversation;
use arrow_flight::sql::metadata::{SqlInfoDataBuilder, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Command, CommandGetDbSchemas, CommandGetTables};
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_engine::TableSnapshot;
use tickstone_query::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use tickstone_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tickstone_query::designated::marked_schema;
use tickstone_query::{Access, QueryError, listed, type_name};
use tonic::Status;

/// The one catalog.
pub(super) const CATALOG: &str = "tickstone";
/// The one schema.
pub(super) const SCHEMA: &str = "public";

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// The columns of the rows that a command asks for.
///
/// # Errors
/// Where it asks for none that there are.
pub(super) fn schema(command: &Command) -> Result<SchemaRef, Status> {
    Ok(match command {
        Command::CommandGetCatalogs(command) => command.into_builder().schema(),
        Command::CommandGetDbSchemas(command) => command.clone().into_builder().schema(),
        Command::CommandGetTables(command) => command.clone().into_builder().schema(),
        Command::CommandGetTableTypes(command) => command.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => Arc::new(SqlInfoDataBuilder::schema().clone()),
        Command::CommandGetXdbcTypeInfo(_) => XdbcTypeInfoDataBuilder::new().schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(&[]).map(|batch| batch.schema())?,
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        other => return Err(unknown(other)),
    })
}

/// The rows that a command asks for.
///
/// # Errors
/// Where it asks for none that there are.
pub(super) async fn rows(inner: &Inner, access: &Access, command: Command) -> Result<RecordBatch, Status> {
    Ok(match command {
        Command::CommandGetCatalogs(command) => {
            let mut catalogs = command.into_builder();
            catalogs.append(CATALOG);
            catalogs.build().map_err(defect)?
        }
        Command::CommandGetDbSchemas(command) => schemas(command)?,
        Command::CommandGetTables(command) => tables(inner, access, command).await?,
        Command::CommandGetTableTypes(command) => {
            let mut types = command.into_builder();
            types.append(TABLE);
            types.append(VIEW);
            types.build().map_err(defect)?
        }
        Command::CommandGetSqlInfo(command) => {
            let info = sql_info(&inner.shared).build().map_err(defect)?;
            info.record_batch(command.info).map_err(defect)?
        }
        Command::CommandGetXdbcTypeInfo(command) => {
            type_info().build().and_then(|info| info.record_batch(command.data_type)).map_err(defect)?
        }
        Command::CommandGetPrimaryKeys(command) => {
            let ours = is(&command.catalog, CATALOG) && is(&command.db_schema, SCHEMA);
            let snapshot = access.snapshot().map_err(|error| status(&error))?;
            let table = snapshot.table(&command.table).filter(|_| ours);
            let schema = table.map(|table| Arc::clone(table.schema()));
            let keys = schema.iter().flat_map(|schema| {
                let name = |column: &usize| (schema.name(), schema.columns()[*column].name.as_str());
                schema.dedup().iter().map(name)
            });
            primary_keys(&keys.collect::<Vec<_>>())?
        }
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => RecordBatch::new_empty(foreign_keys()),
        other => return Err(unknown(&other)),
    })
}

fn unknown(command: &Command) -> Status {
    let name = command.type_url().rsplit('.').next().unwrap_or_default();
    not_supported(&format!("the command '{name}'"))
}

/// Whether a filter lets a name through: none does, and the empty one is for what has no name.
fn is(filter: &Option<String>, name: &str) -> bool {
    filter.as_deref().is_none_or(|filter| filter.eq_ignore_ascii_case(name))
}

fn schemas(command: CommandGetDbSchemas) -> Result<RecordBatch, Status> {
    let mut schemas = command.into_builder();
    schemas.append(CATALOG, SCHEMA);
    schemas.build().map_err(defect)
}

/// Tables and views; a view whose query fails is there without columns.
async fn tables(inner: &Inner, access: &Access, command: CommandGetTables) -> Result<RecordBatch, Status> {
    let with_columns = command.include_schema;
    let mut tables = command.into_builder();
    let snapshot = access.snapshot().map_err(|error| status(&error))?;
    for table in listed(&snapshot) {
        let schema = table.schema();
        let kind = if schema.view().is_some() { VIEW } else { TABLE };
        let columns = match (with_columns, schema.view()) {
            (false, _) => Schema::empty(),
            (true, None) => described(&marked_schema(schema)),
            (true, Some(_)) => {
                view_columns(inner, access, table).await.map_or_else(|_| Schema::empty(), |of| described(&of))
            }
        };
        tables.append(CATALOG, SCHEMA, schema.name(), kind, &columns).map_err(defect)?;
    }
    tables.build().map_err(defect)
}

async fn view_columns(inner: &Inner, access: &Access, view: &TableSnapshot) -> Result<SchemaRef, QueryError> {
    let sql = format!("SELECT * FROM \"{}\"", view.schema().name().replace('"', "\"\""));
    let (_, statement) = super::statements::parse(&inner.shared, &sql)?;
    let described =
        Conversation::new(&inner.shared, access).describe(&inner.shared, statement, Vec::new()).await?;
    Ok(described.rows.unwrap_or_else(|| Arc::new(Schema::empty())))
}

/// Columns with the names of their types in SQL.
fn described(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let mut metadata: HashMap<String, String> = field.metadata().clone();
        metadata.insert("ARROW:FLIGHT:SQL:TYPE_NAME".to_string(), type_name(field.data_type()));
        Field::clone(field).with_metadata(metadata)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// DEDUP UPSERT KEYS, of which each combination is there once.
fn primary_keys(keys: &[(&str, &str)]) -> Result<RecordBatch, Status> {
    let texts = |text: &dyn Fn(&(&str, &str)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(keys.iter().map(text)))
    };
    let places = i32::try_from(keys.len()).unwrap_or(i32::MAX);
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("catalog_name", texts(&|_| CATALOG.to_string()), true),
        ("db_schema_name", texts(&|_| SCHEMA.to_string()), true),
        ("table_name", texts(&|(table, _)| (*table).to_string()), false),
        ("column_name", texts(&|(_, column)| (*column).to_string()), false),
        ("key_sequence", Arc::new(Int32Array::from_iter_values(1..=places)), false),
        ("key_name", texts(&|_| "dedup".to_string()), true),
    ];
    let fields =
        columns.iter().map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(_, array, _)| Arc::clone(array)).collect();
    RecordBatch::try_new(schema, arrays).map_err(defect)
}

/// There are no foreign keys; these would be their columns.
fn foreign_keys() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
    let number = |name: &str, data_type: DataType| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        number("key_sequence", DataType::Int32),
        text("fk_key_name", true),
        text("pk_key_name", true),
        number("update_rule", DataType::UInt8),
        number("delete_rule", DataType::UInt8),
    ]))
}
