//! Who is watched where there are more folders than places: each folder shares its places evenly among those directly
//! below it, as far as they need them. So who makes thousands of cgroups takes places from nobody but himself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders that have a place.
pub struct Shares {
    most: usize,
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Default)]
struct Folder {
    /// Places of it and of all below it.
    taken: usize,
    /// Those directly below, by their places.
    below: BTreeSet<(usize, PathBuf)>,
}

/// A place for a folder.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// There is one.
    Free,
    /// This one's, which is to leave.
    Of(PathBuf),
    /// There is none.
    None,
}

impl Shares {
    /// So many places.
    pub fn of(most: usize) -> Self {
        Self {
            most,
            folders: BTreeMap::new(),
        }
    }

    /// The place that a folder would get now; the one above has one.
    pub fn place_for(&self, path: &Path) -> Place {
        if self.folders.len() < self.most {
            return Place::Free;
        }
        for (above, child) in way(path) {
            let Some(folder) = self.folders.get(above) else {
                return Place::None;
            };
            let own = self.folders.get(child).map_or(0, |child| child.taken);
            if let Some((taken, heaviest)) = folder.below.last()
                && *taken > own + 1
                && heaviest != child
            {
                return Place::Of(self.last_of(heaviest));
            }
        }
        Place::None
    }

    /// The folder that leaves first of those below: in each step from where most are.
    fn last_of(&self, path: &Path) -> PathBuf {
        let below = self
            .folders
            .get(path)
            .and_then(|folder| folder.below.last());
        below.map_or(path.to_owned(), |(_, heaviest)| self.last_of(heaviest))
    }

    /// Gives a folder a place; the one above has one.
    pub fn add(&mut self, path: &Path) {
        self.folders.insert(path.to_owned(), Folder::default());
        self.count(path, |taken| taken + 1);
    }

    /// Takes its place from a folder that has none below it.
    pub fn remove(&mut self, path: &Path) {
        self.count(path, |taken| taken - 1);
        self.folders.remove(path);
        if let Some(above) = path.parent().and_then(|above| self.folders.get_mut(above)) {
            above.below.remove(&(0, path.to_owned()));
        }
    }

    fn count(&mut self, path: &Path, count: impl Fn(usize) -> usize) {
        for path in path.ancestors() {
            let Some(folder) = self.folders.get_mut(path) else {
                continue;
            };
            let before = folder.taken;
            folder.taken = count(before);
            let now = folder.taken;
            if let Some(above) = path.parent().and_then(|above| self.folders.get_mut(above)) {
                above.below.remove(&(before, path.to_owned()));
                above.below.insert((now, path.to_owned()));
            }
        }
    }
}

/// From the root down: each folder on the way, and the next one.
fn way(path: &Path) -> Vec<(&Path, &Path)> {
    let steps: Vec<&Path> = path.ancestors().collect();
    let pairs = steps.windows(2).map(|pair| (pair[1], pair[0]));
    pairs.rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds it as the tree does, in another's place if need be; whether it has one.
    fn take(shares: &mut Shares, path: &str) -> bool {
        let path = Path::new(path);
        match shares.place_for(path) {
            Place::None => return false,
            Place::Of(other) => shares.remove(&other),
            Place::Free => {}
        }
        shares.add(path);
        true
    }

    fn has(shares: &Shares, path: &str) -> bool {
        shares.folders.contains_key(Path::new(path))
    }

    #[test]
    fn who_makes_many_folders_takes_places_of_himself_alone() {
        let mut shares = Shares::of(20);
        for path in ["", "users", "users/one", "users/two", "machines"] {
            assert!(take(&mut shares, path));
        }
        let flood = (0..100).map(|nth| format!("users/one/{nth}"));
        let taken = flood.filter(|path| take(&mut shares, path)).count();
        assert_eq!(taken, 15);
        // Those that come later, beside and elsewhere; and below a folder of the flood.
        for path in ["machines/a", "machines/b", "users/two/a", "users/two/a/b"] {
            assert!(take(&mut shares, path), "{path}");
        }
        assert_eq!(shares.folders.len(), 20);
        assert!(has(&shares, "users/one/1") && has(&shares, "machines/a"));
        // At equal shares nobody takes from the other.
        let both =
            (0..100).flat_map(|nth| [format!("machines/x{nth}"), format!("users/two/x{nth}")]);
        let both = both.filter(|path| take(&mut shares, path)).count();
        assert!(both > 0);
        let taken = |path: &str| shares.folders[Path::new(path)].taken;
        assert_eq!((taken(""), taken("machines"), taken("users")), (20, 9, 10));
        assert!(taken("users/one").abs_diff(taken("users/two")) <= 1);
    }

    #[test]
    fn a_deep_flood_is_one_share_however_it_is_nested() {
        let mut shares = Shares::of(10);
        assert!(take(&mut shares, "") && take(&mut shares, "a"));
        for nth in 0..20 {
            if take(&mut shares, &format!("a/{nth}")) {
                take(&mut shares, &format!("a/{nth}/deeper"));
            }
        }
        for nth in 0..4 {
            let other = format!("b{nth}");
            assert!(take(&mut shares, &other), "{other}");
        }
        assert_eq!(shares.folders.len(), 10);
    }

    #[test]
    fn places_are_counted_when_folders_leave() {
        let mut shares = Shares::of(4);
        for path in ["", "a", "a/b", "a/b/c"] {
            assert!(take(&mut shares, path));
        }
        assert!(!take(&mut shares, "a/b/d"));
        for path in ["a/b/c", "a/b", "a"] {
            shares.remove(Path::new(path));
        }
        let root = &shares.folders[Path::new("")];
        assert_eq!(
            (root.taken, root.below.len(), shares.folders.len()),
            (1, 0, 1)
        );
        assert_eq!(shares.place_for(Path::new("b")), Place::Free);
    }
}
