use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use nix::unistd::{Uid, mkfifo};

use super::*;

/// An output folder beside a file that must not change.
struct Place {
    scratch: tempfile::TempDir,
}

const SOMEBODY: u32 = 12345;
const OUTSIDE: &str = "not yours";

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("out")).unwrap();
        fs::write(scratch.path().join("outside"), OUTSIDE).unwrap();
        Self { scratch }
    }

    fn out(&self) -> PathBuf {
        self.scratch.path().join("out")
    }

    fn outside(&self) -> PathBuf {
        self.scratch.path().join("outside")
    }

    fn folder(&self) -> Folder {
        Folder::make(&self.out(), Naming::ByUser).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.out()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn is_refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Refused { .. }))
}

#[test]
fn a_complete_file_gets_its_name_and_nothing_else_remains() {
    let place = Place::new();
    let folder = place.folder();
    let mut file = folder.begin("a.json", Existing::Stays).unwrap();
    file.file.write_all(b"{").unwrap();
    assert!(!place.names().contains(&"a.json".to_owned()));
    let path = file.place().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"{");
    // An abandoned one leaves nothing, and this run's own may be rewritten.
    drop(folder.begin("a.json", Existing::Stays).unwrap());
    folder.write("a.json", Existing::Stays, b"{}").unwrap();
    assert_eq!(place.names(), ["a.json"]);
    assert_eq!(fs::read(place.out().join("a.json")).unwrap(), b"{}");
    // Another run's is not.
    assert!(is_refused(place.folder().write(
        "a.json",
        Existing::Stays,
        b""
    )));
    place
        .folder()
        .write("a.json", Existing::IsReplaced, b"[]")
        .unwrap();
    assert_eq!(fs::read(place.out().join("a.json")).unwrap(), b"[]");
}

#[test]
fn an_existing_name_is_refused_and_kept() {
    let place = Place::new();
    let out = place.out();
    symlink(place.outside(), out.join("link")).unwrap();
    symlink(place.scratch.path().join("nothing"), out.join("dangling")).unwrap();
    mkfifo(&out.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
    fs::create_dir(out.join("folder")).unwrap();
    fs::write(out.join("folder/file"), OUTSIDE).unwrap();
    fs::write(out.join("file"), OUTSIDE).unwrap();
    let names = place.names();
    let folder = place.folder();
    for name in &names {
        assert!(is_refused(folder.create(name)), "{name}");
        assert!(is_refused(folder.refuse_taken(name)), "{name}");
        assert!(
            is_refused(folder.write(name, Existing::Stays, b"x")),
            "{name}"
        );
        if name != "file" {
            assert!(
                is_refused(folder.write(name, Existing::IsReplaced, b"x")),
                "{name}"
            );
        }
        folder.remove(name);
    }
    folder.give_up();
    drop(folder);
    assert_eq!(place.names(), names);
    assert_eq!(fs::read_to_string(place.outside()).unwrap(), OUTSIDE);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), OUTSIDE);
    assert_eq!(
        fs::read_to_string(out.join("folder/file")).unwrap(),
        OUTSIDE
    );
    assert!(!place.scratch.path().join("nothing").exists());
}

#[test]
fn a_name_taken_while_the_file_is_written_is_not_overwritten() {
    let place = Place::new();
    let folder = place.folder();
    let unfinished = folder.begin("a.json", Existing::IsReplaced).unwrap();
    symlink(place.outside(), place.out().join("a.json")).unwrap();
    assert!(is_refused(unfinished.place()));
    assert_eq!(place.names(), ["a.json"]);
    assert_eq!(fs::read_to_string(place.outside()).unwrap(), OUTSIDE);
}

#[test]
fn a_replaced_file_with_another_link_keeps_its_content_there() {
    let place = Place::new();
    fs::hard_link(place.outside(), place.out().join("page")).unwrap();
    let before = fs::metadata(place.outside()).unwrap();
    place
        .folder()
        .write("page", Existing::IsReplaced, b"new")
        .unwrap();
    let after = fs::metadata(place.outside()).unwrap();
    assert_eq!(fs::read_to_string(place.outside()).unwrap(), OUTSIDE);
    assert_eq!(
        (after.mtime_nsec(), after.mode(), after.uid()),
        (before.mtime_nsec(), before.mode(), before.uid())
    );
    assert_eq!(fs::read_to_string(place.out().join("page")).unwrap(), "new");
}

/// In a separate process, because other tests open files meanwhile.
#[test]
fn if_descriptors_run_out_no_unrecorded_file_remains() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const CHILD: &str = "REVEILLE_TEST_IS_THE_CHILD";
    let test = "output::tests::if_descriptors_run_out_no_unrecorded_file_remains";
    if std::env::var_os(CHILD).is_none() {
        let this = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(this);
        let ended = child.args(["--exact", test]).env(CHILD, "1").output();
        let ended = ended.unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let place = Place::new();
    let folder = place.folder();
    let unfinished = folder.begin("described", Existing::Stays).unwrap();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 64, most).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        taken.push(file);
    }
    // Its own descriptor is free then: a file may still be opened, and nothing after it.
    let placed = unfinished.place();
    let created = folder.create("grows");
    drop(taken);
    assert!(placed.is_err() && created.is_err());
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn giving_up_removes_only_this_runs_files() {
    let place = Place::new();
    fs::write(place.out().join("before"), OUTSIDE).unwrap();
    let folder = place.folder();
    folder.create("growing").unwrap();
    folder.write("whole", Existing::Stays, b"").unwrap();
    folder.create("taken away").unwrap();
    fs::remove_file(place.out().join("taken away")).unwrap();
    fs::write(place.out().join("taken away"), OUTSIDE).unwrap();
    folder.give_up();
    drop(folder);
    assert_eq!(place.names(), ["before", "taken away"]);
}

#[test]
fn a_created_folder_is_removed_if_empty_and_an_existing_one_stays() {
    let place = Place::new();
    let deep = place.out().join("a/b");
    drop(Folder::make(&deep, Naming::ByUser).unwrap());
    assert_eq!(place.names(), [""; 0]);
    let folder = Folder::make(&deep, Naming::ByUser).unwrap();
    fs::write(place.out().join("a/somebody else's"), "").unwrap();
    folder.create("x").unwrap();
    folder.give_up();
    drop(folder);
    assert!(!deep.exists() && place.out().join("a/somebody else's").exists());
    Folder::make(&deep, Naming::ByUser)
        .unwrap()
        .create("kept")
        .unwrap();
    assert!(deep.join("kept").exists());
}

#[test]
fn a_path_that_is_no_folder_or_was_removed_is_an_error() {
    let place = Place::new();
    for path in [
        place.outside(),
        place.outside().join("below"),
        "/dev/null".into(),
    ] {
        let made = Folder::make(&path, Naming::ByUser);
        assert!(
            matches!(&made, Err(Error::Refused { why, .. }) if why.starts_with("is not a folder")),
            "{path:?}"
        );
    }
    let dangling = place.out().join("dangling");
    symlink(place.scratch.path().join("nothing"), &dangling).unwrap();
    assert!(Folder::make(&dangling, Naming::ByUser).is_err());
    assert!(!place.scratch.path().join("nothing").exists());
    let folder = Folder::make(&place.out().join("gone"), Naming::ByUser).unwrap();
    fs::remove_dir(place.out().join("gone")).unwrap();
    assert!(folder.create("x").is_err());
    assert!(folder.write("y", Existing::Stays, b"").is_err());
    assert_eq!(place.names(), ["dangling"]);
}

#[test]
fn the_users_own_links_are_followed() {
    let place = Place::new();
    symlink("out", place.scratch.path().join("mine")).unwrap();
    let folder = Folder::make(&place.scratch.path().join("mine/new"), Naming::ByUser).unwrap();
    folder.create("x").unwrap();
    assert!(place.out().join("new/x").exists());
    // An error behind a link is reported for the link, which was given.
    fs::write(place.out().join("file"), "").unwrap();
    for (target, why) in [
        (
            "nowhere",
            "is a symbolic link to nowhere, which does not exist",
        ),
        ("file", "is not a folder"),
    ] {
        let link = place.out().join(format!("to-{target}"));
        symlink(target, &link).unwrap();
        let error = Folder::make(&link, Naming::ByUser).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{}: {why}", link.display())),
            "{error}"
        );
    }
    symlink("loop", place.out().join("loop")).unwrap();
    assert!(Folder::make(&place.out().join("loop"), Naming::ByUser).is_err());
}

#[test]
fn root_follows_no_links_of_others_and_by_default_writes_only_to_its_own_folders() {
    if !Uid::effective().is_root() {
        return println!("skipped: root_follows_no_links_of_others...: needs root");
    }
    let place = Place::new();
    let link = place.scratch.path().join("link");
    symlink(place.out(), &link).unwrap();
    Folder::make(&link, Naming::ByUser).unwrap();
    std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).unwrap();
    assert!(is_refused(Folder::make(&link, Naming::ByUser)));
    assert!(is_refused(Folder::make(&link.join("new"), Naming::ByUser)));

    let by_default = || Folder::make(&place.out().join("new"), Naming::ByDefault);
    by_default().unwrap();
    for (owner, mode, is_trusted) in [
        (0, 0o755, true),
        (0, 0o1777, true),
        (0, 0o777, false),
        (0, 0o775, false),
        (SOMEBODY, 0o755, false),
        (SOMEBODY, 0o1777, false),
    ] {
        chown(place.out(), Some(owner), None).unwrap();
        fs::set_permissions(place.out(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(by_default().is_ok(), is_trusted, "{owner} {mode:o}");
        let there = Folder::make(&place.out(), Naming::ByDefault);
        assert_eq!(there.is_ok(), is_trusted, "{owner} {mode:o}");
        Folder::make(&place.out(), Naming::ByUser).unwrap();
    }
    // On request it is written safely; another user's file there stays.
    fs::write(place.out().join("theirs"), OUTSIDE).unwrap();
    chown(place.out().join("theirs"), Some(SOMEBODY), None).unwrap();
    let folder = place.folder();
    assert!(is_refused(folder.write(
        "theirs",
        Existing::IsReplaced,
        b"x"
    )));
    folder.write("ours", Existing::IsReplaced, b"x").unwrap();
    assert_eq!(fs::metadata(place.out().join("ours")).unwrap().uid(), 0);
}

#[test]
fn a_single_file_may_go_to_a_named_fifo_or_device_but_never_through_a_link() {
    let place = Place::new();
    let fifo = place.out().join("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    let find = |path: &Path, naming| OutputFile::find(path, Existing::IsReplaced, naming);
    let write =
        |file: OutputFile| file.write(|file| file.write_all(b"page").map_err(Error::at(&fifo)));

    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut text = String::new();
            fs::File::open(fifo)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            text
        }
    });
    write(find(&fifo, Naming::ByUser).unwrap()).unwrap();
    assert_eq!(reader.join().unwrap(), "page");
    // Without a reader it does not block.
    let alone = write(find(&fifo, Naming::ByUser).unwrap()).unwrap_err();
    assert!(alone.to_string().contains("has no reader"), "{alone}");
    assert!(is_refused(find(&fifo, Naming::ByDefault)));

    write(find(Path::new("/dev/null"), Naming::ByUser).unwrap()).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(
        find(Path::new("-"), Naming::ByUser)
            .unwrap()
            .is_standard_output()
    );

    let link = place.out().join("link");
    symlink(place.outside(), &link).unwrap();
    assert!(is_refused(find(&link, Naming::ByUser)));
    fs::remove_file(&link).unwrap();
    symlink("/dev/null", &link).unwrap();
    write(find(&link, Naming::ByUser).unwrap()).unwrap();
    assert!(is_refused(find(&place.out(), Naming::ByUser)));
    if Uid::effective().is_root() {
        std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).unwrap();
        assert!(is_refused(find(&link, Naming::ByUser)));
        chown(&fifo, Some(SOMEBODY), None).unwrap();
        assert!(is_refused(find(&fifo, Naming::ByUser)));
    }
    assert_eq!(place.names(), ["fifo", "link"]);
}

#[test]
fn in_a_sticky_public_folder_links_are_followed_as_by_the_kernel() {
    if !Uid::effective().is_root() {
        return println!("skipped: links of several users: making some needs root");
    }
    let place = Place::new();
    let all = place.scratch.path().join("all");
    fs::create_dir(&all).unwrap();
    let link = all.join("link");
    symlink(place.out(), &link).unwrap();
    let walks = |mode, owner_of_link, walker| {
        fs::set_permissions(&all, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::lchown(&link, Some(owner_of_link), None).unwrap();
        Walk::new(&link, Naming::ByUser, walker)
            .reach_end(false)
            .is_ok()
    };
    let other = SOMEBODY + 1;
    assert!(!walks(0o1777, SOMEBODY, other));
    assert!(!walks(0o1777, SOMEBODY, 0));
    assert!(walks(0o1777, other, other));
    // The folder's owner.
    assert!(walks(0o1777, 0, other));
    assert!(walks(0o755, SOMEBODY, other));
    assert!(!walks(0o755, SOMEBODY, 0));
}
