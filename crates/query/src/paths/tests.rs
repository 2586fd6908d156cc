//! Which paths are let through, and what patterns find.

use super::*;

fn below(directory: &Path) -> Allowed {
    Allowed::Below(directory.to_path_buf())
}

fn names(files: &[DataFile], root: &Path) -> Vec<String> {
    let root = root.canonicalize().unwrap();
    let name = |file: &DataFile| {
        let path = file.path.canonicalize().unwrap();
        path.strip_prefix(&root).unwrap().to_string_lossy().into_owned()
    };
    files.iter().map(name).collect()
}

#[test]
fn only_plain_files() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    std::fs::write(at("a.csv"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("fifo.csv")).status().unwrap();
    assert!(made.success());
    for name in ["a.csv", "new.csv", "."] {
        assert!(is_plain(&at(name)), "{name}");
    }
    for name in ["fifo.csv", "socket"] {
        assert!(!is_plain(&at(name)), "{name}");
        let error = below(temp.path()).place(name).unwrap_err().to_string();
        assert!(error.contains(&format!("'{name}' is a pipe")), "{error}");
    }
    assert!(!is_plain(Path::new("/dev/zero")));
    // Patterns and folders pass over what is no file.
    assert_eq!(names(&below(temp.path()).found(&["*"]).unwrap(), temp.path()), ["a.csv"]);
    assert_eq!(names(&below(temp.path()).found(&["."]).unwrap(), temp.path()), ["a.csv"]);
}

#[test]
fn only_what_lies_in_the_directory() {
    let temp = tempfile::tempdir().unwrap();
    let allowed = temp.path().join("allowed");
    std::fs::create_dir_all(allowed.join("sub")).unwrap();
    std::fs::write(temp.path().join("secret.csv"), "x").unwrap();
    std::os::unix::fs::symlink(temp.path(), allowed.join("out")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("nowhere"), allowed.join("dangling")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("secret.csv"), allowed.join("sub/link.csv")).unwrap();
    let real = allowed.canonicalize().unwrap();
    for path in ["a.csv", "sub/b.csv", "new/c.csv", "*.csv"] {
        assert_eq!(below(&allowed).place(path).unwrap(), real.join(path), "{path}");
        let absolute = allowed.join(path).display().to_string();
        assert_eq!(below(&allowed).place(&absolute).unwrap(), real.join(path), "{absolute}");
    }
    for path in [
        "",
        "..",
        "../secret.csv",
        "sub/../../secret.csv",
        "/etc/passwd",
        "out/secret.csv",
        "out",
        "out/new",
        "dangling",
        "/etc/*",
        "../*",
        "out/*",
        "sub/*",
        "**/*",
        ".",
    ] {
        let found = below(&allowed).found(&[path]);
        assert!(found.is_err(), "{path}: {found:?}");
    }
    std::fs::write(allowed.join("sub/b.csv"), "x").unwrap();
    // Also what is of the directory, not of the process.
    for (path, several) in [("sub", true), ("sub/*", true), ("sub/b.csv", false), ("nothing.csv", false)] {
        assert_eq!(below(&allowed).is_several(Path::new(path)).unwrap(), several, "{path}");
    }
    assert_eq!(names(&below(&allowed).found(&["sub/b*"]).unwrap(), &allowed), ["sub/b.csv"]);
    for path in ["a.csv", "*", "/etc/passwd"] {
        assert!(Allowed::Nothing.found(&[path]).is_err(), "{path}");
        assert!(Allowed::Nothing.place(path).is_err(), "{path}");
    }
}

#[test]
fn patterns_and_folders() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().to_str().unwrap();
    for path in [
        "b.csv",
        "a.csv.gz",
        "n.txt.zst",
        "x.bin",
        ".hidden.csv",
        "d/c.csv",
        "d/e/f.parquet",
        "we[i]rd*.csv",
        "we1rd.csv",
    ] {
        let path = temp.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let found = |pattern: &str| {
        Allowed::All.found(&[format!("{root}/{pattern}")]).map(|files| names(&files, temp.path()))
    };
    assert_eq!(found("*.csv").unwrap(), ["b.csv", "we1rd.csv", "we[i]rd*.csv"]);
    assert_eq!(found("?.csv").unwrap(), ["b.csv"]);
    assert_eq!(found("**/*.csv").unwrap(), ["b.csv", "d/c.csv", "we1rd.csv", "we[i]rd*.csv"]);
    assert_eq!(found("d/**").unwrap(), ["d/c.csv", "d/e/f.parquet"]);
    assert_eq!(found("[ab].csv*").unwrap(), ["a.csv.gz", "b.csv"]);
    // A file that is there by the very name is that file.
    assert_eq!(found("we[i]rd*.csv").unwrap(), ["we[i]rd*.csv"]);
    assert_eq!(
        found("").unwrap(),
        ["a.csv.gz", "b.csv", "d/c.csv", "d/e/f.parquet", "n.txt.zst", "we1rd.csv", "we[i]rd*.csv"]
    );
    assert_eq!(found("d/").unwrap(), found("d").unwrap());
    for (pattern, what) in
        [("*.nothing", "no file matches"), ("d/***", "is no pattern"), ("[a", "is no pattern")]
    {
        let error = found(pattern).unwrap_err().to_string();
        assert!(error.contains(what), "{pattern}: {error}");
    }
    let empty = temp.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(found("empty").unwrap_err().to_string().contains("has no file of rows"));
    // As often as it is named, but once by a pattern, whatever links there are.
    let twice = [format!("{root}/b.csv"), format!("{root}/*.csv")];
    assert_eq!(names(&Allowed::All.found(&twice).unwrap(), temp.path()).len(), 4);
    std::os::unix::fs::symlink(temp.path(), temp.path().join("d/up")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("b.csv"), temp.path().join("c.csv")).unwrap();
    assert_eq!(found("**/*.csv").unwrap().len(), 4);
    assert_eq!(found("d/*.csv").unwrap(), ["d/c.csv"]);
    let missing = found("nothing/").unwrap_err().to_string();
    assert!(missing.contains("there is no folder"), "{missing}");
    let error = Allowed::All.found(&["s3://bucket/x.parquet"]).unwrap_err().to_string();
    assert!(error.contains("is an address"), "{error}");
}

#[test]
fn keys_of_folders() {
    let at = |path: &str| DataFile::at(PathBuf::from(path));
    let pairs = |file: &DataFile| {
        let shown =
            |(key, value): &(String, Option<String>)| format!("{key}={}", value.as_deref().unwrap_or("NULL"));
        file.keys.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(pairs(&at("d/symbol=BTC%2FUSD/year=2024/x=1.csv")), ["symbol=BTC/USD", "year=2024"]);
    assert_eq!(pairs(&at("a=1/A=2/=3/b=/x.csv")), ["A=2", "b="]);
    assert_eq!(
        pairs(&at("a%2Fb=__HIVE_DEFAULT_PARTITION__/c=%5F_HIVE_DEFAULT_PARTITION__/x.csv")),
        ["a/b=NULL", "c=__HIVE_DEFAULT_PARTITION__"]
    );
    let types = |paths: &[&str]| {
        let files: Vec<DataFile> = paths.iter().map(|path| at(path)).collect();
        key_columns(&files, true)
            .unwrap()
            .into_iter()
            .map(|key| key.column_type.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&["d=2024-11-04/n=1/s=a/x", "d=2024-11-05/n=-7/s=1/x"]), ["DATE", "BIGINT", "SYMBOL"]);
    // What would not be written so again is text.
    assert_eq!(types(&["code=000001/x", "code=600519/x"]), ["SYMBOL"]);
    assert_eq!(types(&["code=+1/x"]), ["SYMBOL"]);
    assert_eq!(types(&["d=2024-11-04/x", "d=__HIVE_DEFAULT_PARTITION__/x"]), ["DATE"]);
    assert_eq!(types(&["d=2024-13-04/x"]), ["SYMBOL"]);
    assert_eq!(types(&["d=__HIVE_DEFAULT_PARTITION__/x"]), ["SYMBOL"]);
    let different = [at("a=1/x"), at("b=1/x")];
    assert!(key_columns(&different, true).is_err());
    assert!(key_columns(&different, false).unwrap().is_empty());
}
