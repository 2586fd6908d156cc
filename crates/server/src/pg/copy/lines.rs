//! Rows of text and CSV, cut out of what has come so far.

use super::Format;

/// Cuts rows out of bytes that come in pieces.
#[derive(Debug)]
pub(super) struct Rows {
    format: Format,
    /// Bytes of a row that has not ended, and how many of them were looked at.
    pending: Vec<u8>,
    looked_at: usize,
    /// Whether they end within quotes, or behind a backslash.
    inside: bool,
    /// Whether `\\.` has come, behind which nothing counts.
    ended: bool,
}

/// Takes a row: its values, and which of them are NULL.
pub(super) type Each<'a, E> = dyn FnMut(&[Vec<u8>], &[bool]) -> Result<(), E> + 'a;

/// Why a row is none.
pub(super) type NoRow = String;

impl Rows {
    pub(super) fn new(format: Format) -> Self {
        Self { format, pending: Vec::new(), looked_at: 0, inside: false, ended: false }
    }

    /// Bytes that wait for the end of their row.
    pub(super) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Takes bytes, and hands each row that has ended to `each`, field by field: its place and what it is.
    ///
    /// # Errors
    /// At the first row that is none, and those of `each`.
    pub(super) fn push<E: From<NoRow>>(&mut self, bytes: &[u8], each: &mut Each<'_, E>) -> Result<(), E> {
        if self.ended {
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let (mut start, mut fields) = (0, Fields::default());
        let mut at = self.looked_at;
        while let Some(end) = self.end_of_row(&pending, &mut at) {
            self.row(&pending[start..end], &mut fields, each)?;
            if self.ended {
                return Ok(());
            }
            (start, at) = (end + 1, end + 1);
        }
        self.looked_at = at - start;
        self.pending = pending;
        self.pending.drain(..start);
        Ok(())
    }

    /// The last row, which has no end of line.
    ///
    /// # Errors
    /// As [`Self::push`], and where it ends within quotes.
    pub(super) fn finish<E: From<NoRow>>(&mut self, each: &mut Each<'_, E>) -> Result<(), E> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        if self.inside && matches!(self.format, Format::Csv { .. }) {
            return Err(NoRow::from("a quote is not closed").into());
        }
        self.row(&pending, &mut Fields::default(), each)
    }

    /// Where the next row ends, from `at`.
    fn end_of_row(&mut self, bytes: &[u8], at: &mut usize) -> Option<usize> {
        while let Some(&byte) = bytes.get(*at) {
            match &self.format {
                Format::Csv { quote, escape, .. } => {
                    if self.inside && byte == *escape && escape != quote {
                        // What it stands before may not have come yet.
                        if *at + 1 == bytes.len() {
                            return None;
                        }
                        *at += 1;
                    } else if byte == *quote {
                        self.inside = !self.inside;
                    } else if byte == b'\n' && !self.inside {
                        return Some(*at);
                    }
                }
                _ => match byte {
                    _ if self.inside => self.inside = false,
                    b'\\' => self.inside = true,
                    b'\n' => return Some(*at),
                    _ => {}
                },
            }
            *at += 1;
        }
        None
    }

    fn row<E: From<NoRow>>(
        &mut self,
        line: &[u8],
        fields: &mut Fields,
        each: &mut Each<'_, E>,
    ) -> Result<(), E> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        fields.count = 0;
        match &self.format {
            Format::Csv { delimiter, null, quote, escape, .. } => {
                fields.csv(line, *delimiter, null.as_bytes(), *quote, *escape).map_err(E::from)?;
            }
            Format::Text { delimiter, null, .. } => fields.text(line, *delimiter, null.as_bytes()),
            Format::Binary => return Ok(()),
        }
        each(&fields.values[..fields.count], &fields.nulls[..fields.count])
    }
}

/// The fields of a row, in memory that serves the next.
#[derive(Debug, Default)]
struct Fields {
    values: Vec<Vec<u8>>,
    nulls: Vec<bool>,
    count: usize,
}

impl Fields {
    fn next(&mut self) -> &mut Vec<u8> {
        if self.count == self.values.len() {
            self.values.push(Vec::new());
            self.nulls.push(false);
        }
        let value = &mut self.values[self.count];
        value.clear();
        self.nulls[self.count] = false;
        self.count += 1;
        value
    }

    fn is_null(&mut self) {
        self.nulls[self.count - 1] = true;
    }

    fn text(&mut self, line: &[u8], delimiter: u8, null: &[u8]) {
        let mut rest = line;
        loop {
            let mut end = 0;
            while end < rest.len() && rest[end] != delimiter {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            let end = end.min(rest.len());
            let raw = &rest[..end];
            let value = self.next();
            if raw == null {
                self.is_null();
            } else {
                unescape(raw, value);
            }
            match rest.get(end) {
                Some(_) => rest = &rest[end + 1..],
                None => return,
            }
        }
    }

    fn csv(&mut self, line: &[u8], delimiter: u8, null: &[u8], quote: u8, escape: u8) -> Result<(), NoRow> {
        let mut at = 0;
        loop {
            let (mut quoted, mut inside) = (false, false);
            let value = self.next();
            while let Some(&byte) = line.get(at) {
                if inside {
                    if byte == escape
                        && line.get(at + 1).is_some_and(|next| *next == quote || *next == escape)
                    {
                        value.push(line[at + 1]);
                        at += 1;
                    } else if byte == quote {
                        inside = false;
                    } else {
                        value.push(byte);
                    }
                } else if byte == delimiter {
                    break;
                } else if byte == quote {
                    (quoted, inside) = (true, true);
                } else {
                    value.push(byte);
                }
                at += 1;
            }
            if inside {
                return Err("a quote is not closed".to_string());
            }
            let is_null = !quoted && value == null;
            if is_null {
                self.is_null();
            }
            if at >= line.len() {
                return Ok(());
            }
            at += 1;
        }
    }
}

/// Takes the backslashes of the text format out.
fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&next) = raw.get(at) else { return out.push(b'\\') };
        at += 1;
        let (radix, most) = match next {
            b'0'..=b'7' => {
                at -= 1;
                (8, 3)
            }
            b'x' if raw.get(at).is_some_and(u8::is_ascii_hexdigit) => (16, 2),
            other => {
                out.push(match other {
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    plain => plain,
                });
                continue;
            }
        };
        let mut value = 0_u32;
        for _ in 0..most {
            let Some(digit) = raw.get(at).and_then(|digit| char::from(*digit).to_digit(radix)) else { break };
            value = value * radix + digit;
            at += 1;
        }
        out.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests;
