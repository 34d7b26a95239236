//! What a test may do to a disk behind the back of the program, and look at.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SimDisk;
use super::names::NodeId;
use super::state::{FileNode, Node, ROOT, State};

impl SimDisk {
    /// A file's bytes, as the process sees them.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let node = state.find(path).ok()?;
        Some(state.file(node).ok()?.content.live.to_vec())
    }

    /// Replaces a file's bytes, or creates the file, durably. Directories above it must exist. Answers whether that was possible.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        let bytes = Arc::new(bytes.to_vec());
        if let Ok(node) = state.find(path) {
            return state.file(node).map(|file| file.replace(bytes)).is_ok();
        }
        let Ok((dir, name)) = state.find_parent(path) else {
            return false;
        };
        let mut file = FileNode { linked: true, ..FileNode::default() };
        file.replace(bytes);
        let node = state.add(Node::File(file));
        state
            .names(dir)
            .map(|names| {
                names.live.insert(name.to_owned(), node);
                names.durable.insert(name.to_owned(), node);
            })
            .is_ok()
    }

    /// Removes a file, or a directory with all that is in it, durably. Answers whether it was there.
    pub fn remove(&self, path: &Path) -> bool {
        let mut state = self.state.lock();
        let (Ok(node), Ok((dir, name))) = (state.find(path), state.find_parent(path)) else {
            return false;
        };
        if let Ok(file) = state.file(node) {
            file.linked = false;
        }
        state
            .names(dir)
            .map(|names| {
                names.live.remove(name);
                names.durable.remove(name);
            })
            .is_ok()
    }

    /// Changes one bit (bit 0 is the lowest of the first byte), durably. Answers whether the file has that bit.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> bool {
        self.alter(path, |bytes| {
            let byte = usize::try_from(bit / 8).ok().and_then(|at| bytes.get_mut(at));
            byte.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
        })
    }

    /// Overwrites bytes within a file, durably. Answers whether the file has that many.
    pub fn overwrite(&self, path: &Path, position: u64, with: &[u8]) -> bool {
        self.alter(path, |bytes| {
            let range = usize::try_from(position).ok().and_then(|at| bytes.get_mut(at..at + with.len()));
            range.map(|range| range.copy_from_slice(with)).is_some()
        })
    }

    /// Cuts a file, or lengthens it with zeros, durably. Answers whether there is such a file.
    pub fn truncate(&self, path: &Path, len: usize) -> bool {
        self.alter(path, |bytes| {
            bytes.resize(len, 0);
            true
        })
    }

    /// Changes what is on the platter and what the process sees alike. What waited to be synced is then durable.
    fn alter(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let mut state = self.state.lock();
        let Ok(node) = state.find(path) else {
            return false;
        };
        let Ok(file) = state.file(node) else {
            return false;
        };
        let mut bytes = file.content.live.to_vec();
        let changed = change(&mut bytes);
        if changed {
            file.replace(Arc::new(bytes));
        }
        changed
    }

    /// All files with their sizes in bytes, as the process sees them, by path.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.walk(|path, node, files| {
            if let Node::File(file) = node {
                files.push((path.to_owned(), file.content.live.len() as u64));
            }
        })
    }

    /// Files and directories of which something is not durable, by path.
    #[must_use]
    pub fn unsynced(&self) -> Vec<PathBuf> {
        self.walk(|path, node, unsynced| {
            if node.waiting().next().is_some() {
                unsynced.push(path.to_owned());
            }
        })
    }

    /// Every file and directory with its sizes, live and durable, and its number of un-synced changes.
    #[must_use]
    pub fn dump(&self) -> String {
        let lines = self.walk(|path, node, lines: &mut Vec<String>| {
            let waiting = node.waiting().count();
            let mut line = path.display().to_string();
            let written = match node {
                Node::File(FileNode { content, .. }) => {
                    write!(line, ": {} bytes, durable {}, {waiting} waiting", content.live.len(), content.durable.len())
                }
                Node::Dir(names) => {
                    write!(line, "/: {} names, durable {}, {waiting} waiting", names.live.len(), names.durable.len())
                }
            };
            if written.is_ok() {
                lines.push(line);
            }
        });
        lines.join("\n")
    }

    fn walk<T>(&self, mut visit: impl FnMut(&Path, &Node, &mut Vec<T>)) -> Vec<T> {
        let mut found = Vec::new();
        let mut state = self.state.lock();
        let mut todo: Vec<(PathBuf, NodeId)> = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, id)) = todo.pop() {
            let Ok(node) = State::node(&mut state, id) else {
                continue;
            };
            visit(&path, node, &mut found);
            if let Node::Dir(names) = node {
                todo.extend(names.live.iter().rev().map(|(name, node)| (path.join(name), *node)));
            }
        }
        found
    }
}

impl FileNode {
    fn replace(&mut self, bytes: Arc<Vec<u8>>) {
        self.content.pending.clear();
        self.content.live = Arc::clone(&bytes);
        self.content.durable = bytes;
    }
}
