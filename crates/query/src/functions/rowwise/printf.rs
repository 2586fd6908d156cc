//! `printf('%5.2f', x)` as in C and DuckDB, and `format`: DuckDB's `format('{:.2f}', x)`, or PostgreSQL's
//! `format('%s', x)` where the format has no brace.

use super::{Rowwise, is_text, valid_rows};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use std::sync::Arc;

/// Most characters that a value is filled up to, and most digits after a point.
const WIDTH_MAX: usize = 1_000;

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "printf",
        usage: "printf(format[, value, …])",
        about: "values by a format of C: printf('%s: %.2f', symbol, price)",
        takes,
        gives: |_| DataType::Utf8,
        value: |args| rows(args, false),
    },
    Rowwise {
        name: "format",
        usage: "format(format[, value, …])",
        about: "values by a format of braces or of PostgreSQL: format('{}: {:.2f}', symbol, price), format('%s', symbol)",
        takes,
        gives: |_| DataType::Utf8,
        value: |args| rows(args, true),
    },
];

fn takes(types: &[DataType]) -> Option<Vec<DataType>> {
    let (format, values) = types.split_first()?;
    let value = |of: &DataType| match of {
        of if of.is_integer() => DataType::Int64,
        of if of.is_numeric() => DataType::Float64,
        _ => DataType::Utf8,
    };
    is_text(format).then(|| std::iter::once(DataType::Utf8).chain(values.iter().map(value)).collect())
}

fn rows(args: &[ArrayRef], has_braces: bool) -> Result<ArrayRef> {
    let Some((formats, values)) = args.split_first() else {
        return Err(exec_datafusion_err!("printf takes a format"));
    };
    let formats = formats.as_string::<i32>();
    let mut made = StringBuilder::with_capacity(formats.len(), formats.len() * 20);
    for row in valid_rows(args) {
        let Some(row) = row else {
            made.append_null();
            continue;
        };
        let format = formats.value(row);
        let values = values.iter().map(|values| Value::of(values, row)).collect();
        let braces = has_braces && format.contains(['{', '}']);
        let text = Writing { format, rest: format, values, next: 0, text: String::new() }.all(braces);
        let refused = |what: String| exec_datafusion_err!("the format '{format}': {what}");
        made.append_value(text.map_err(refused)?);
    }
    Ok(Arc::new(made.finish()))
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Whole(i64),
    Number(f64),
    Text(&'a str),
}

impl<'a> Value<'a> {
    fn of(values: &'a ArrayRef, row: usize) -> Self {
        match values.data_type() {
            DataType::Int64 => Self::Whole(values.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Self::Number(values.as_primitive::<Float64Type>().value(row)),
            _ => Self::Text(values.as_string::<i32>().value(row)),
        }
    }
}

/// How a value is written.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    /// `<`, `>` or `^`.
    align: Option<char>,
    /// `+` or a space before what is not negative.
    sign: Option<char>,
    alternate: bool,
    zeros: bool,
    thousands: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// A format being read.
struct Writing<'a> {
    format: &'a str,
    rest: &'a str,
    values: Vec<Value<'a>>,
    /// The value after the last.
    next: usize,
    text: String,
}

impl<'a> Writing<'a> {
    fn all(mut self, braces: bool) -> Result<String, String> {
        while let Some(at) = self.rest.find(if braces { ['{', '}'] } else { ['%', '%'] }) {
            self.text.push_str(&self.rest[..at]);
            let mark = &self.rest[at..at + 1];
            self.rest = &self.rest[at + 1..];
            if let Some(rest) = self.rest.strip_prefix(mark) {
                self.text.push_str(mark);
                self.rest = rest;
            } else if mark == "}" {
                return Err("a '}' has no '{' before it; write '}}' for one".to_string());
            } else {
                let (value, spec) = if braces { self.of_braces()? } else { self.of_percent()? };
                spec.write(value, &mut self.text)?;
            }
        }
        self.text.push_str(self.rest);
        Ok(self.text)
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        let found = self.rest.chars().next().filter(|c| wanted(*c))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().ok().filter(|number| *number <= WIDTH_MAX);
        number.map(Some).ok_or_else(|| format!("{digits} is more than {WIDTH_MAX}"))
    }

    /// The value of a place, from 0 on, or the one after the last.
    fn value(&mut self, place: Option<usize>) -> Result<Value<'a>, String> {
        let at = place.unwrap_or(self.next);
        self.next = at + 1;
        self.values.get(at).copied().ok_or_else(|| format!("there is no value {}", at + 1))
    }

    /// After `%`: `[place$][-+ 0#][width][.precision]kind`.
    fn of_percent(&mut self) -> Result<(Value<'a>, Spec), String> {
        let before = self.rest;
        let place = match (self.number()?, self.rest.strip_prefix('$')) {
            (Some(place), Some(rest)) => {
                self.rest = rest;
                Some(place.checked_sub(1).ok_or("places count from 1")?)
            }
            _ => {
                self.rest = before;
                None
            }
        };
        let mut spec = Spec::default();
        while let Some(flag) = self.take(|c| "-+ 0#,'".contains(c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' => spec.sign = Some('+'),
                ' ' => spec.sign = spec.sign.or(Some(' ')),
                '0' => spec.zeros = true,
                '#' => spec.alternate = true,
                _ => spec.thousands = true,
            }
        }
        spec.align = spec.align.or(Some('>'));
        spec.width = self.number()?.unwrap_or(0);
        if self.take(|c| c == '.').is_some() {
            spec.precision = Some(self.number()?.unwrap_or(0));
        }
        while self.take(|c| c == 'h' || c == 'l').is_some() {}
        let kind = self.take(|c| c.is_ascii_alphabetic());
        spec.kind = Some(kind.ok_or("a '%' has no conversion after it; write '%%' for one")?);
        Ok((self.value(place)?, spec))
    }

    /// After `{`: `[place][:[[fill]align][sign][#][0][width][,][.precision][kind]]}`.
    fn of_braces(&mut self) -> Result<(Value<'a>, Spec), String> {
        let place = self.number()?;
        let mut spec = Spec::default();
        if self.take(|c| c == ':').is_some() {
            let mut first = self.rest.chars();
            if let (Some(fill), Some('<' | '>' | '^')) = (first.next(), first.next()) {
                spec.fill = Some(fill);
                self.rest = &self.rest[fill.len_utf8()..];
            }
            spec.align = self.take(|c| "<>^".contains(c));
            spec.sign = self.take(|c| "+- ".contains(c)).filter(|sign| *sign != '-');
            spec.alternate = self.take(|c| c == '#').is_some();
            spec.zeros = self.take(|c| c == '0').is_some();
            spec.width = self.number()?.unwrap_or(0);
            spec.thousands = self.take(|c| c == ',' || c == '_').is_some();
            if self.take(|c| c == '.').is_some() {
                spec.precision = Some(self.number()?.unwrap_or(0));
            }
            spec.kind = self.take(|c| c.is_ascii_alphabetic());
        }
        if self.take(|c| c == '}').is_none() {
            return Err(format!("a '{{' has no '}}' after it in '{}'", self.format));
        }
        Ok((self.value(place)?, spec))
    }
}

impl Spec {
    fn write(&self, value: Value<'_>, text: &mut String) -> Result<(), String> {
        let (sign, body) = match (value, self.kind) {
            (Value::Text(of), None | Some('s')) => ("", self.cut(of)),
            (Value::Text(of), Some('L')) => ("", format!("'{}'", of.replace('\'', "''"))),
            (Value::Text(of), Some('I')) => ("", as_name(of)),
            (Value::Whole(of), Some('s' | 'L' | 'I')) => ("", self.cut(&of.to_string())),
            (Value::Number(of), Some('s' | 'L' | 'I')) => ("", self.cut(&of.to_string())),
            (Value::Whole(of), Some('c')) => {
                let c = u32::try_from(of).ok().and_then(char::from_u32);
                ("", c.ok_or_else(|| format!("{of} is no character"))?.to_string())
            }
            (Value::Whole(of), None | Some('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'b' | 'B')) => {
                (self.sign_of(of < 0), self.whole(of.unsigned_abs()))
            }
            (Value::Whole(of), Some('f' | 'F' | 'e' | 'E' | 'g' | 'G')) => {
                (self.sign_of(of < 0), self.number((of as f64).abs()))
            }
            (Value::Number(of), None | Some('f' | 'F' | 'e' | 'E' | 'g' | 'G')) => {
                (self.sign_of(of.is_sign_negative() && !of.is_nan()), self.number(of.abs()))
            }
            (Value::Number(of), Some('d' | 'i')) if of.fract() == 0.0 && of.abs() < 1e18 => {
                (self.sign_of(of < 0.0), self.whole(of.abs() as u64))
            }
            (value, kind) => {
                let what = match value {
                    Value::Text(_) => "a text",
                    Value::Whole(_) => "a whole number",
                    Value::Number(_) => "a number",
                };
                return Err(format!("'{}' takes no {}", kind.unwrap_or('s'), what.trim_start_matches("a ")));
            }
        };
        let is_text = matches!(value, Value::Text(_));
        let missing = self.width.saturating_sub(sign.chars().count() + body.chars().count());
        let zeros =
            self.zeros && self.align.is_none_or(|align| align == '>') && self.fill.is_none() && !is_text;
        let (before, after) = match self.align.unwrap_or(if is_text { '<' } else { '>' }) {
            _ if zeros => (0, 0),
            '<' => (0, missing),
            '^' => (missing / 2, missing - missing / 2),
            _ => (missing, 0),
        };
        let fill = |text: &mut String, count: usize| {
            text.extend(std::iter::repeat_n(self.fill.unwrap_or(' '), count));
        };
        fill(text, before);
        text.push_str(sign);
        text.extend(std::iter::repeat_n('0', if zeros { missing } else { 0 }));
        text.push_str(&body);
        fill(text, after);
        Ok(())
    }

    fn cut(&self, text: &str) -> String {
        self.precision.map_or_else(|| text.to_string(), |most| text.chars().take(most).collect())
    }

    fn sign_of(&self, is_negative: bool) -> &'static str {
        match self.sign {
            _ if is_negative => "-",
            Some('+') => "+",
            Some(_) => " ",
            None => "",
        }
    }

    fn whole(&self, number: u64) -> String {
        let (prefix, digits) = match self.kind {
            Some('x') => ("0x", format!("{number:x}")),
            Some('X') => ("0X", format!("{number:X}")),
            Some('o') => ("0", format!("{number:o}")),
            Some('b' | 'B') => ("0b", format!("{number:b}")),
            _ => return self.grouped(&number.to_string()),
        };
        if self.alternate { format!("{prefix}{digits}") } else { digits }
    }

    fn number(&self, number: f64) -> String {
        if !number.is_finite() {
            return if number.is_nan() { "nan".to_string() } else { "inf".to_string() };
        }
        let precision = self.precision.unwrap_or(6);
        let written = match self.kind {
            None if self.precision.is_none() => number.to_string(),
            Some('f' | 'F') => format!("{number:.precision$}"),
            Some('e' | 'E') => exponent(number, precision),
            // The shorter of both, without zeros at its end.
            _ => {
                let precision = precision.max(1);
                let scientific = exponent(number, precision - 1);
                let power: i32 =
                    scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
                let short = |digits: &str| match digits.contains('.') {
                    true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
                    false => digits.to_string(),
                };
                let places = i32::try_from(precision).unwrap_or(i32::MAX) - 1 - power;
                match (scientific.split_once('e'), usize::try_from(places)) {
                    (_, Ok(places)) if power >= -4 => short(&format!("{number:.places$}")),
                    (Some((digits, power)), _) => format!("{}e{power}", short(digits)),
                    (None, _) => scientific,
                }
            }
        };
        let is_upper = matches!(self.kind, Some('E' | 'G'));
        self.grouped(&if is_upper { written.to_uppercase() } else { written })
    }

    /// With commas between thousands, where they are asked for.
    fn grouped(&self, number: &str) -> String {
        let whole = number.bytes().take_while(u8::is_ascii_digit).count();
        if !self.thousands {
            return number.to_string();
        }
        let mut made = String::with_capacity(number.len() * 4 / 3 + 1);
        for (at, digit) in number[..whole].char_indices() {
            if at > 0 && (whole - at).is_multiple_of(3) {
                made.push(',');
            }
            made.push(digit);
        }
        made + &number[whole..]
    }
}

/// A text as a name of SQL, in quotes where it needs them.
fn as_name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match text.starts_with(|c: char| !c.is_ascii_digit()) && text.chars().all(is_plain) {
        true => text.to_string(),
        false => format!("\"{}\"", text.replace('"', "\"\"")),
    }
}

/// As C writes it: `1.500000e+00`.
fn exponent(number: f64, precision: usize) -> String {
    let written = format!("{number:.precision$e}");
    let Some((digits, power)) = written.split_once('e') else { return written };
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}
