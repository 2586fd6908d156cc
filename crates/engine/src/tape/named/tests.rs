use super::*;
use crate::disk::MemoryDisk;

fn named(first: u64) -> NamedSegment {
    NamedSegment { first, bytes: 100, last: first + 3, began_ns: 1_000, ended_ns: 2_000 }
}

#[test]
fn what_was_saved_is_read_back() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    assert_eq!(TapeManifest::load(disk.as_ref()).unwrap(), None);
    let names = Names::new(&disk, TapeManifest::default(), TapeManifest::default());
    names.begin(NamedSegment::begun(5, 1_000), None).unwrap();
    names.begin(NamedSegment::begun(9, 2_000), Some(named(5))).unwrap();
    let expected =
        TapeManifest { begins: 0, settled: 0, segments: vec![named(5), NamedSegment::begun(9, 2_000)] };
    assert_eq!(TapeManifest::load(disk.as_ref()).unwrap(), Some(expected.clone()));
    assert_eq!(TapeManifest::load_copy(disk.as_ref()).unwrap(), Some(expected));
    names.release(9).unwrap();
    let left = TapeManifest::load(disk.as_ref()).unwrap().unwrap();
    assert_eq!((left.begins, left.segments.len()), (9, 1));
}

#[test]
fn released_and_missing_segments_are_told_apart() {
    let manifest = TapeManifest { begins: 5, settled: 0, segments: vec![named(5), named(9), named(20)] };
    let found = TapeFound::of(Some(manifest), vec![1, 5, 20, 30]);
    assert_eq!((found.released.as_slice(), found.segments.as_slice()), (&[1][..], &[5, 20, 30][..]));
    assert_eq!(found.missing().map(|segment| segment.first).collect::<Vec<_>>(), [9]);
    let error = found.check_complete().unwrap_err().to_string();
    assert!(error.contains("0000000000000009.tape") && error.contains("from position 0x9 to 0xc"), "{error}");
}

#[test]
fn any_flipped_byte_is_an_error() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let names = Names::new(&disk, TapeManifest::default(), TapeManifest::default());
    names.begin(named(7), None).unwrap();
    let path = Path::new(TAPE_MANIFEST);
    let bytes = disk.read(path).unwrap().to_vec();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        disk.remove(path).unwrap();
        disk.create(path).unwrap().append(&flipped).unwrap();
        assert!(TapeManifest::load(disk.as_ref()).is_err(), "byte {at}");
    }
}
