//! What a check found, for programs (fields) and for people (one sentence each).

use std::fmt;
use std::path::{Path, PathBuf};
use tickstone_model::format_nanos;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, nothing is wrong: a torn end that the next opening cuts.
    Note,
    /// A file that nothing needs: what a crash or a drop left.
    Leftover,
    /// Bytes are not what was written, or a file is missing.
    Damage,
}

/// What `tickstone check --repair` does about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing needs to be done.
    None,
    /// The next opening for writing does what is needed, without a repair.
    NextOpening,
    /// It goes with the next opening after a crash or a repair.
    Swept,
    /// The file is written anew from its copy; nothing is lost.
    FromCopy,
    /// It is the copy of a file that is whole, and is written anew from that; nothing is lost.
    Copy,
    /// The file is written anew from what the other files say.
    Rebuild,
    /// The rows that are whole go into a new part; the damaged one is put aside.
    KeepRows,
    /// The part belongs to the table again.
    Adopt,
    /// The rows are still in the tape and come from there; the damaged part is put aside.
    FromTape,
    /// The frames before and after it are kept; the damaged file is put aside.
    KeepFrames,
    /// The file is put aside; nothing of it can be kept.
    PutAside,
    /// The name is forgotten: there is no file.
    Forget,
    /// Ids whose text is lost show as `?17` from then on.
    Placeholders,
    /// The table is rebuilt where the user asks for it: rows that a DELETE or UPDATE had removed or changed come back.
    BringBack,
}

impl Remedy {
    fn sentence(self) -> &'static str {
        match self {
            Remedy::None => "nothing needs to be done",
            Remedy::NextOpening => "the next opening for writing settles it",
            Remedy::Swept => "it goes with the next opening after a crash or a repair",
            Remedy::FromCopy => "a repair writes it anew from its copy, nothing is lost",
            Remedy::Copy => "a repair writes this copy anew, nothing is lost",
            Remedy::Rebuild => "a repair rebuilds it from the other files",
            Remedy::KeepRows => "a repair keeps all other rows of the file",
            Remedy::Adopt => "a repair gives it back to the table",
            Remedy::FromTape => "a repair takes the rows from the tape, which still has them",
            Remedy::KeepFrames => "a repair keeps the frames before and after it",
            Remedy::PutAside => "a repair puts the file aside",
            Remedy::Forget => "a repair goes on without it",
            Remedy::Placeholders => "a repair shows them as '?' and their number",
            Remedy::BringBack => {
                "a repair leaves the table as it is, and rebuilds it where it is asked for with --bring-back"
            }
        }
    }
}

/// One thing that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the database directory.
    pub path: PathBuf,
    /// Where in the file, in bytes; `None` where it is the file as a whole.
    pub offset: Option<u64>,
    /// How many bytes, where that is known.
    pub bytes: Option<u64>,
    /// What does not hold, in words.
    pub what: String,
    /// The table it belongs to, where that is known.
    pub table: Option<String>,
    /// Rows that cannot be read because of it, before a repair and after; `None` where nobody can tell.
    pub rows_lost: Option<u64>,
    /// Smallest and largest designated timestamp (ns since the Unix epoch, both inside) that those rows
    /// can have; `None` where none are lost or nobody can tell.
    pub times_lost: Option<(i64, i64)>,
    /// How bad it is.
    pub severity: Severity,
    /// What a repair does about it.
    pub remedy: Remedy,
}

impl Finding {
    pub(crate) fn new(severity: Severity, path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            offset: None,
            bytes: None,
            what: what.into(),
            table: None,
            rows_lost: Some(0),
            times_lost: None,
            severity,
            remedy: Remedy::None,
        }
    }

    pub(crate) fn at(mut self, offset: u64, bytes: Option<u64>) -> Self {
        (self.offset, self.bytes) = (Some(offset), bytes);
        self
    }

    pub(crate) fn of_table(mut self, name: &str) -> Self {
        self.table = Some(name.to_string());
        self
    }

    pub(crate) fn loses(mut self, rows: Option<u64>, times: Option<(i64, i64)>) -> Self {
        (self.rows_lost, self.times_lost) = (rows, times);
        self
    }

    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match (self.offset, self.bytes) {
            (Some(offset), Some(bytes)) => write!(f, ", bytes {offset} to {}", offset + bytes)?,
            (Some(offset), None) => write!(f, ", from byte {offset}")?,
            _ => {}
        }
        write!(f, ": {}", self.what)?;
        if self.severity == Severity::Damage {
            let table = self.table.as_ref().map_or(String::new(), |name| format!(" of table '{name}'"));
            match self.rows_lost {
                Some(0) => {}
                Some(1) => write!(f, "; 1 row{table} is lost")?,
                Some(rows) => write!(f, "; {rows} rows{table} are lost")?,
                None => write!(f, "; how many rows{table} are lost is not known")?,
            }
            if let Some((least, most)) = self.times_lost {
                write!(f, ", between {} and {}", format_nanos(least), format_nanos(most))?;
            }
        }
        write!(f, "; {}", self.remedy.sentence())
    }
}

/// Rows that come back when a table is rebuilt: of a DELETE or UPDATE of them nothing is left but the tape's frames,
/// which have the rows as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BringsBack {
    /// The table's name.
    pub table: String,
    /// Most rows that were deleted.
    pub deleted: u64,
    /// Most rows that were changed, and whose values of before come back.
    pub changed: u64,
}

impl BringsBack {
    /// What comes back: before a repair, or `done` by it.
    pub(crate) fn sentence(&self, done: bool) -> String {
        let Self { table, deleted, changed } = self;
        let rows = |count: u64| if count == 1 { "1 row".to_string() } else { format!("up to {count} rows") };
        let (back, have) = if done { ("are back", "have") } else { ("would come back", "would have") };
        let deleted_back = format!("{} of table '{table}' that a DELETE removed {back}", rows(*deleted));
        let changed_back =
            format!("{} of table '{table}' {have} the values from before an UPDATE", rows(*changed));
        match (deleted, changed) {
            (_, 0) => deleted_back,
            (0, _) => changed_back,
            _ => format!("{deleted_back}, and {changed_back}"),
        }
    }
}

/// How far a check, a repair, a backup or a restore has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file at hand, relative to the database directory.
    pub path: &'a Path,
    /// Bytes done so far.
    pub bytes: u64,
    /// Bytes there are to do.
    pub bytes_total: u64,
}

/// What a check read and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Findings, in the order they were met.
    pub findings: Vec<Finding>,
    /// Findings past the limit that are only counted here.
    pub findings_left_out: u64,
    /// Whether some finding, left out or not, is damage.
    pub damaged: bool,
    /// Tables looked at.
    pub tables: u64,
    /// Parts looked at.
    pub parts: u64,
    /// Whole frames of the tape.
    pub frames: u64,
    /// Files read.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Rows that were read: those of parts, and those that are in the tape only.
    pub rows: u64,
}

impl Report {
    /// Whether nothing is damaged or missing. Leftovers and notes do no harm.
    pub fn is_clean(&self) -> bool {
        !self.damaged
    }

    /// Rows that are lost for certain; more may be where a finding cannot tell.
    pub fn rows_lost(&self) -> u64 {
        self.findings.iter().filter_map(|finding| finding.rows_lost).sum()
    }

    pub(crate) fn add(&mut self, finding: Finding, most: usize) {
        self.damaged |= finding.severity == Severity::Damage;
        if self.findings.len() < most {
            self.findings.push(finding);
        } else {
            self.findings_left_out += 1;
        }
    }
}

impl fmt::Display for Report {
    /// A line a finding, then what was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let word = match finding.severity {
                Severity::Damage => "damage",
                Severity::Leftover => "leftover",
                Severity::Note => "note",
            };
            writeln!(f, "{word}: {finding}")?;
        }
        if self.findings_left_out > 0 {
            writeln!(f, "… and {} more", self.findings_left_out)?;
        }
        write!(
            f,
            "{} tables, {} parts, {} frames of the tape; {} rows, {} bytes in {} files: {}",
            self.tables,
            self.parts,
            self.frames,
            self.rows,
            self.bytes,
            self.files,
            if self.damaged { "damaged" } else { "all is as it was written" },
        )
    }
}
