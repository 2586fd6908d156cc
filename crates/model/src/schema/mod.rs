//! What a table is: columns, designated timestamp, series key, partitions, sync policy.

mod alter;

pub use alter::AlterTable;

use crate::{
    Column, ColumnType, MaterializedView, ModelError, PartitionBy, Result, StreamSource, TableAccess, Ttl,
    is_same_name,
};
use arrow_schema::{Schema, SchemaRef};
use std::sync::Arc;

/// The most columns a table can have.
pub const MAX_COLUMNS: usize = 4_096;

/// The longest table or column name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Names a column is taken as the series key by, in this order, where a schema names none.
const SERIES_NAMES: [&str; 4] = ["symbol", "sym", "ticker", "instrument"];

/// When an acknowledged row is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum SyncPolicy {
    /// Whenever the operating system likes: a power cut may lose acknowledged rows, a killed process none.
    None,
    /// Within the configured interval: loss is bounded by it.
    Interval,
    /// Before it is acknowledged: the default.
    #[default]
    Always,
}

impl SyncPolicy {
    /// The word in `WITH (sync = '…')`.
    pub const fn name(self) -> &'static str {
        match self {
            SyncPolicy::Always => "always",
            SyncPolicy::Interval => "interval",
            SyncPolicy::None => "none",
        }
    }

    /// The policy a word names, in any case.
    ///
    /// # Errors
    /// [`ModelError::UnknownSyncPolicy`] for any other word.
    pub fn parse(name: &str) -> Result<Self> {
        [SyncPolicy::Always, SyncPolicy::Interval, SyncPolicy::None]
            .into_iter()
            .find(|policy| policy.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ModelError::UnknownSyncPolicy { name: name.to_string() })
    }
}

/// A table's shape. Made by [`TableSchema::builder`] or, from another, by [`TableSchema::altered`], which
/// check every rule; never changed after.
///
/// - the designated timestamp, where there is one, is a TIMESTAMP column and never NULL;
/// - series columns are SYMBOL columns, each named once;
/// - a table without a designated timestamp has one partition;
/// - indexed columns are in column order, each named once;
/// - a view has a query and nothing else: no column, no row;
/// - each column has an id that no other column of the table has or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// One a column.
    pub(crate) ids: Vec<u32>,
    /// Smallest id no column ever had.
    pub(crate) next_id: u32,
    pub(crate) version: u32,
    pub(crate) timestamp: Option<usize>,
    pub(crate) series: Vec<usize>,
    pub(crate) partition_by: PartitionBy,
    sync: SyncPolicy,
    pub(crate) ttl: Option<Ttl>,
    pub(crate) dedup: Vec<usize>,
    pub(crate) indexed: Vec<usize>,
    pub(crate) view: Option<String>,
    source: Option<StreamSource>,
    materialized: Option<MaterializedView>,
    aside: bool,
    internal: bool,
    pub(crate) access: TableAccess,
    stored: SchemaRef,
    edge: SchemaRef,
}

impl TableSchema {
    /// Starts the schema of a table of this name.
    pub fn builder(name: impl Into<String>) -> TableSchemaBuilder {
        TableSchemaBuilder { name: name.into(), ..TableSchemaBuilder::default() }
    }

    /// The schema of a view of this query.
    ///
    /// # Errors
    /// [`ModelError::Name`] where that is no name.
    pub fn of_view(name: impl Into<String>, query: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name("view", &name)?;
        let (stored, edge) = arrow_schemas(&[]);
        Ok(Self {
            name,
            columns: Vec::new(),
            ids: Vec::new(),
            next_id: 0,
            version: 0,
            timestamp: None,
            series: Vec::new(),
            partition_by: PartitionBy::None,
            sync: SyncPolicy::default(),
            ttl: None,
            dedup: Vec::new(),
            indexed: Vec::new(),
            view: Some(query.into()),
            source: None,
            materialized: None,
            aside: false,
            internal: false,
            access: TableAccess::default(),
            stored,
            edge,
        })
    }

    /// The schema of what the database keeps for itself: a text that stands in the catalog as a view does, and that no
    /// name leads to.
    ///
    /// # Errors
    /// [`ModelError::Name`] where that is no name.
    pub fn of_internal(name: impl Into<String>, text: impl Into<String>) -> Result<Self> {
        Ok(Self { internal: true, ..Self::of_view(name, text)? })
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Index of the designated timestamp column.
    pub fn timestamp(&self) -> Option<usize> {
        self.timestamp
    }

    /// Indices of the series key's columns, outermost first; empty where the table has none.
    pub fn series(&self) -> &[usize] {
        &self.series
    }

    /// The length of its partitions.
    pub fn partition_by(&self) -> PartitionBy {
        self.partition_by
    }

    /// When its rows are on stable storage, unless a request says otherwise.
    pub fn sync(&self) -> SyncPolicy {
        self.sync
    }

    /// Indices of the columns of which a later row with equal values replaces an earlier one, in column
    /// order; empty where none does. The designated timestamp and the series key are among them.
    pub fn dedup(&self) -> &[usize] {
        &self.dedup
    }

    /// Indices of the columns whose values are looked up one by one (`INDEX (id)`), in column order: parts keep
    /// filters for them.
    pub fn indexed(&self) -> &[usize] {
        &self.indexed
    }

    /// How long it keeps rows, `None` for always.
    pub fn ttl(&self) -> Option<Ttl> {
        self.ttl
    }

    /// The query of a view, as it was written; `None` for a table. A view stands in the catalog as a table does, so
    /// that names are unique among both and a view is as durable.
    pub fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// The stream that its rows are parsed from as they come, where there is one.
    pub fn source(&self) -> Option<&StreamSource> {
        self.source.as_ref()
    }

    /// What it stands for, where it is a materialized view: a table whose rows are those of a query.
    pub fn materialized(&self) -> Option<&MaterializedView> {
        self.materialized.as_ref()
    }

    /// Whether the table is not in its place yet: it is being filled, or belongs to one session. Such a table is dropped
    /// when its process has ended.
    pub fn is_aside(&self) -> bool {
        self.aside
    }

    /// Whether it is what the database keeps for itself: see [`Self::of_internal`].
    pub fn is_internal(&self) -> bool {
        self.internal
    }

    /// The same schema as that of a table aside, under the name that stands for it meanwhile.
    ///
    /// # Errors
    /// [`ModelError::Name`], [`ModelError::WrongKind`] for a view.
    pub fn put_aside(&self, name: &str) -> Result<Self> {
        if self.view.is_some() {
            return Err(self.wrong_kind());
        }
        check_name("table", name)?;
        Ok(Self { name: name.to_string(), aside: true, ..self.clone() })
    }

    /// The same schema as that of a table in its place, under its name; with the owner and the grants of the one that it
    /// replaces there.
    ///
    /// # Errors
    /// [`ModelError::Name`].
    pub fn put_in_place(&self, name: &str, replaced: Option<&TableSchema>) -> Result<Self> {
        check_name("table", name)?;
        let mut access = replaced.unwrap_or(self).access.clone();
        if let Some(replaced) = replaced {
            access.grants.retain_mut(|grant| {
                let Some(columns) = &mut grant.columns else { return true };
                // Those of the same names; another column may have the number.
                let name = |id: &u32| Some(&replaced.columns[replaced.column_of_id(*id)?].name);
                let id = |name: &String| Some(self.column_id(self.column_index(name)?));
                *columns = columns.iter().filter_map(name).filter_map(id).collect();
                columns.sort_unstable();
                !columns.is_empty()
            });
        }
        Ok(Self { name: name.to_string(), aside: false, access, ..self.clone() })
    }

    /// The same schema with some of its columns, by their places in ascending order; nothing that refers to others stays.
    #[must_use]
    pub fn only(&self, columns: &[usize]) -> Self {
        let place = |column: &usize| columns.iter().position(|kept| kept == column);
        let places = |of: &[usize]| of.iter().filter_map(place).collect();
        let all_there = self.dedup.iter().all(|column| columns.contains(column));
        let mut only = Self {
            columns: columns.iter().map(|column| self.columns[*column].clone()).collect(),
            ids: columns.iter().map(|column| self.ids[*column]).collect(),
            timestamp: self.timestamp.as_ref().and_then(place),
            series: places(&self.series),
            dedup: if all_there { places(&self.dedup) } else { Vec::new() },
            indexed: places(&self.indexed),
            access: TableAccess::default(),
            ..self.clone()
        };
        only.rebuild_arrow();
        only
    }

    /// The same schema as somebody sees it who may not know what it is made of: a view without its query.
    #[must_use]
    pub fn without_query(&self) -> Self {
        let view = self.view.as_ref().map(|_| String::new());
        let hide = |of: &MaterializedView| MaterializedView {
            query: String::new(),
            base: String::new(),
            ..of.clone()
        };
        Self { view, materialized: self.materialized.as_ref().map(hide), ..self.clone() }
    }

    /// Who owns it, and who else may do what with it.
    pub fn access(&self) -> &TableAccess {
        &self.access
    }

    /// The same schema with an owner.
    #[must_use]
    pub fn owned_by(&self, owner: Option<u32>) -> Self {
        let access = TableAccess { owner, ..self.access.clone() };
        Self { access, ..self.clone() }
    }

    /// Grows by one with every change of columns, from 0.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The id of a column: its own for the life of the table, whatever its name and place.
    ///
    /// # Panics
    /// Where the table has no column `index`.
    pub fn column_id(&self, index: usize) -> u32 {
        self.ids[index]
    }

    /// Index of the column of this id, `None` where it was dropped or is still to come.
    pub fn column_of_id(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }

    /// Smallest id that no column of the table has or had.
    pub fn next_column_id(&self) -> u32 {
        self.next_id
    }

    /// Arrow schema inside the engine (SYMBOL as `UInt32`).
    pub fn stored(&self) -> &SchemaRef {
        &self.stored
    }

    /// Arrow schema at the edge (SYMBOL as `Dictionary(UInt32, Utf8)`).
    pub fn edge(&self) -> &SchemaRef {
        &self.edge
    }

    /// Index of the column of this name (exact case first, then any case).
    pub fn column_index(&self, name: &str) -> Option<usize> {
        find_column(&self.columns, name)
    }

    /// A column whose name differs from that of one before it by the case of letters that are not ASCII; tables that
    /// were made with such columns keep them.
    pub fn clashing_column(&self) -> Option<&Column> {
        let before =
            |index: usize, name: &str| self.columns[..index].iter().any(|c| is_same_name(&c.name, name));
        let mut columns = self.columns.iter().enumerate();
        columns.find(|(index, c)| !c.name.is_ascii() && before(*index, &c.name)).map(|(_, column)| column)
    }

    /// Indices of the SYMBOL columns, in column order.
    pub fn symbol_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().enumerate().filter(|(_, c)| c.column_type == ColumnType::Symbol).map(|(i, _)| i)
    }
}

fn find_column(columns: &[Column], name: &str) -> Option<usize> {
    columns
        .iter()
        .position(|c| c.name == name)
        .or_else(|| columns.iter().position(|c| is_same_name(&c.name, name)))
}

/// Collects the clauses of CREATE TABLE; [`Self::build`] checks them.
#[derive(Debug, Clone, Default)]
pub struct TableSchemaBuilder {
    name: String,
    columns: Vec<Column>,
    timestamp: Option<String>,
    series: Option<Vec<String>>,
    partition_by: Option<PartitionBy>,
    sync: SyncPolicy,
    ttl: Option<Ttl>,
    dedup: Option<Vec<String>>,
    indexed: Vec<String>,
    view: Option<String>,
    source: Option<StreamSource>,
    materialized: Option<MaterializedView>,
    aside: bool,
    internal: bool,
    access: TableAccess,
    identity: Option<Identity>,
}

/// What tells a schema that was altered from a new one of the same columns.
#[derive(Debug, Clone)]
struct Identity {
    ids: Vec<u32>,
    next_id: u32,
    version: u32,
}

impl TableSchemaBuilder {
    /// Adds a column.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, column_type: ColumnType) -> Self {
        self.columns.push(Column::new(name, column_type));
        self
    }

    /// Names the designated timestamp column.
    #[must_use]
    pub fn timestamp(mut self, name: impl Into<String>) -> Self {
        self.timestamp = Some(name.into());
        self
    }

    /// Names the series key's columns, outermost first; an empty list means none at all.
    #[must_use]
    pub fn series<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.series = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the partition length.
    #[must_use]
    pub fn partition_by(mut self, unit: PartitionBy) -> Self {
        self.partition_by = Some(unit);
        self
    }

    /// Sets the sync policy.
    #[must_use]
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.sync = policy;
        self
    }

    /// Sets how long rows are kept.
    #[must_use]
    pub fn ttl(mut self, ttl: Option<Ttl>) -> Self {
        self.ttl = ttl;
        self
    }

    /// Names the columns of which a later row with equal values replaces an earlier one; an empty list means
    /// that rows never replace each other.
    #[must_use]
    pub fn dedup<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.dedup = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Names the columns whose values are looked up one by one; without, none is. The designated timestamp and the
    /// series key need no index: parts are in their order.
    #[must_use]
    pub fn indexed<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.indexed = names.into_iter().map(Into::into).collect();
        self
    }

    /// Makes it the schema of a view of this query: one without columns.
    #[must_use]
    pub fn view(mut self, query: impl Into<String>) -> Self {
        self.view = Some(query.into());
        self
    }

    /// Has its rows parsed from a stream.
    #[must_use]
    pub fn source(mut self, source: Option<StreamSource>) -> Self {
        self.source = source;
        self
    }

    /// Makes it the schema of a materialized view, whose rows are those of a query.
    #[must_use]
    pub fn materialized(mut self, view: Option<MaterializedView>) -> Self {
        self.materialized = view;
        self
    }

    /// Makes it the schema of a table aside: see [`TableSchema::is_aside`].
    #[must_use]
    pub fn aside(mut self) -> Self {
        self.aside = true;
        self
    }

    /// Makes it the schema of what the database keeps for itself, where it is that of a view: see
    /// [`TableSchema::of_internal`].
    #[must_use]
    pub fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Says who owns it, and who else may do what with it.
    #[must_use]
    pub fn access(mut self, access: TableAccess) -> Self {
        self.access = access;
        self
    }

    /// Sets the ids of the columns, the smallest id never used and the version: those of a schema that was
    /// written down. Without, ids are the columns' places.
    #[must_use]
    pub fn identity(mut self, ids: Vec<u32>, next_id: u32, version: u32) -> Self {
        self.identity = Some(Identity { ids, next_id, version });
        self
    }

    /// Checks every rule and makes the schema.
    ///
    /// Without a named series key it is the SYMBOL column named symbol, sym, ticker or instrument,
    /// else the first SYMBOL column, else none. Without a partition length it is a day, or one
    /// partition where there is no designated timestamp.
    ///
    /// # Errors
    /// A [`ModelError`] that names the rule broken.
    pub fn build(self) -> Result<TableSchema> {
        check_name("table", &self.name)?;
        if let (Some(query), true) = (&self.view, self.columns.is_empty()) {
            let schema = TableSchema::of_view(self.name, query.as_str())?;
            return Ok(TableSchema { internal: self.internal, access: self.access, ..schema });
        }
        if self.columns.is_empty() || self.columns.len() > MAX_COLUMNS {
            return Err(ModelError::ColumnCount { count: self.columns.len(), most: MAX_COLUMNS });
        }
        for (index, column) in self.columns.iter().enumerate() {
            check_name("column", &column.name)?;
            if self.columns[..index].iter().any(|c| c.name.eq_ignore_ascii_case(&column.name)) {
                return Err(ModelError::DuplicateColumn { name: column.name.clone() });
            }
        }
        let columns = &self.columns;
        let timestamp = match &self.timestamp {
            Some(name) => Some(typed_column(columns, "TIMESTAMP", name, ColumnType::Timestamp, "TIMESTAMP")?),
            None => None,
        };
        let series = match &self.series {
            Some(names) => named_series(columns, names)?,
            None => default_series(columns),
        };
        let partition_by = match (timestamp, self.partition_by) {
            (Some(_), unit) => unit.unwrap_or_default(),
            (None, None | Some(PartitionBy::None)) => PartitionBy::None,
            (None, Some(unit)) => return Err(ModelError::PartitionWithoutTimestamp { unit: unit.name() }),
        };
        let dedup = dedup_columns(columns, self.dedup.as_deref().unwrap_or_default(), timestamp, &series)?;
        let indexed = indexed_columns(columns, &self.indexed)?;
        let identity = checked_identity(self.identity, columns.len())?;
        let (stored, edge) = arrow_schemas(columns);
        let TableSchemaBuilder {
            name,
            columns,
            sync,
            ttl,
            source,
            materialized,
            aside,
            internal,
            access,
            ..
        } = self;
        let Identity { ids, next_id, version } = identity;
        let schema = TableSchema {
            name,
            columns,
            ids,
            next_id,
            version,
            timestamp,
            series,
            partition_by,
            sync,
            ttl,
            dedup,
            indexed,
            view: None,
            source,
            materialized,
            aside,
            internal,
            access,
            stored,
            edge,
        };
        schema.checked_ttl()
    }
}

impl TableSchema {
    /// Makes the Arrow schemas anew from the columns.
    pub(crate) fn rebuild_arrow(&mut self) {
        (self.stored, self.edge) = arrow_schemas(&self.columns);
    }
}

/// The Arrow schemas inside the engine and at the edge.
fn arrow_schemas(columns: &[Column]) -> (SchemaRef, SchemaRef) {
    let of = |field: fn(&Column) -> arrow_schema::Field| {
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    };
    (of(Column::stored_field), of(Column::edge_field))
}

/// One id a column, each its own and below the next one to be given.
fn checked_identity(identity: Option<Identity>, columns: usize) -> Result<Identity> {
    let Some(identity) = identity else {
        let next_id = u32::try_from(columns).expect("a table has at most 4,096 columns");
        return Ok(Identity { ids: (0..next_id).collect(), next_id, version: 0 });
    };
    let mut sorted = identity.ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let sound = sorted.len() == columns
        && identity.ids.len() == columns
        && sorted.last().is_none_or(|last| *last < identity.next_id);
    if sound { Ok(identity) } else { Err(ModelError::ColumnIds { columns }) }
}

/// Why no table, column or view can have this name; `None` where one can.
pub fn fault_of_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Some("it is longer than 255 bytes")
    } else if name.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if name.trim() != name {
        Some("it begins or ends with a space")
    } else {
        None
    }
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    let fault = fault_of_name(name);
    fault.map_or(Ok(()), |reason| Err(ModelError::Name { what, name: name.to_string(), reason }))
}

fn typed_column(
    columns: &[Column],
    clause: &'static str,
    name: &str,
    wanted: ColumnType,
    wanted_name: &'static str,
) -> Result<usize> {
    let index = find_column(columns, name)
        .ok_or_else(|| ModelError::NoSuchColumn { clause, name: name.to_string() })?;
    let found = columns[index].column_type;
    if found != wanted {
        let name = columns[index].name.clone();
        return Err(ModelError::WrongColumnType { clause, name, wanted: wanted_name, found });
    }
    Ok(index)
}

fn named_series(columns: &[Column], names: &[String]) -> Result<Vec<usize>> {
    let mut series = Vec::with_capacity(names.len());
    for name in names {
        let index = typed_column(columns, "SERIES BY", name, ColumnType::Symbol, "SYMBOL")?;
        if series.contains(&index) {
            return Err(ModelError::DuplicateColumn { name: columns[index].name.clone() });
        }
        series.push(index);
    }
    Ok(series)
}

fn dedup_columns(
    columns: &[Column],
    names: &[String],
    timestamp: Option<usize>,
    series: &[usize],
) -> Result<Vec<usize>> {
    const CLAUSE: &str = "DEDUP UPSERT KEYS";
    let mut keys = Vec::with_capacity(names.len());
    for name in names {
        let index = find_column(columns, name)
            .ok_or_else(|| ModelError::NoSuchColumn { clause: CLAUSE, name: name.clone() })?;
        let found = columns[index].column_type;
        columns[index].check_scalar(CLAUSE)?;
        if matches!(found, ColumnType::Float32 | ColumnType::Float64) {
            let (name, wanted) = (columns[index].name.clone(), "non-floating");
            return Err(ModelError::WrongColumnType { clause: CLAUSE, name, wanted, found });
        }
        if keys.contains(&index) {
            return Err(ModelError::DuplicateColumn { name: columns[index].name.clone() });
        }
        keys.push(index);
    }
    keys.sort_unstable();
    let missing = timestamp.iter().chain(series).find(|column| !keys.contains(column));
    match (keys.is_empty(), timestamp, missing) {
        (true, _, _) => Ok(keys),
        (false, None, _) => Err(ModelError::DedupWithoutTimestamp),
        (false, _, Some(column)) => Err(ModelError::DedupKey { name: columns[*column].name.clone() }),
        (false, Some(_), None) => Ok(keys),
    }
}

fn indexed_columns(columns: &[Column], names: &[String]) -> Result<Vec<usize>> {
    let mut indexed = Vec::with_capacity(names.len());
    for name in names {
        let index = find_column(columns, name)
            .ok_or_else(|| ModelError::NoSuchColumn { clause: "INDEX", name: name.clone() })?;
        columns[index].check_scalar("INDEX")?;
        if indexed.contains(&index) {
            return Err(ModelError::DuplicateColumn { name: columns[index].name.clone() });
        }
        indexed.push(index);
    }
    indexed.sort_unstable();
    Ok(indexed)
}

fn default_series(columns: &[Column]) -> Vec<usize> {
    let is_symbol = |c: &&Column| c.column_type == ColumnType::Symbol;
    let by_name = SERIES_NAMES
        .iter()
        .find_map(|name| columns.iter().filter(is_symbol).find(|c| c.name.eq_ignore_ascii_case(name)));
    let chosen = by_name.or_else(|| columns.iter().find(is_symbol));
    columns.iter().position(|c| chosen.is_some_and(|chosen| chosen.name == c.name)).into_iter().collect()
}

#[cfg(test)]
mod tests;
