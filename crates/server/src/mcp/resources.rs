//! What an assistant may read without a tool: the tables as SQL, and the pages of the SQL reference.

use super::docs::{PAGES, Page};
use super::rpc::{Failure, Fault};
use super::tools::snapshot;
use super::version::Era;
use crate::shared::Shared;
use serde_json::{Map, Value, json};
use tickstone_query::{Access, listed};

const SCHEMA: &str = "tickstone://schema";
const DOCS: &str = "tickstone://docs/";
const SQL: &str = "application/sql";
const MARKDOWN: &str = "text/markdown";

/// `resources/list`.
pub(super) fn list() -> Value {
    let schema = json!({
        "uri": SCHEMA, "name": "schema", "title": "Schema", "mimeType": SQL,
        "description": "all tables and views, as the statements that make them",
    });
    let page = |page: &Page| {
        json!({
            "uri": format!("{DOCS}{}", page.name), "name": page.name, "title": page.title(), "mimeType": MARKDOWN,
            "description": page.about, "size": page.text.len(),
        })
    };
    let resources: Vec<Value> = [schema].into_iter().chain(PAGES.iter().map(page)).collect();
    json!({ "resources": resources })
}

/// `resources/templates/list`.
pub(super) fn templates() -> Value {
    json!({ "resourceTemplates": [
        {
            "uriTemplate": format!("{SCHEMA}/{{table}}"), "name": "table", "title": "Schema of a table", "mimeType": SQL,
            "description": "a table or view, as the statement that makes it",
        },
        {
            "uriTemplate": format!("{DOCS}{{page}}"), "name": "docs", "title": "SQL reference", "mimeType": MARKDOWN,
            "description": "a page of the SQL reference",
        },
    ]})
}

/// `resources/read`.
///
/// # Errors
/// Where there is no such resource, or the tables cannot be read.
pub(super) async fn read(
    shared: &Shared,
    access: &Access,
    era: Era,
    params: &Map<String, Value>,
) -> Result<Value, Failure> {
    let Some(uri) = params.get("uri").and_then(Value::as_str) else {
        return Err(Failure::new(Fault::WrongParameters, "resources/read has a uri, which is a text"));
    };
    let (kind, text) = match uri.strip_prefix(DOCS) {
        Some(name) => (MARKDOWN, Page::named(name).map(|page| page.text.to_string())),
        None => (SQL, schema(shared, access, uri).await?),
    };
    match text {
        Some(text) => Ok(json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] })),
        None => {
            let fault = match era {
                Era::Handshake => Fault::NoSuchResource,
                Era::Stateless => Fault::WrongParameters,
            };
            Err(Failure::new(fault, "Resource not found").data(json!({ "uri": uri })))
        }
    }
}

/// The statements of all tables, or of one; `None` where there is none of the name.
async fn schema(shared: &Shared, access: &Access, uri: &str) -> Result<Option<String>, Failure> {
    let wanted = match uri.strip_prefix(SCHEMA) {
        Some("") => None,
        Some(rest) => match rest.strip_prefix('/').and_then(unescaped) {
            Some(name) => Some(name),
            None => return Ok(None),
        },
        None => return Ok(None),
    };
    let snapshot = snapshot(shared, access).await;
    let snapshot = snapshot.map_err(|error| Failure::new(Fault::Unread, error.to_string()))?;
    if let Some(name) = wanted {
        return Ok(snapshot.table(&name).map(|table| format!("{};\n", access.ddl_of(table.schema()))));
    }
    let bytes_max = shared.settings.bytes("mcp_answer_bytes_max");
    let (mut text, tables) = (String::new(), listed(&snapshot).count());
    for (place, table) in listed(&snapshot).enumerate() {
        let statement = access.ddl_of(table.schema());
        if text.len() + statement.len() > bytes_max {
            let left = tables - place;
            text += &format!(
                "-- {left} more, past mcp_answer_bytes_max: list_tables names them, {SCHEMA}/{{table}} has one\n"
            );
            break;
        }
        text += &statement;
        text += ";\n\n";
    }
    if text.is_empty() {
        text.push_str("-- there are no tables yet\n");
    }
    Ok(Some(text))
}

/// What `%41` and the like stand for in a part of a URI; `None` where they stand for no text.
fn unescaped(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        (bytes, rest) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok().filter(|_| high.is_ascii_hexdigit())?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                (bytes, after)
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(byte);
                (bytes, after)
            }
        };
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_uris() {
        for (part, wanted) in
            [("trades", "trades"), ("a%20b", "a b"), ("%C3%A9%2f", "é/"), ("é", "é"), ("a+b", "a+b")]
        {
            assert_eq!(unescaped(part).as_deref(), Some(wanted));
        }
        for part in ["", "%", "%4", "%zz", "%+1", "%ff"] {
            assert_eq!(unescaped(part), None, "{part}");
        }
    }
}
