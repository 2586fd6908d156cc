//! Tools about SQL itself: functions by the database's own list, clauses and examples by the SQL reference.

use super::{Call, Limits, Told, statements};
use crate::mcp::docs::{PAGES, Page};
use serde_json::{Value, json};
use tickstone_query::QueryError;

/// Examples of a function.
const EXAMPLES: usize = 3;

/// `list_functions`.
pub(super) async fn list(call: &Call<'_>) -> Result<Told, QueryError> {
    let kind = call.arguments.text("kind");
    let clauses = PAGES.iter().flat_map(|page| page.topics.iter().map(|topic| (topic, page.about)));
    let mut all: Vec<Value> = clauses
        .map(|(topic, about)| json!({ "function": topic, "kind": "clause", "description": about }))
        .collect();
    all.extend(functions(call).await?);
    all.retain(|function| {
        let text = |name: &str| function[name].as_str().unwrap_or_default();
        kind.is_none_or(|kind| text("kind") == kind)
            && call.arguments.matches(&[text("function"), text("description")])
    });
    let count = all.len();
    let mut text = String::new();
    let mut fitting = 0;
    for function in &all {
        let line = line(function);
        if text.len() + line.len() > call.limits.bytes {
            break;
        }
        text += &line;
        fitting += 1;
    }
    all.truncate(fitting);
    let left = count - fitting;
    if left > 0 {
        text += &format!("Cut: there are {left} more; give a pattern or a kind.\n");
    } else if count == 0 {
        text = "No function or clause is like this.".into();
    }
    Ok(Told { text, data: json!({ "functions": all, "truncated": left > 0 }) })
}

/// A function in one line.
fn line(function: &Value) -> String {
    let text = |name: &str| function[name].as_str().unwrap_or_default();
    let about = match text("description") {
        "" => String::new(),
        about => format!(": {about}"),
    };
    format!("{}{} ({}){about}\n", text("function"), text("arguments"), text("kind"))
}

/// The functions that the database has, each an object; those that only drivers of PostgreSQL call are left out.
async fn functions(call: &Call<'_>) -> Result<Vec<Value>, QueryError> {
    let limits = Limits { rows: usize::MAX, bytes: usize::MAX, ..call.limits };
    let mut all = statements::own_rows(call, "SHOW FUNCTIONS", limits).await?.objects();
    all.retain(|function| !function["function"].as_str().is_some_and(|name| name.starts_with("pg_")));
    all.iter_mut().filter(|function| function["description"].is_null()).for_each(document);
    Ok(all)
}

/// Adds what the SQL reference says of a function, where it does: `| `name(arguments)` | what it gives |`.
fn document(function: &mut Value) {
    let Some(name) = function["function"].as_str().map(str::to_string) else { return };
    let Some(line) = PAGES.iter().flat_map(|page| mentions(page, &name)).next() else { return };
    let Some((calls, about)) = line.trim_matches(['|', ' ']).split_once(" | ") else { return };
    let arguments = calls.split_once(&format!("`{name}")).and_then(|(_, rest)| rest.split('`').next());
    function["arguments"] = json!(arguments);
    function["description"] = json!(about);
}

/// `describe_function`.
pub(super) async fn describe(call: &Call<'_>) -> Result<Told, QueryError> {
    let asked = call.arguments.text("name").unwrap_or_default().trim();
    let asked = asked.strip_suffix("()").unwrap_or(asked);
    if let Some(page) = Page::about(asked) {
        let examples: Vec<&str> = page.examples().collect();
        let data =
            json!({ "name": asked, "kind": "clause", "documentation": page.text, "examples": examples });
        return Ok(Told { text: page.text.to_string(), data });
    }
    let name = asked.to_lowercase();
    let all = functions(call).await?;
    let own = |function: &&Value| function["function"].as_str() == Some(name.as_str());
    let found: Vec<&Value> = all.iter().filter(own).collect();
    let Some(first) = found.first() else { return Err(unknown(asked, &all)) };
    let facts: String = found.iter().map(|function| line(function)).collect();
    let lines: Vec<&str> = PAGES.iter().flat_map(|page| mentions(page, &name)).collect();
    let documentation = format!("{facts}\n{}", lines.join("\n")).trim().to_string();
    let calls = |sql: &&str| is_called(sql, &name);
    let examples: Vec<&str> = PAGES.iter().flat_map(Page::examples).filter(calls).take(EXAMPLES).collect();
    let shown: Vec<String> = examples.iter().map(|sql| format!("```sql\n{sql}\n```")).collect();
    let text = format!("{documentation}\n\n{}", shown.join("\n\n")).trim().to_string();
    let mut data = (*first).clone();
    data["name"] = json!(name);
    data["documentation"] = json!(documentation);
    data["examples"] = json!(examples);
    Ok(Told { text, data })
}

/// The lines of a page's tables that say what a function does.
fn mentions<'a>(page: &'a Page, name: &str) -> impl Iterator<Item = &'a str> {
    let sign = format!("`{name}(");
    page.text.lines().filter(move |line| line.starts_with('|') && line.contains(&sign))
}

/// Whether a text of SQL calls a function.
fn is_called(sql: &str, name: &str) -> bool {
    let sql = sql.to_lowercase();
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    sql.match_indices(&format!("{name}(")).any(|(at, _)| !sql[..at].ends_with(in_name))
}

fn unknown(asked: &str, all: &[Value]) -> QueryError {
    let name = asked.to_lowercase();
    let is_near =
        |other: &&str| name.len() > 2 && (other.contains(&name) || name.contains(*other) && other.len() > 2);
    let names = all.iter().filter_map(|function| function["function"].as_str());
    let near: Vec<&str> = names.filter(is_near).take(8).collect();
    let error = QueryError::request(format!("there is no function or clause '{asked}'"));
    error.hint(match near.is_empty() {
        true => "list_functions lists them, by a pattern where one is given".to_string(),
        false => format!("there are {}; list_functions lists all", near.join(", ")),
    })
}
