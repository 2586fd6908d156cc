//! Who of those who listen to one table is to hear which of its changes.

use super::mailbox::{Item, Mailbox, What};
use crate::error::QueryError;
use datafusion::arrow::array::Array;
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_engine::{Dictionary, Happened, Heard, HeardRows};

const DAY: i64 = 86_400_000_000_000;

/// Those who listen to one table.
pub(super) struct Listeners {
    /// Who hears every row.
    all: Vec<Arc<Mailbox>>,
    /// Who hears the rows of some symbols, by the column's id.
    by_column: HashMap<u32, Routes>,
    /// The newest designated timestamp of the table.
    newest: Option<i64>,
}

/// Who hears the rows of which symbols of one column.
#[derive(Default)]
struct Routes {
    mailboxes: Vec<Arc<Mailbox>>,
    /// By symbol the places of the mailboxes.
    by_symbol: HashMap<String, Vec<u32>>,
    /// The same by the symbol's id, as far as the dictionary was known.
    by_id: Vec<Vec<u32>>,
    stale: bool,
}

impl Listeners {
    /// Of a table whose newest row has this time.
    pub(super) fn new(newest: Option<i64>) -> Self {
        Self { all: Vec::new(), by_column: HashMap::new(), newest }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() + self.by_column.values().map(|routes| routes.mailboxes.len()).sum::<usize>()
    }

    pub(super) fn add(&mut self, mailbox: &Arc<Mailbox>) {
        match mailbox.symbols() {
            None => self.all.push(Arc::clone(mailbox)),
            Some((column, _)) => {
                let routes = self.by_column.entry(*column).or_default();
                routes.mailboxes.push(Arc::clone(mailbox));
                routes.stale = true;
            }
        }
    }

    pub(super) fn remove(&mut self, mailbox: &Arc<Mailbox>) {
        self.all.retain(|other| !Arc::ptr_eq(other, mailbox));
        for routes in self.by_column.values_mut() {
            routes.mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
            routes.stale = true;
        }
        self.by_column.retain(|_, routes| !routes.mailboxes.is_empty());
    }

    fn each(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.all.iter().chain(self.by_column.values().flat_map(|routes| &routes.mailboxes))
    }

    pub(super) fn fail(&self, error: &QueryError) {
        self.each().for_each(|mailbox| mailbox.fail(error));
    }

    /// Tells everybody.
    pub(super) fn tell(&self, what: &What, position: u64) {
        self.each().for_each(|mailbox| mailbox.put(Item { position, what: what.clone() }, 0, 0));
    }

    /// Hands a change, by its place among those of its frame, to those who are to hear it.
    pub(super) fn hear(&mut self, heard: &Arc<Heard>, place: usize) {
        let position = heard.position;
        let change = |rows| What::Change { heard: Arc::clone(heard), place, rows };
        let Happened::Rows(rows) = &heard.changes[place].what else {
            if let Happened::Loaded(table) = &heard.changes[place].what {
                self.pass(table.partitions().times().map(|(_, newest)| newest), position);
            }
            self.tell(&change(None), position);
            return;
        };
        let newest = rows.pieces().iter().filter_map(|piece| piece.times()?.last().copied()).max();
        self.pass(newest, position);
        let (count, bytes) = (rows.rows(), rows.bytes());
        for mailbox in &self.all {
            mailbox.put(Item { position, what: change(None) }, count, bytes);
        }
        for (column, routes) in &mut self.by_column {
            for (mailbox, picked) in routes.pick(*column, rows) {
                let count = picked.iter().map(Vec::len).sum();
                mailbox.put(Item { position, what: change(Some(picked)) }, count, bytes);
            }
        }
    }

    /// Notes the newest time of a change; a new day is told before its rows are.
    fn pass(&mut self, newest: Option<i64>, position: u64) {
        let Some(newest) = newest else { return };
        let before = self.newest.replace(self.newest.map_or(newest, |before| before.max(newest)));
        if let Some(began) = day_began(before, newest) {
            self.tell(&What::DayBegan(began), position);
        }
    }
}

/// The first instant of a day that begins with a row of this time, where none as late was there before.
pub(crate) fn day_began(before: Option<i64>, newest: i64) -> Option<i64> {
    let day = newest.div_euclid(DAY);
    before.filter(|before| before.div_euclid(DAY) < day).map(|_| day.saturating_mul(DAY))
}

impl Routes {
    /// The rows of each piece that each mailbox is to hear; who is to hear none is not among them.
    fn pick(&mut self, column: u32, rows: &HeardRows) -> Vec<(&Arc<Mailbox>, Vec<Vec<u32>>)> {
        let pieces = rows.pieces();
        let mut picked: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for (piece_number, piece) in pieces.iter().enumerate() {
            let Some(index) = piece.schema().column_of_id(column) else { continue };
            let (Some(ids), Some(dictionary)) = (piece.symbols(index), rows.dictionary(index)) else {
                continue;
            };
            self.know(dictionary);
            for (row, id) in ids.values().iter().enumerate() {
                let Some(places) = self.by_id.get(*id as usize) else { continue };
                // The id of a NULL means nothing.
                if places.is_empty() || ids.is_null(row) {
                    continue;
                }
                let row = u32::try_from(row).expect("a piece has fewer than 2^32 rows");
                for place in places {
                    let of = picked.entry(*place).or_insert_with(|| vec![Vec::new(); pieces.len()]);
                    of[piece_number].push(row);
                }
            }
        }
        picked.into_iter().map(|(place, rows)| (&self.mailboxes[place as usize], rows)).collect()
    }

    /// Gets to know the ids of the symbols that are wanted.
    fn know(&mut self, dictionary: &Dictionary) {
        if self.stale {
            self.stale = false;
            self.by_id.clear();
            self.by_symbol.clear();
            for (place, mailbox) in self.mailboxes.iter().enumerate() {
                let place = u32::try_from(place).expect("fewer than 2^32 mailboxes");
                for symbol in mailbox.symbols().map_or(&[][..], |(_, symbols)| symbols) {
                    let places = self.by_symbol.entry(symbol.clone()).or_default();
                    if places.last() != Some(&place) {
                        places.push(place);
                    }
                }
            }
        }
        for id in self.by_id.len()..dictionary.len() {
            let symbol = u32::try_from(id).ok().and_then(|id| dictionary.symbol(id));
            let places = symbol.and_then(|symbol| self.by_symbol.get(&*symbol)).cloned();
            self.by_id.push(places.unwrap_or_default());
        }
    }
}
