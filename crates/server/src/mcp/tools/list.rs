//! What tools there are, in the words that an assistant chooses by.

use super::arguments::{Argument, Kind};
use serde_json::{Map, Value, json};

/// What a tool does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    ListTables,
    DescribeTable,
    SampleRows,
    Query,
    Explain,
    ListFunctions,
    DescribeFunction,
}

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) work: Work,
    title: &'static str,
    about: &'static str,
    pub(super) arguments: &'static [Argument],
    /// What its answer as JSON has, with the types of JSON.
    gives: &'static [(&'static str, &'static str)],
}

const TABLE: Argument = Argument {
    name: "table",
    kind: Kind::Text,
    is_required: true,
    about: "name of the table or view, as list_tables gives it",
};

const TIMEOUT: Argument = Argument {
    name: "timeout_seconds",
    kind: Kind::Count,
    is_required: false,
    about: "give up after so many seconds; no more than the server allows (mcp_timeout, 30 s unless set)",
};

const STATEMENT: &str = "one SQL statement that reads: SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN";

const ROWS: &[(&str, &str)] =
    &[("columns", "array"), ("rows", "array"), ("row_count", "integer"), ("truncated", "boolean")];

/// All tools.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "list_tables",
        work: Work::ListTables,
        title: "List tables",
        about: "Lists the tables and views: how many rows, the first and last time, the designated timestamp, the series \
                key (which instrument a row belongs to) and how they are partitioned. Begin here.",
        arguments: &[Argument {
            name: "pattern",
            kind: Kind::Text,
            is_required: false,
            about: "only those whose name has this text in it, in any case",
        }],
        gives: &[("tables", "array"), ("truncated", "boolean")],
    },
    Tool {
        name: "describe_table",
        work: Work::DescribeTable,
        title: "Describe a table",
        about: "Says what a table or view is: columns with types, the statement that makes it, rows, first and last time, \
                its newest partitions, how many symbols each SYMBOL column has and some of them, and its newest rows.",
        arguments: &[TABLE],
        gives: &[("table", "string"), ("kind", "string"), ("statement", "string"), ("columns", "array")],
    },
    Tool {
        name: "sample_rows",
        work: Work::SampleRows,
        title: "Sample rows",
        about: "Gives some rows of a table or view as they are stored, the newest first unless told otherwise.",
        arguments: &[
            TABLE,
            Argument {
                name: "count",
                kind: Kind::Count,
                is_required: false,
                about: "how many rows; 10 unless given",
            },
            Argument {
                name: "order",
                kind: Kind::Choice(&["newest", "oldest"]),
                is_required: false,
                about: "which rows, by the designated timestamp; a view or a table without one gives any",
            },
        ],
        gives: ROWS,
    },
    Tool {
        name: "query",
        work: Work::Query,
        title: "Query",
        about: "Carries out one SQL statement that reads and gives its rows. Only reading statements are carried out. \
                Answers are cut to a number of rows: aggregate in SQL (SAMPLE BY, GROUP BY) instead of fetching rows to \
                compute with. Filter large tables by the designated timestamp and the series key. Names are \
                case-insensitive; texts stand in single quotes. describe_function has the time-series clauses with examples.",
        arguments: &[
            Argument { name: "sql", kind: Kind::Text, is_required: true, about: STATEMENT },
            Argument {
                name: "limit",
                kind: Kind::Count,
                is_required: false,
                about: "most rows to give; 100 unless given, no more than the server allows (mcp_rows_max, 1000 unless set)",
            },
            TIMEOUT,
            Argument {
                name: "format",
                kind: Kind::Choice(&["table", "json"]),
                is_required: false,
                about: "how the rows stand in the text of the answer: a Markdown table (as usual), or JSON",
            },
        ],
        gives: ROWS,
    },
    Tool {
        name: "explain",
        work: Work::Explain,
        title: "Explain",
        about: "Shows how a query would run and what it would read, without running it; with analyze it runs, and each \
                step says what it did. Use it before a query of a large table, or where one is slow.",
        arguments: &[
            Argument {
                name: "sql",
                kind: Kind::Text,
                is_required: true,
                about: "the query: SELECT, WITH, VALUES",
            },
            Argument {
                name: "analyze",
                kind: Kind::Switch,
                is_required: false,
                about: "run the query and show what each step did",
            },
            TIMEOUT,
        ],
        gives: &[("plan", "object")],
    },
    Tool {
        name: "list_functions",
        work: Work::ListFunctions,
        title: "List functions",
        about: "Lists the functions of SQL with their arguments and what they do, and the clauses and joins for time series.",
        arguments: &[
            Argument {
                name: "pattern",
                kind: Kind::Text,
                is_required: false,
                about: "only those whose name or description has this text in it, in any case",
            },
            Argument {
                name: "kind",
                kind: Kind::Choice(&["scalar", "aggregate", "window", "clause"]),
                is_required: false,
                about: "only those of this kind",
            },
        ],
        gives: &[("functions", "array"), ("truncated", "boolean")],
    },
    Tool {
        name: "describe_function",
        work: Work::DescribeFunction,
        title: "Describe a function or clause",
        about: "Explains a function of SQL, or a clause or join for time series (SAMPLE BY, LATEST ON, ASOF JOIN, WINDOW \
                JOIN, HORIZON JOIN, TIME FILTERS, NBBO, PIVOT, …), from the SQL reference, with examples.",
        arguments: &[Argument {
            name: "name",
            kind: Kind::Text,
            is_required: true,
            about: "a name of list_functions: 'vwap', 'SAMPLE BY'",
        }],
        gives: &[("name", "string"), ("kind", "string"), ("documentation", "string"), ("examples", "array")],
    },
];

impl Tool {
    /// The tool as `tools/list` has it.
    pub(super) fn described(&self) -> Value {
        let properties: Map<String, Value> =
            self.arguments.iter().map(|argument| (argument.name.to_string(), argument.schema())).collect();
        let required: Vec<&str> = self
            .arguments
            .iter()
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name)
            .collect();
        let gives: Map<String, Value> =
            self.gives.iter().map(|(name, kind)| (name.to_string(), json!({ "type": kind }))).collect();
        let given: Vec<&str> = self.gives.iter().map(|(name, _)| *name).collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            },
            "outputSchema": { "type": "object", "properties": gives, "required": given },
            "annotations": {
                "title": self.title, "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
                "openWorldHint": false,
            },
        })
    }
}
