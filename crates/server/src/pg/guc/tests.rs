use super::*;

#[test]
fn settings_of_clients() {
    let startup = [
        ("user", "admin"),
        ("options", "-c statement_timeout=5s --DateStyle=ISO"),
        ("TimeZone", "Europe/Berlin"),
    ];
    let mut guc = Guc::of_startup(startup.into_iter(), None).unwrap();
    assert_eq!(guc.statement_timeout(), Some(Duration::from_secs(5)));
    assert_eq!(guc.get("session_authorization"), Some("admin"));
    assert_eq!(guc.get("timezone"), Some("Europe/Berlin"));
    guc.set("Statement_Timeout", "0").unwrap();
    assert_eq!(guc.statement_timeout(), None);
    guc.set("statement_timeout", "DEFAULT").unwrap();
    assert_eq!(guc.statement_timeout(), Some(Duration::from_secs(5)));
    assert!(guc.set("client_encoding", "latin1").is_err());
    assert!(guc.set("datestyle", "German").is_err());
    assert!(guc.set("server_version", "16").is_err());
    assert!(guc.set("nothing", "1").is_err());
    assert!(guc.told().any(|(name, value)| name == "TimeZone" && value == "Europe/Berlin"));
}

#[test]
fn what_a_client_begins_with_is_known() {
    let begin = |name: &str, value: &str| {
        let found = Guc::of_startup([("user", "admin"), (name, value)].into_iter(), None);
        found.map(|guc| format!("{:?} {:?}", guc.get("search_path"), guc.get(DEFAULT_READ_ONLY)))
    };
    for (name, value) in [
        ("options", "-c nosuch=1"),
        ("nosuch", "1"),
        ("options", "--nosuch=1"),
        ("options", "-c"),
        ("options", "-e"),
        ("options", "-c server_version=16"),
        ("options", "-c timezone=Nosuch/Zone"),
        ("TimeZone", "Nosuch/Zone"),
        ("options", "-c default_transaction_read_only=perhaps"),
        ("replication", "database"),
    ] {
        assert!(begin(name, value).is_err(), "{name} {value}");
    }
    for (name, value, wanted) in [
        ("options", "-c search_path=a\\ b", "Some(\"a b\") Some(\"off\")"),
        ("options", " -csearch_path=a  --default-transaction-read-only=TRUE ", "Some(\"a\") Some(\"on\")"),
        ("my.own", "1", "Some(\"\\\"$user\\\", public\") Some(\"off\")"),
        ("replication", "false", "Some(\"\\\"$user\\\", public\") Some(\"off\")"),
    ] {
        assert_eq!(begin(name, value).ok().as_deref(), Some(wanted), "{name} {value}");
    }
}
