//! Tests of stores: they are kept, repaired or refused.

use super::*;

fn record(key: &str, replica: u32) -> RunRecord {
    let result = RunResult {
        name: "test".into(),
        seed: 1,
        replica,
        sim_s: 1.0,
        wall_s: 0.1,
        events: 7,
        flows: Vec::new(),
        gateways: Vec::new(),
        links: Vec::new(),
        jain: None,
    };
    RunRecord { key: key.into(), result, deterministic: false, watched: None }
}

#[test]
fn another_experiment_gets_another_folder() {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().join("sweep-x.y");
    let numbered = |n: u32| root.path().join(format!("sweep-x.y-{n}"));
    let take = |name: &str| {
        let identity = Identity::new([name], 1);
        let folder = folder_of(&base, &identity);
        let store = Store::open(&folder).unwrap();
        store.write(IDENTITY, format!("{identity}\n").as_bytes()).unwrap();
        folder
    };
    assert_eq!(take("one"), base);
    assert_eq!(take("two"), numbered(2));
    assert_eq!([take("one"), take("two"), take("three")], [base.clone(), numbered(2), numbered(3)]);
    // Foreign folders, and results without an identity, do not change.
    fs::remove_file(numbered(2).join(IDENTITY)).unwrap();
    assert_eq!(take("two"), numbered(4));
    fs::create_dir(numbered(5)).unwrap();
    assert_eq!(take("four"), numbered(5), "nothing is in it");
}

/// Creates a folder with the runs `a`, `b` and `c`.
fn three_runs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    for (i, key) in ["a", "b", "c"].into_iter().enumerate() {
        store.append(&record(key, i as u32)).unwrap();
    }
    folder
}

#[test]
fn incomplete_last_line_is_cut_off() {
    let folder = three_runs();
    let path = folder.path().join(RUNS);
    let text = fs::read(&path).unwrap();
    for cut in 1..=text.len() {
        fs::write(&path, &text[..cut]).unwrap();
        let complete = text[..cut].iter().filter(|b| **b == b'\n').count().saturating_sub(1);
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.damage()), (complete, None), "cut at {cut}");
        store.append(&record("d", 9)).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.len(), complete + 1);
        assert_eq!(store.get("d").unwrap(), Some(record("d", 9)));
    }
}

#[test]
fn damaged_line_is_set_aside_and_reported() {
    let folder = three_runs();
    let path = folder.path().join(RUNS);
    let text = fs::read_to_string(&path).unwrap();
    let flipped = text.replacen("\"replica\":1", "\"replica\":3", 1);
    let line = flipped.lines().nth(2).unwrap();
    fs::write(&path, &flipped).unwrap();
    for n in 1..=2 {
        let mut store = Store::open(folder.path()).unwrap();
        let said = store.damage().unwrap().to_string();
        assert!(said.contains("runs.jsonl: wrong checksum in line 3: moved to"), "{said}");
        assert!(said.contains("runs.damaged.jsonl"), "{said}");
        assert_eq!(store.len(), 2);
        assert!(!store.contains("b") && store.get("c").unwrap() == Some(record("c", 2)));
        let aside = fs::read_to_string(folder.path().join(DAMAGED)).unwrap();
        assert_eq!(aside, format!("{line}\n").repeat(n), "earlier lines are kept");
        // The store is intact after the run was repeated.
        store.append(&record("b", 1)).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.damage()), (3, None));
        assert_eq!(store.get("b").unwrap(), Some(record("b", 1)));
        fs::write(&path, &flipped).unwrap();
    }
}

/// Damaged lines are not kept in memory, and one that is too long is not read.
#[test]
fn many_damaged_lines_are_set_aside_and_long_ones_refused() {
    let folder = three_runs();
    let path = folder.path().join(RUNS);
    let sound = fs::read(&path).unwrap();
    let one = [sound.clone(), b"\n".repeat(100_000), sound[HEADER.len()..].to_vec()].concat();
    fs::write(&path, &one).unwrap();
    let mut expected: Vec<_> = (5..15).map(|n| n.to_string()).collect();
    expected[9] += " and 99990 more";
    let store = Store::open(folder.path()).unwrap();
    assert!(store.damage().unwrap().to_string().contains(&expected.join(", ")));
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), [&sound, &sound[HEADER.len()..]].concat());
    assert_eq!(fs::read(folder.path().join(DAMAGED)).unwrap().len(), 100_000);
    // A line that is too long is refused: here a hole in the file.
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&sound).unwrap();
    file.set_len(sound.len() as u64 + 2 * disk::MAX_WHOLE_SIZE).unwrap();
    let error = StoreContent::read(&fs::File::open(&path).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "line 5 has more than 256000000 bytes");
}

#[test]
fn a_store_without_checksums_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = ["a", "b"].iter().map(|k| serde_json::to_string(&record(k, 0)).unwrap() + "\n").collect();
    fs::write(folder.path().join(RUNS), &lines).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let damage = store.damage().unwrap();
    assert!(damage.unchecked && damage.to_string().contains("an earlier version wrote it"), "{damage}");
    assert!(store.is_empty());
    assert_eq!(fs::read_to_string(folder.path().join(DAMAGED)).unwrap(), lines);
    drop(store);
    assert_eq!(Store::open(folder.path()).unwrap().damage(), None);
}

/// The file name is also used by other programs.
#[test]
fn a_store_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RUNS);
    for text in ["{\"loss\":0.3}\n{\"loss\":0.2}\n", "years of work", "\n"] {
        fs::write(&path, text).unwrap();
        match Store::open(folder.path()) {
            Err(LabError::Foreign { example, .. }) => assert_eq!(example, RUNS),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let root = tempfile::tempdir().unwrap();
    let thesis = root.path().join("thesis.tex");
    fs::write(&thesis, "years of work").unwrap();
    for (name, refused) in [(RUNS, true), (LOCK, true), (DAMAGED, false), (IDENTITY, false)] {
        let folder = root.path().join(name);
        if refused {
            fs::create_dir(&folder).unwrap();
            symlink(&thesis, folder.join(name)).unwrap();
            match Store::open(&folder) {
                Err(LabError::Foreign { example, .. }) => assert!(example.starts_with(name), "{example}"),
                other => panic!("{other:?}"),
            }
        } else {
            let mut store = Store::open(&folder).unwrap();
            store.append(&record("a", 0)).unwrap();
            drop(store);
            symlink(&thesis, folder.join(name)).unwrap();
            let text = fs::read_to_string(folder.join(RUNS)).unwrap();
            fs::write(folder.join(RUNS), text.replace("0.1", "0.2")).unwrap();
            if let Ok(store) = Store::open(&folder) {
                store.write(name, b"ours").unwrap();
            }
        }
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work", "{name}");
    }
    // The path of the folder itself may be a link.
    let (real, link) = (root.path().join("real"), root.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    Store::open(&link).unwrap().append(&record("a", 0)).unwrap();
    assert_eq!(Store::open(&real).unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn the_lock_survives_deleted_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Store::open(folder.path()).unwrap();
    first.append(&record("a", 0)).unwrap();
    let kept = fs::read(folder.path().join(RUNS)).unwrap();
    for name in [LOCK, RUNS] {
        fs::remove_file(folder.path().join(name)).unwrap();
        match Store::open(folder.path()) {
            Err(LabError::InUse { owner, .. }) => assert_eq!(owner, "unknown"),
            other => panic!("{other:?}"),
        }
    }
    // Further writes into a deleted file would lose the runs, so the command ends.
    let e = first.append(&record("b", 1)).unwrap_err();
    assert!(matches!(&e, LabError::Write { source, .. } if source.to_string().contains("removed")), "{e:?}");
    fs::write(folder.path().join(RUNS), kept).unwrap();
    assert!(first.append(&record("c", 1)).is_err(), "it is another file");
    drop(first);
    assert_eq!(Store::open(folder.path()).unwrap().len(), 1);
}

#[test]
fn second_process_gets_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder.path()).unwrap();
    match Store::open(folder.path()) {
        Err(LabError::InUse { owner, .. }) => assert_eq!(owner, std::process::id().to_string()),
        other => panic!("{other:?}"),
    }
    drop(first);
    Store::open(folder.path()).unwrap();
}

#[test]
fn foreign_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
    match Store::open(folder.path()) {
        Err(LabError::Foreign { example, .. }) => assert_eq!(example, "thesis.tex"),
        other => panic!("{other:?}"),
    }
    let file = folder.path().join("thesis.tex");
    assert!(matches!(Store::open(&file), Err(LabError::Foreign { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
