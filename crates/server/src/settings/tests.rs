use super::*;

#[test]
fn every_default_can_be() {
    for setting in SETTINGS {
        check(setting, setting.default).unwrap_or_else(|error| panic!("{}: {error}", setting.name));
        assert!(!setting.about.is_empty());
    }
}

#[test]
fn the_stronger_one_says() {
    let mut settings = Settings::default();
    settings.set("http_port", "1", Origin::Flag).expect("a port");
    settings
        .read_environment(|name| match name {
            "TICKSTONE_HTTP_PORT" => Some("2".into()),
            "TICKSTONE_ILP_PORT" => Some("off".into()),
            _ => None,
        })
        .expect("ports");
    settings
        .read_file("http_port = 3\nilp_port = 4\ninsecure = true\nstatement_timeout = \"5s\"")
        .expect("a file");
    assert_eq!((settings.port("http_port"), settings.port("ilp_port")), (Some(1), None));
    assert_eq!(settings.text("insecure"), "true");
    assert_eq!(settings.time("statement_timeout"), Some(Duration::from_secs(5)));
    assert_eq!(settings.time("slow_statement"), Some(Duration::from_secs(1)));
    let origins: Vec<_> = settings.all().map(|(setting, _, origin)| (setting.name, origin)).collect();
    assert!(origins.contains(&("http_port", Origin::Flag)));
    assert!(origins.contains(&("ilp_port", Origin::Environment)));
    assert!(origins.contains(&("insecure", Origin::File)));
    assert!(origins.contains(&("host", Origin::Default)));
}

#[test]
fn what_cannot_be_is_told() {
    let refused = |name: &str, value: &str| {
        Settings::default().set(name, value, Origin::Flag).expect_err("it cannot be").to_string()
    };
    assert_eq!(refused("port", "1"), "there is no setting 'port'; did you mean 'http_port'?");
    assert_eq!(refused("xyz", "1"), "there is no setting 'xyz'");
    assert_eq!(
        refused("http_port", "70000"),
        "http_port = '70000' cannot be: it wants the number of a port, or off"
    );
    assert_eq!(
        refused("insecure", "yes"),
        "insecure = 'yes' cannot be: it wants false, users, tls, or true for both"
    );
    assert_eq!(
        refused("request_bytes_max", "many"),
        "request_bytes_max = 'many' cannot be: it wants a size, as in 64MB"
    );
    assert_eq!(
        refused("idle_timeout", "3"),
        "idle_timeout = '3' cannot be: it wants a time, as in 1ms or 30s"
    );
    assert_eq!(refused("log_format", "xml"), "log_format = 'xml' cannot be: it wants text or json");
    assert_eq!(
        refused("connections_max", "0"),
        "connections_max = '0' cannot be: it wants a whole number from 1"
    );
    let file = |text: &str| Settings::default().read_file(text).expect_err("it cannot be").to_string();
    assert_eq!(
        refused("host", "example.org"),
        "host = 'example.org' cannot be: it wants an address, as in 127.0.0.1 or 0.0.0.0, or localhost"
    );
    assert_eq!(
        refused("files", "/nosuch"),
        "files = '/nosuch' cannot be: it wants a directory that is there"
    );
    assert!(file("http_port = ").contains("line 1"), "{}", file("http_port = "));
    assert_eq!(file("[http]\nport = 1"), "'http' is no setting: write name = value");
}

#[test]
fn localhost_is_an_address() {
    for (host, wanted) in [("localhost", "127.0.0.1"), ("LocalHost", "127.0.0.1"), ("::1", "::1")] {
        let mut settings = Settings::default();
        settings.set("host", host, Origin::Flag).expect("an address");
        assert_eq!(settings.host().map(|host| host.to_string()).as_deref(), Some(wanted));
    }
}

#[test]
fn variables_that_are_no_settings() {
    for name in ["TICKSTONE_NOSUCH", "TICKSTONE_http_port", "TICKSTONE_", "TICKSTONE_SERVICE_HOST"] {
        assert!(is_no_setting(name), "{name}");
    }
    for name in ["TICKSTONE_HTTP_PORT", "TICKSTONE_FILES", "TICKSTONE", "PATH"] {
        assert!(!is_no_setting(name), "{name}");
    }
}

#[test]
fn sizes_and_times() {
    assert_eq!(parse_bytes("64MB"), Some(64 << 20));
    assert_eq!(parse_bytes("1 GiB"), Some(1 << 30));
    assert_eq!(parse_bytes("512"), Some(512));
    assert_eq!(parse_bytes("64 apples"), None);
    assert_eq!(parse_bytes("99999999999GB"), None);
    assert_eq!(parse_time("500us"), Some(Duration::from_micros(500)));
    assert_eq!(parse_time("1h"), Some(Duration::from_secs(3600)));
    assert_eq!(parse_time("0"), Some(Duration::ZERO));
    assert_eq!(parse_time("5"), None);
    assert_eq!(parse_time("99999999999999999999s"), None);
}

/// The table of settings in the docs is that of the code.
#[test]
fn the_docs_have_every_setting() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server/README.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once("writes them -->\n").expect("where the table begins");
    let (table, after) = rest.split_once("<!-- end of settings -->").expect("where it ends");
    let mut wanted = String::from("| setting | default | what it is |\n|---|---|---|\n");
    for setting in SETTINGS {
        wanted.push_str(&format!("| `{}` | `{}` | {} |\n", setting.name, setting.default, setting.about));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{before}writes them -->\n{wanted}<!-- end of settings -->{after}");
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    assert_eq!(table, wanted, "run it with UPDATE_DOCS=1");
}
