//! The description at `/openapi.json` against the routes.

use super::{At, DESCRIPTION, ROUTES};
use serde_json::Value;
use std::collections::BTreeSet;

type Names<'a> = BTreeSet<&'a str>;

fn description() -> Value {
    serde_json::from_str(DESCRIPTION).expect("it is JSON")
}

/// The parameters of an operation, those that it refers to too.
fn parameters<'a>(description: &'a Value, operation: &'a Value) -> Names<'a> {
    let own = operation["parameters"].as_array().into_iter().flatten();
    let name = |parameter: &'a Value| match parameter["$ref"].as_str() {
        Some(target) => description.pointer(&target[1..]).and_then(|found| found["name"].as_str()),
        None => parameter["name"].as_str(),
    };
    own.map(|parameter| name(parameter).expect("a parameter has a name")).collect()
}

#[test]
fn each_route_is_described_and_the_reverse() {
    let description = description();
    let paths = description["paths"].as_object().expect("paths");
    let described: Names<'_> = paths.keys().map(String::as_str).collect();
    let served: Names<'_> = ROUTES.iter().map(|route| route.path).collect();
    assert_eq!(described, served);
    for (path, item) in paths {
        let routes = || ROUTES.iter().filter(|route| route.path == path);
        let methods: Names<'_> = routes().flat_map(|route| route.methods).copied().collect();
        let has = |key: &&str| !["servers", "parameters", "summary"].contains(key);
        let described: Names<'_> =
            item.as_object().expect("an item").keys().map(String::as_str).filter(has).collect();
        assert_eq!(described, methods, "{path}");
        let words: Names<'_> = routes().flat_map(|route| route.words).copied().collect();
        for method in methods {
            assert_eq!(parameters(&description, &item[method]), words, "{method} {path}");
        }
        let servers = item["servers"].as_array().into_iter().flatten();
        let ports: Names<'_> =
            servers.filter_map(|server| server["url"].as_str()?.rsplit(':').next()).collect();
        let at = |port: At| routes().any(|route| route.at == port || route.at == At::Both);
        let wanted = [("9000", At::Rest), ("8086", At::Influx)];
        let wanted: Names<'_> =
            wanted.into_iter().filter(|(_, port)| at(*port)).map(|(port, _)| port).collect();
        assert_eq!(ports, wanted, "{path}");
    }
    assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn references_lead_somewhere() {
    fn walk(description: &Value, at: &Value) {
        match at {
            Value::Object(members) => {
                if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                    assert!(description.pointer(&target[1..]).is_some(), "{target}");
                }
                members.values().for_each(|member| walk(description, member));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(description, item)),
            _ => {}
        }
    }
    walk(&description(), &description());
}
