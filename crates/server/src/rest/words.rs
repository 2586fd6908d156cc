//! The words of a request: the `name=value` of its path and of its body, each of them known, none given twice.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use tickstone_query::Parameters;

use super::written::{Kind, Written};
use crate::http::{NOT_PERCENT_ENCODED, is_percent_encoded, unpacked};
use crate::shared::Shared;

/// What is wrong with a request, and the status that says so.
pub(super) type Fault = (StatusCode, String);

/// A request that is wrong.
pub(super) fn wrong(what: impl Into<String>) -> Fault {
    (StatusCode::BAD_REQUEST, what.into())
}

/// The words of a request that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Words {
    words: Vec<(String, String)>,
}

impl Words {
    /// Those of a path.
    ///
    /// # Errors
    /// Where one is not in `known`, or there twice.
    pub(super) fn of_path(query: Option<&str>, known: &[&str]) -> Result<Self, Fault> {
        let mut words = Self::default();
        words.add(form(query.unwrap_or_default())?, known)?;
        Ok(words)
    }

    /// Those of a path and of a body with a statement: a form, an object of JSON, or the statement itself.
    ///
    /// # Errors
    /// As [`Self::of_path`], and what is wrong with the body.
    pub(super) async fn of_request(
        query: Option<&str>,
        headers: &HeaderMap,
        body: Body,
        shared: &Arc<Shared>,
        known: &[&str],
    ) -> Result<Self, Fault> {
        let mut words = Self::of_path(query, known)?;
        let (bytes, _held) = unpacked(body, headers, shared).await?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("the body is not valid UTF-8"))?;
        if text.trim().is_empty() {
            return Ok(words);
        }
        match media_type(headers).as_str() {
            "application/json" => words.add(members(&text)?, known)?,
            "application/x-www-form-urlencoded" => {
                let all = form(&text)?;
                // Without any, what curl sends when it is not told of what type it is.
                let is_form = words.has("query") || all.iter().any(|(name, _)| name == "query");
                if is_form {
                    check_form(&text)?;
                }
                words.add(if is_form { all } else { vec![("query".into(), text)] }, known)?;
            }
            "multipart/form-data" => {
                let what = "a statement is sent as a form (query=SELECT …), as JSON or as text/plain";
                return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, what.into()));
            }
            _ => words.add(vec![("query".into(), text)], known)?,
        }
        Ok(words)
    }

    fn add(&mut self, words: Vec<(String, String)>, known: &[&str]) -> Result<(), Fault> {
        for (name, value) in words {
            if !known.contains(&name.as_str()) {
                return Err(wrong(format!("there is no parameter '{name}'; there are {}", known.join(", "))));
            }
            if self.has(&name) {
                return Err(wrong(format!("{name} is given twice")));
            }
            self.words.push((name, value));
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.words.iter().any(|(known, _)| known == name)
    }

    /// The value of a word, an empty one as if it were not there.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.words.iter().position(|(known, _)| known == name)?;
        Some(self.words.swap_remove(place).1).filter(|value| !value.is_empty())
    }

    /// Whether a word is `true`.
    ///
    /// # Errors
    /// Where it is neither that nor `false`.
    pub(super) fn is_on(&mut self, name: &str) -> Result<bool, Fault> {
        self.switch(name).map(|is_on| is_on.unwrap_or(false))
    }

    /// As [`Self::is_on`], `None` where the word is not there.
    ///
    /// # Errors
    /// As [`Self::is_on`].
    pub(super) fn switch(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        match self.take(name) {
            None => Ok(None),
            Some(word) if word.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(word) if word.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(other) => Err(wrong(format!("{name}={other} is neither true nor false"))),
        }
    }

    /// The rows that are wanted, from 0: `limit`.
    ///
    /// # Errors
    /// Where it is no range of rows.
    pub(super) fn rows(&mut self) -> Result<Range<u64>, Fault> {
        match self.take("limit") {
            None => Ok(0..u64::MAX),
            Some(limit) => rows_of(&limit).ok_or_else(|| {
                wrong(format!("limit={limit} is no number of rows, and no from,to (the first row is 1)"))
            }),
        }
    }

    /// The values for the placeholders of the statement: `params`.
    ///
    /// # Errors
    /// Where it is neither an array nor an object of JSON, or a value of it is none of SQL.
    pub(super) fn parameters(&mut self) -> Result<Parameters, Fault> {
        let Some(text) = self.take("params") else { return Ok(Parameters::None) };
        let no_list = "params is an array of JSON for $1, $2, …, or an object for :name";
        match Written::read(&text, no_list)?.kind {
            Kind::Null => Ok(Parameters::None),
            Kind::Array(values) => {
                let values = values.into_iter().map(Written::parameter);
                Ok(Parameters::Positional(values.collect::<Result<_, Fault>>()?))
            }
            Kind::Object(values) => {
                let values = values.into_iter().map(|(name, value)| Ok((name, value.parameter()?)));
                Ok(Parameters::Named(values.collect::<Result<_, Fault>>()?))
            }
            _ => Err(wrong(no_list)),
        }
    }
}

/// What a body says it is, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let all = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    all.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn form(text: &str) -> Result<Vec<(String, String)>, Fault> {
    serde_urlencoded::from_str(text).map_err(|_| wrong("the parameters are no name=value&name=value"))
}

/// # Errors
/// Where a form has bytes that stand for nothing: what was read of it has others in their place.
pub(super) fn check_form(text: &str) -> Result<(), Fault> {
    match is_percent_encoded(text) {
        true => Ok(()),
        false => Err(wrong(NOT_PERCENT_ENCODED)),
    }
}

/// The members of an object of JSON, each as it would stand in a path.
fn members(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let no_object = "the body is no object of JSON: {\"query\": \"SELECT …\"}";
    let Kind::Object(members) = Written::read(text, no_object)?.kind else { return Err(wrong(no_object)) };
    let word = |(name, value): (String, Written<'_>)| match value.kind {
        Kind::Null => None,
        Kind::Text(text) => Some((name, text)),
        _ => Some((name, value.text.to_string())),
    };
    Ok(members.into_iter().filter_map(word).collect())
}

/// `10`: the first ten rows; `10,20`: from the tenth to the twentieth; `10,`: from the tenth on.
fn rows_of(limit: &str) -> Option<Range<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let Some((from, to)) = limit.split_once(',') else { return Some(0..number(limit)?) };
    let from = if from.trim().is_empty() { 1 } else { number(from)? };
    let to = if to.trim().is_empty() { u64::MAX } else { number(to)? };
    let range = from.saturating_sub(1)..to;
    (limit.trim() != "," && range.start <= range.end).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickstone_query::ParameterValue;

    #[test]
    fn ranges_of_rows() {
        let wanted = [
            ("10", Some(0..10)),
            ("0", Some(0..0)),
            ("10,20", Some(9..20)),
            ("0,20", Some(0..20)),
            (" 1 , 1 ", Some(0..1)),
            ("10,", Some(9..u64::MAX)),
            (",20", Some(0..20)),
            (",", None),
            ("20,10", None),
            ("-5", None),
            ("x", None),
            ("1,2,3", None),
        ];
        for (limit, range) in wanted {
            assert_eq!(rows_of(limit), range, "{limit}");
        }
    }

    #[test]
    fn words_are_known_and_given_once() {
        let known = ["query", "limit", "nm"];
        let told = |query| Words::of_path(Some(query), &known).map(|_| ()).map_err(|(_, what)| what);
        assert_eq!(told("query=SELECT+1&limit=3"), Ok(()));
        assert_eq!(told("limt=3"), Err("there is no parameter 'limt'; there are query, limit, nm".into()));
        assert_eq!(told("limit=3&limit=4"), Err("limit is given twice".into()));
        let mut words = Words::of_path(Some("nm=yes&limit="), &known).expect("they are known");
        assert_eq!(
            words.is_on("nm").map_err(|(_, what)| what),
            Err("nm=yes is neither true nor false".into())
        );
        assert_eq!(words.rows().ok(), Some(0..u64::MAX));
    }

    #[test]
    fn parameters_are_values_of_sql() {
        let parameters = |text: &str| {
            let mut words = Words { words: vec![("params".into(), text.into())] };
            words.parameters().map_err(|(_, what)| what)
        };
        let list = "[null, true, -3, 18446744073709551615, 1.5, \"x\", [1, 2]]";
        let values = vec![
            ParameterValue::Null,
            ParameterValue::Boolean(true),
            ParameterValue::Integer(-3),
            ParameterValue::Integer(u64::MAX.into()),
            ParameterValue::Float(1.5),
            ParameterValue::Text("x".into()),
            ParameterValue::List(vec![ParameterValue::Integer(1), ParameterValue::Integer(2)]),
        ];
        assert_eq!(parameters(list), Ok(Parameters::Positional(values)));
        let named = [("s".to_string(), ParameterValue::Integer(1))].into();
        assert_eq!(parameters("{\"s\": 1}"), Ok(Parameters::Named(named)));
        for wrong in ["3", "[", "[{}]"] {
            assert!(parameters(wrong).is_err(), "{wrong}");
        }
    }
}
