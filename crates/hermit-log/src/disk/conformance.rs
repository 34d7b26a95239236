//! One suite for every [`Disk`]: what the program may rely on while nothing crashes.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::sim::SimDisk;
use super::{Disk, DiskFile, Open, RealDisk, lock_holder, read_file, write_atomically};

fn on_both(check: fn(&dyn Disk, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    check(&RealDisk, dir.path());
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("/data")).unwrap();
    check(&disk, Path::new("/data"));
}

fn create(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(path, Open::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn names(disk: &dyn Disk, dir: &Path) -> Vec<String> {
    disk.list(dir).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn bytes_are_read_where_they_were_written() {
    on_both(|disk, dir| {
        let file = create(disk, &dir.join("a"), b"hello world");
        file.write_all_at(b"W", 6).unwrap();
        file.write_all_at(b"!", 13).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 14);
        let mut buf = [9; 20];
        assert_eq!(file.read_full_at(&mut buf, 0).unwrap(), 14);
        assert_eq!(&buf[..14], b"hello World\0\0!");
        assert_eq!(file.read_at(&mut buf, 14).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        let mut exact = [0; 4];
        assert_eq!(file.read_exact_at(&mut exact, 11).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        file.read_exact_at(&mut exact, 10).unwrap();
        assert_eq!(&exact, b"d\0\0!");
    });
}

#[test]
fn a_file_is_cut_and_lengthened() {
    on_both(|disk, dir| {
        let file = create(disk, &dir.join("a"), b"0123456789");
        file.set_len(4).unwrap();
        file.set_len(6).unwrap();
        assert_eq!(read_file(disk, &dir.join("a"), 100).unwrap(), b"0123\0\0");
        file.allocate(8192).unwrap();
        assert_eq!(disk.file_len(&dir.join("a")).unwrap(), 8192);
        file.allocate(10).unwrap();
        file.allocate(0).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
        assert!(!file.is_empty().unwrap());
        assert_eq!(read_file(disk, &dir.join("a"), 100).unwrap_err().kind(), ErrorKind::FileTooLarge);
    });
}

#[test]
fn open_keeps_to_its_mode() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        for how in [Open::Read, Open::ReadWrite] {
            assert_eq!(disk.open(&path, how).unwrap_err().kind(), ErrorKind::NotFound);
        }
        assert_eq!(disk.open(&dir.join("no/a"), Open::CreateNew).unwrap_err().kind(), ErrorKind::NotFound);
        create(disk, &path, b"abc");
        assert_eq!(disk.open(&path, Open::CreateNew).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let reader = disk.open(&path, Open::Read).unwrap();
        assert!(reader.write_at(b"x", 0).is_err());
        assert!(reader.set_len(0).is_err());
        assert_eq!(disk.open(&path, Open::CreateOrOpen).unwrap().len().unwrap(), 3);
        assert_eq!(disk.open(&path, Open::CreateOrTruncate).unwrap().len().unwrap(), 0);
        assert_eq!(reader.len().unwrap(), 0);
    });
}

#[test]
fn directories_hold_what_was_put_there() {
    on_both(|disk, dir| {
        let deep = dir.join("x/y/z");
        disk.create_dir_all(&deep).unwrap();
        disk.create_dir_all(&deep).unwrap();
        create(disk, &deep.join("b"), b"bb");
        create(disk, &deep.join("a"), b"");
        disk.create_dir_all(&deep.join("c")).unwrap();
        let entries = disk.list(&deep).unwrap();
        assert_eq!(names(disk, &deep), ["a", "b", "c"]);
        assert_eq!(entries.iter().map(|e| (e.is_dir, e.len_bytes)).collect::<Vec<_>>(), [(false, 0), (false, 2), (true, 0)]);
        assert_eq!(disk.remove_dir(&deep).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        for name in ["a", "b"] {
            disk.remove_file(&deep.join(name)).unwrap();
        }
        disk.remove_dir(&deep.join("c")).unwrap();
        disk.remove_dir(&deep).unwrap();
        disk.sync_dir(&dir.join("x/y")).unwrap();
        assert!(names(disk, &dir.join("x/y")).is_empty());
        assert!(disk.exists(&dir.join("x")).unwrap());
        assert!(!disk.exists(&deep).unwrap());
        assert_eq!(disk.list(&deep).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.sync_dir(&deep).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.remove_file(&deep).unwrap_err().kind(), ErrorKind::NotFound);
        create(disk, &dir.join("file"), b"");
        assert!(disk.create_dir_all(&dir.join("file")).is_err());
        assert!(disk.create_dir_all(&dir.join("file/below")).is_err());
    });
}

#[test]
fn rename_replaces_and_handles_keep_their_file() {
    on_both(|disk, dir| {
        let old = create(disk, &dir.join("a"), b"old");
        let new = create(disk, &dir.join("b"), b"new");
        disk.rename(&dir.join("b"), &dir.join("a")).unwrap();
        assert_eq!(names(disk, dir), ["a"]);
        assert_eq!(read_file(disk, &dir.join("a"), 9).unwrap(), b"new");
        disk.remove_file(&dir.join("a")).unwrap();
        let mut buf = [0; 3];
        old.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"old");
        new.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"new");
        assert_eq!(disk.rename(&dir.join("b"), &dir.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_state_file_is_replaced_as_a_whole() {
    on_both(|disk, dir| {
        write_atomically(disk, dir, "state", b"one, a long one").unwrap();
        write_atomically(disk, dir, "state", b"two").unwrap();
        assert_eq!(read_file(disk, &dir.join("state"), 99).unwrap(), b"two");
        assert_eq!(names(disk, dir), ["state"]);
        assert!(write_atomically(disk, &dir.join("none"), "state", b"x").is_err());
    });
}

#[test]
fn the_lock_is_exclusive_and_names_its_holder() {
    on_both(|disk, dir| {
        let path = dir.join("lock");
        let held = disk.lock(&path).unwrap();
        let refused = disk.lock(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        let holder = lock_holder(&refused).unwrap();
        assert_eq!((holder.pid, holder.path.as_path()), (Some(std::process::id()), path.as_path()));
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        drop(held);
        drop(disk.lock(&path).unwrap());
        assert_eq!(read_file(disk, &path, 99).unwrap(), format!("{}\n", std::process::id()).into_bytes());
    });
}

#[test]
fn a_mapping_shows_the_bytes_and_outlives_the_name() {
    on_both(|disk, dir| {
        let file = create(disk, &dir.join("a"), b"0123456789");
        assert_eq!(file.map(11).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(file.map(0).unwrap().is_empty());
        let map = file.map(4).unwrap();
        disk.remove_file(&dir.join("a")).unwrap();
        drop(file);
        assert_eq!(&*map, b"0123");
    });
}

#[test]
fn hints_are_harmless() {
    on_both(|disk, dir| {
        let file = create(disk, &dir.join("a"), &[7; 200_000]);
        file.sync_data().unwrap();
        for (position, len) in [(0, 200_000), (0, 0), (199_999, 1), (500_000, 10), (u64::MAX, 5)] {
            file.will_need(position, len);
            file.drop_cached(position, len);
            // Whether it is cached is the kernel's business; that there is an answer is ours.
            file.cached(position, len);
        }
        assert!(disk.free_bytes(dir).unwrap() > 0);
        assert!(disk.total_bytes(dir).unwrap() >= disk.free_bytes(dir).unwrap());
    });
}

#[test]
fn what_was_just_written_is_cached() {
    on_both(|disk, dir| {
        let file = create(disk, &dir.join("a"), &[7; 200_000]);
        assert!(file.cached(0, 200_000));
    });
}

#[test]
fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("x/y");
    RealDisk.create_dir_all(&below).unwrap();
    create(&RealDisk, &below.join("a"), b"");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&dir.path().join("x")), mode(&below), mode(&below.join("a"))], [0o700, 0o700, 0o600]);
}

#[test]
fn a_file_system_is_told_apart_and_synced_as_a_whole() {
    on_both(|disk, dir| {
        // A machine whose file system is not among the known ones has none.
        let Some(id) = disk.file_system(dir).unwrap() else { return };
        disk.create_dir_all(&dir.join("below")).unwrap();
        assert_eq!(disk.file_system(&dir.join("below")).unwrap(), Some(id));
        let file_system = disk.open_file_system(dir).unwrap();
        assert_eq!(file_system.dir(), dir);
        create(disk, &dir.join("below/a"), b"abc");
        file_system.sync().unwrap();
    });
}
