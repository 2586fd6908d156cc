//! The tables of the snapshot a statement runs on, as DataFusion looks them up.
//!
//! Invariant: all tables of a statement come from one snapshot, pinned when it begins.

use crate::access::Who;
use crate::access::standing::{AUDIT, Standing};
use crate::aside::listed;
use crate::database::Database;
use crate::dialect::own_of_rightful;
use crate::error::QueryError;
use crate::frame::{Frame, FrameTable};
use crate::in_place::{FileProvider, FileTable};
use crate::provider::SnapshotTable;
use crate::state::{CATALOG, SCHEMA};
use crate::system::SystemCatalog;
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::is_same_name;

/// Most files, or patterns of them, that a session knows at once; more than a statement names.
const FILES_KNOWN_MAX: usize = 1_000;

/// The snapshot of the statement under way.
#[derive(Debug)]
pub(crate) struct PinnedSnapshot {
    database: Database,
    pinned: RwLock<Pinned>,
    /// Whose session it is; everybody's who may do everything where nobody said who they are.
    who: Option<Who>,
    /// Tables in memory beside those of the snapshot, which come first where names are the same.
    frames: RwLock<Vec<Arc<Frame>>>,
    /// Files that statements read, by the names that stand for them there.
    files: RwLock<Vec<(String, Arc<FileTable>)>>,
    /// The table whose rows change by the statement, as they are while no one else may change them.
    changing: RwLock<Option<Arc<TableSnapshot>>>,
    /// Whether a plan to be kept is made.
    templates: AtomicBool,
    /// The tables and functions of another system, as whoever has the session sees them.
    system: RwLock<Option<Arc<dyn SystemCatalog>>>,
}

/// A snapshot, and what the session's user sees of it.
#[derive(Debug, Clone, Default)]
struct Pinned {
    full: Arc<Snapshot>,
    /// The same where the user may do everything.
    seen: Arc<Snapshot>,
    /// What the user may do, where that is not everything.
    standing: Option<Arc<Standing>>,
}

impl Pinned {
    /// Where the audit log is kept no table has its name; only those who may do everything read it.
    fn is_audit_log(&self, name: &str) -> bool {
        self.standing.is_none() && is_same_name(name, AUDIT) && self.full.audit().is_some()
    }
}

impl PinnedSnapshot {
    pub(crate) fn new(database: &Database, who: Option<Who>) -> Self {
        let templates = AtomicBool::new(false);
        // One of a user's begins with nothing, until their rights are known.
        let full = if who.as_ref().is_none_or(Who::is_nobody) {
            database.engine().snapshot()
        } else {
            Arc::default()
        };
        let pinned = Pinned { seen: Arc::clone(&full), full, standing: None };
        Self {
            database: database.clone(),
            pinned: RwLock::new(pinned),
            who,
            frames: RwLock::default(),
            files: RwLock::default(),
            changing: RwLock::default(),
            templates,
            system: RwLock::new(database.system().map(Arc::clone)),
        }
    }

    pub(crate) fn system(&self) -> Option<Arc<dyn SystemCatalog>> {
        self.system.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Arc::clone)
    }

    pub(crate) fn set_system(&self, system: Arc<dyn SystemCatalog>) {
        *self.system.write().unwrap_or_else(PoisonError::into_inner) = Some(system);
    }

    /// Pins the newest snapshot, as its user sees it; `own` are the names of tables that the session alone has.
    ///
    /// # Errors
    /// Where the user may not do anything any longer: nothing is pinned then.
    pub(crate) fn renew(&self, own: &[String]) -> Result<(), QueryError> {
        let full = self.database.engine().snapshot();
        let standing = match &self.who {
            None => Ok(None),
            Some(who) => self.database.standing(&full, who),
        };
        let pinned = match standing.as_ref().map(Option::as_ref) {
            Ok(None) => Pinned { seen: Arc::clone(&full), full, standing: None },
            Ok(Some(standing)) => {
                Pinned { seen: standing.seen(&full, own), full, standing: Some(Arc::clone(standing)) }
            }
            Err(_) => Pinned::default(),
        };
        *self.pinned.write().unwrap_or_else(PoisonError::into_inner) = pinned;
        standing.map(|_| ())
    }

    /// Lets go of it.
    pub(crate) fn let_go(&self) {
        *self.pinned.write().unwrap_or_else(PoisonError::into_inner) = Pinned::default();
    }

    fn pinned(&self) -> Pinned {
        self.pinned.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The snapshot pinned, as the session's user sees it.
    pub(crate) fn get(&self) -> Arc<Snapshot> {
        self.pinned().seen
    }

    /// The snapshot pinned, whole: for names and tables whose reading was checked.
    pub(crate) fn full(&self) -> Arc<Snapshot> {
        self.pinned().full
    }

    /// What the session's user may do; `None` where that is everything.
    pub(crate) fn standing(&self) -> Option<Arc<Standing>> {
        self.pinned().standing
    }

    /// Whose session it is.
    pub(crate) fn who(&self) -> Option<&Who> {
        self.who.as_ref()
    }

    /// What the owner of a view may do; `None` where there is no such user.
    pub(crate) fn standing_of_owner(&self, owner: u32) -> Option<Arc<Standing>> {
        self.database.accounts(&self.full()).ok()??.standing_of_owner(owner)
    }

    /// A table of a name, also one that is read by another's rights.
    fn table(&self, name: &str) -> Option<Arc<TableSnapshot>> {
        let pinned = self.pinned();
        let (name, snapshot, is_by_right) = match own_of_rightful(name) {
            Some(own) => (own, &pinned.full, true),
            None => (name, &pinned.seen, false),
        };
        let may = is_by_right && is_same_name(name, AUDIT) || pinned.is_audit_log(name);
        let audit = || snapshot.audit().filter(|_| may);
        snapshot.table(name).or_else(|| super::views::stored(snapshot, name)).or_else(audit).map(Arc::clone)
    }

    /// Whether a name is that of the audit log, which no list shows.
    pub(crate) fn is_audit_log(&self, name: &str) -> bool {
        self.pinned().is_audit_log(name)
    }

    /// What it is a snapshot of.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Replaces the frames.
    pub(crate) fn set_frames(&self, frames: Vec<Arc<Frame>>) {
        *self.frames.write().unwrap_or_else(PoisonError::into_inner) = frames;
    }

    /// Adds a frame; those that were there.
    pub(crate) fn add_frame(&self, frame: Arc<Frame>) -> Vec<Arc<Frame>> {
        let mut frames = self.frames.write().unwrap_or_else(PoisonError::into_inner);
        let before = frames.clone();
        frames.push(frame);
        before
    }

    pub(crate) fn frame_names(&self) -> Vec<String> {
        let frames = self.frames.read().unwrap_or_else(PoisonError::into_inner);
        frames.iter().map(|frame| frame.name().to_string()).collect()
    }

    /// The frame of this name (exact case first, then any case).
    pub(crate) fn frame(&self, name: &str) -> Option<Arc<Frame>> {
        let frames = self.frames.read().unwrap_or_else(PoisonError::into_inner);
        let exact = frames.iter().find(|frame| frame.name() == name);
        exact.or_else(|| frames.iter().find(|frame| frame.name().eq_ignore_ascii_case(name))).map(Arc::clone)
    }

    /// The files that a name stands for in statements.
    pub(crate) fn files(&self, name: &str) -> Option<Arc<FileTable>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.iter().find(|(of, _)| of == name).map(|(_, files)| Arc::clone(files))
    }

    /// Has a name stand for files; those that were named longest ago are forgotten.
    pub(crate) fn set_files(&self, name: String, of: Arc<FileTable>) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(known, _)| *known != name);
        if files.len() >= FILES_KNOWN_MAX {
            files.remove(0);
        }
        files.push((name, of));
    }

    /// Hands tables out for a plan that is kept until the guard goes, also where planning is broken off.
    pub(crate) fn templates(self: &Arc<Self>) -> TemplatesGuard {
        self.templates.store(true, Ordering::Relaxed);
        TemplatesGuard(Arc::clone(self))
    }

    /// Has the table of this name stand for what a statement changes, with the numbers of its rows, until the
    /// guard goes.
    pub(crate) fn changing(self: &Arc<Self>, table: Arc<TableSnapshot>) -> ChangingGuard {
        *self.changing.write().unwrap_or_else(PoisonError::into_inner) = Some(table);
        ChangingGuard(Arc::clone(self))
    }

    fn provider(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let changing = self.changing.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = changing.as_ref().filter(|table| table.schema().name() == name) {
            let schema = self.database.marked_schema(table);
            return Some(Arc::new(SnapshotTable::new(Arc::clone(table), schema).with_numbers()));
        }
        if let Some(system) = self.system_table(name) {
            return Some(system);
        }
        let Some(table) = self.table(name).filter(|table| table.schema().view().is_none()) else {
            return match (self.frame(name), self.files(name)) {
                (Some(frame), _) => Some(Arc::new(FrameTable::new(&frame)) as _),
                (None, Some(files)) => Some(Arc::new(FileProvider(files)) as _),
                (None, None) => None,
            };
        };
        let schema = self.database.marked_schema(&table);
        Some(Arc::new(match self.templates.load(Ordering::Relaxed) {
            true => SnapshotTable::template(table, schema),
            false => SnapshotTable::new(table, schema),
        }))
    }
}

impl PinnedSnapshot {
    fn system_name(&self, name: &str) -> Option<(Arc<dyn SystemCatalog>, &'static str)> {
        let system = self.system()?;
        let known = *system.tables().iter().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((system, known))
    }

    /// Whether another system's catalog has a table of this name.
    pub(crate) fn is_system_table(&self, name: &str) -> bool {
        self.system_name(name).is_some()
    }

    /// The name of a table of another system's catalog, and its columns'.
    pub(crate) fn system_columns(&self, name: &str) -> Option<(String, Vec<String>)> {
        let (system, known) = self.system_name(name)?;
        let schema = system.schema(known)?;
        Some((known.to_string(), schema.fields().iter().map(|field| field.name().clone()).collect()))
    }

    /// A table of another system's catalog.
    fn system_table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let (system, known) = self.system_name(name)?;
        let rows = system.table(known, &self.get()).ok()?;
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).ok()?;
        Some(Arc::new(table))
    }
}

/// See [`PinnedSnapshot::templates`].
pub(crate) struct TemplatesGuard(Arc<PinnedSnapshot>);

impl Drop for TemplatesGuard {
    fn drop(&mut self) {
        self.0.templates.store(false, Ordering::Relaxed);
    }
}

/// See [`PinnedSnapshot::changing`].
pub(crate) struct ChangingGuard(Arc<PinnedSnapshot>);

impl Drop for ChangingGuard {
    fn drop(&mut self) {
        *self.0.changing.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// One catalog with one schema with the tables of the pinned snapshot.
#[derive(Debug)]
pub(crate) struct PinnedCatalog {
    schema: Arc<PinnedSchema>,
}

impl PinnedCatalog {
    pub(crate) fn new(pinned: &Arc<PinnedSnapshot>) -> Self {
        Self { schema: Arc::new(PinnedSchema { pinned: Arc::clone(pinned) }) }
    }
}

impl CatalogProviderList for PinnedCatalog {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_string()]
    }

    /// The one database, under whatever name: clients of a server give it theirs.
    fn catalog(&self, _name: &str) -> Option<Arc<dyn CatalogProvider>> {
        Some(Arc::new(PinnedSchemas { schema: Arc::clone(&self.schema) }))
    }
}

#[derive(Debug)]
struct PinnedSchemas {
    schema: Arc<PinnedSchema>,
}

impl CatalogProvider for PinnedSchemas {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_string()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.schema) as Arc<dyn SchemaProvider>),
            INFORMATION_SCHEMA => {
                Some(Arc::new(InformationSchema { pinned: Arc::clone(&self.schema.pinned) }))
            }
            _ => None,
        }
    }
}

/// The schema `information_schema`: the tables of the system whose tools ask, and DataFusion's where it has none.
#[derive(Debug)]
struct InformationSchema {
    pinned: Arc<PinnedSnapshot>,
}

impl InformationSchema {
    fn own(&self) -> InformationSchemaProvider {
        InformationSchemaProvider::new(Arc::new(PinnedCatalog::new(&self.pinned)))
    }
}

impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.own().table_names()
    }

    fn table<'life0, 'life1, 'async_trait>(
        &'life0 self,
        name: &'life1 str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn TableProvider>>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
    {
        let system = self.pinned.system_table(&format!("{INFORMATION_SCHEMA}.{name}"));
        let own = self.own();
        Box::pin(async move {
            match system {
                Some(table) => Ok(Some(table)),
                None => own.table(name).await,
            }
        })
    }

    fn table_exist(&self, name: &str) -> bool {
        self.own().table_exist(name)
    }
}

#[derive(Debug)]
struct PinnedSchema {
    pinned: Arc<PinnedSnapshot>,
}

impl SchemaProvider for PinnedSchema {
    fn table_names(&self) -> Vec<String> {
        listed(&self.pinned.get()).map(|table| table.schema().name().to_string()).collect()
    }

    // Written without `async_trait`, which costs seconds of build time an implementation.
    fn table<'life0, 'life1, 'async_trait>(
        &'life0 self,
        name: &'life1 str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn TableProvider>>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
    {
        let provider = self.pinned.provider(name);
        Box::pin(async move { Ok(provider) })
    }

    fn table_exist(&self, name: &str) -> bool {
        self.pinned.table(name).is_some() || self.pinned.frame(name).is_some()
    }
}
