use super::*;
use crate::disk::MemoryDisk;

fn write(disk: &dyn Disk, path: &str, text: &str) {
    disk.create(Path::new(path)).unwrap().append(text.as_bytes()).unwrap();
}

fn text(disk: &dyn Disk, path: &str) -> Option<String> {
    disk.read(Path::new(path)).ok().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn names(disk: &dyn Disk, dir: &str) -> Vec<String> {
    disk.list(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The disk right after `SWITCH` got its name.
fn under_way() -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (path, was) in
        [("tape/1", "old"), ("tape/2", "old"), ("tables/1/manifest", "old"), ("tables/2/x", "old")]
    {
        write(&disk, path, was);
    }
    let mut switch = Switch::begin(&disk).unwrap();
    for path in ["tape/2", "tape/3", "tables/3/manifest"] {
        switch.stage(&disk, Path::new(path), b"new").unwrap();
    }
    switch.remove("tape/1".into());
    switch.remove("tables/2".into());
    replace_file(&disk, Path::new(SWITCH_FILE), switch.encode()).unwrap();
    disk
}

fn check_new(disk: &dyn Disk) {
    assert_eq!(names(disk, "tape"), ["2", "3"]);
    assert_eq!(names(disk, "tables"), ["1", "3"]);
    assert_eq!(text(disk, "tape/1"), None);
    assert_eq!(text(disk, "tables/2/x"), None);
    assert_eq!(text(disk, "tables/1/manifest").unwrap(), "old");
    for path in ["tape/2", "tape/3", "tables/3/manifest"] {
        assert_eq!(text(disk, path).unwrap(), "new", "{path}");
    }
}

#[test]
fn a_reader_sees_the_new_files_before_and_after_each_rename() {
    for renamed in 0..=3 {
        let disk = under_way();
        for path in ["tape/2", "tape/3", "tables/3/manifest"].iter().take(renamed) {
            disk.rename(&staged(Path::new(path)), Path::new(path)).unwrap();
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        check_new(settled(&shared).unwrap().as_ref());
        finish(&disk).unwrap();
        check_new(&disk);
        assert_eq!(names(&disk, ""), ["tables", "tape"]);
    }
}

#[test]
fn what_was_staged_without_a_switch_is_not_there() {
    let disk = under_way();
    disk.remove(Path::new(SWITCH_FILE)).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(text(settled(&shared).unwrap().as_ref(), "tape/2").unwrap(), "old");
    finish(&disk).unwrap();
    assert_eq!(names(&disk, "tape"), ["1", "2"]);
}
