//! [`Disk`] for the simulation: everything that goes by path.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::process;
use std::sync::Arc;

use rustix::io::Errno;

use super::content::Change;
use super::fault::Op;
use super::file::{SimFile, SimLock, record};
use super::names::{NameChange, Names, NodeId};
use super::state::{FileNode, Node, ROOT, State, Step};
use super::{SimDisk, is_power_cut, whole};
use crate::disk::{DirLock, Disk, DiskFile, Entry, FileSystem, FileSystemId, Open, lock_held};

impl SimDisk {
    fn run<T>(&self, op: Op, path: &Path, detail: &str, act: impl FnOnce(&mut State, Step) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        let result = match state.begin(op, path) {
            Ok(step) => {
                let result = act(&mut state, step);
                state.finish(step, result)
            }
            Err(error) => {
                if op == Op::SyncDir
                    && !is_power_cut(&error)
                    && let Ok(node) = state.find(path)
                {
                    state.fail_sync(node);
                }
                Err(error)
            }
        };
        record(&mut state, op, path, detail, &result);
        result
    }
}

fn new_file(state: &mut State, path: &Path) -> io::Result<NodeId> {
    let (dir, name) = state.find_parent(path)?;
    let node = state.add(Node::File(FileNode { linked: true, ..FileNode::default() }));
    state.change_names(dir, NameChange::Set { name: name.to_owned(), node })?;
    Ok(node)
}

/// Finds, creates or empties the file.
fn open_node(state: &mut State, path: &Path, how: Open) -> io::Result<NodeId> {
    let found = state.find(path);
    match (how, found) {
        (Open::CreateNew, Ok(_)) => Err(Errno::EXIST.into()),
        (Open::CreateNew | Open::CreateOrOpen | Open::CreateOrTruncate, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            new_file(state, path)
        }
        (_, Err(error)) => Err(error),
        (Open::CreateOrTruncate, Ok(node)) => {
            let sequence = state.sequence();
            state.file(node)?.content.change(sequence, Change::SetLen(0));
            Ok(node)
        }
        (Open::Read | Open::ReadWrite | Open::CreateOrOpen, Ok(node)) => state.file(node).map(|_| node),
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut path = PathBuf::new();
        for component in dir.components() {
            path.push(component);
            if !matches!(component, Component::Normal(_)) || self.state.lock().find(&path).is_ok() {
                continue;
            }
            // One mutation for each directory, as each is a system call.
            self.run(Op::CreateDir, &path, "", |state, _| {
                let (parent, name) = state.find_parent(&path)?;
                let node = state.add(Node::Dir(Names::default()));
                state.change_names(parent, NameChange::Set { name: name.to_owned(), node })
            })?;
        }
        let mut state = self.state.lock();
        let node = state.find(dir)?;
        match state.node(node)? {
            Node::Dir(_) => Ok(()),
            Node::File(_) => Err(Errno::EXIST.into()),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.run(Op::List, dir, "", |state, _| {
            let dir = state.find(dir)?;
            let names = state.names(dir)?.live.clone();
            names
                .into_iter()
                .map(|(name, node)| {
                    Ok(match state.node(node)? {
                        Node::File(file) => Entry { name, is_dir: false, len_bytes: file.content.live.len() as u64 },
                        Node::Dir(_) => Entry { name, is_dir: true, len_bytes: 0 },
                    })
                })
                .collect()
        })
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let there = self.state.lock().find(path).is_ok();
        let op = match how {
            Open::Read | Open::ReadWrite => Op::Open,
            Open::CreateOrOpen if there => Op::Open,
            Open::CreateNew | Open::CreateOrOpen | Open::CreateOrTruncate => Op::Create,
        };
        let (node, generation, failures) = self.run(op, path, "", |state, _| {
            let node = open_node(state, path, how)?;
            let file = state.file(node)?;
            file.open += 1;
            let failures = file.failures;
            Ok((node, state.generation, failures))
        })?;
        let (state, path, writes) = (Arc::clone(&self.state), path.to_owned(), how.writes());
        Ok(Arc::new(SimFile { state, generation, node, path, writes, told: failures.into() }))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.run(Op::Len, path, "", |state, _| {
            let node = state.find(path)?;
            Ok(state.file(node)?.content.live.len() as u64)
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.run(Op::Len, path, "", |state, _| match state.find(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Op::Rename, from, &format!(" to {}", to.display()), |state, _| {
            let node = state.find(from)?;
            let (from_dir, from_name) = state.find_parent(from)?;
            let (to_dir, to_name) = state.find_parent(to)?;
            if from_dir != to_dir {
                // Nothing in HermitMQ moves files between directories, and what a crash leaves of it differs between file systems.
                return Err(Errno::XDEV.into());
            }
            let is_dir = matches!(state.node(node)?, Node::Dir(_));
            if let Some(replaced) = state.names(to_dir)?.live.get(to_name).copied() {
                match state.node(replaced)? {
                    Node::Dir(names) if is_dir && !names.live.is_empty() => {
                        return Err(Errno::NOTEMPTY.into());
                    }
                    Node::Dir(_) if !is_dir => return Err(Errno::ISDIR.into()),
                    Node::File(_) if is_dir => return Err(Errno::NOTDIR.into()),
                    Node::Dir(_) => {}
                    Node::File(file) => file.linked = replaced == node,
                }
            }
            let change = NameChange::Rename { from: from_name.to_owned(), to: to_name.to_owned(), node };
            state.change_names(to_dir, change)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.run(Op::RemoveFile, path, "", |state, _| {
            let node = state.find(path)?;
            let (dir, name) = state.find_parent(path)?;
            state.file(node)?.linked = false;
            state.change_names(dir, NameChange::Unset { name: name.to_owned() })
        })
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Op::RemoveDir, dir, "", |state, _| {
            let node = state.find(dir)?;
            if node == ROOT {
                return Err(Errno::BUSY.into());
            }
            if !state.names(node)?.live.is_empty() {
                return Err(Errno::NOTEMPTY.into());
            }
            let (parent, name) = state.find_parent(dir)?;
            state.change_names(parent, NameChange::Unset { name: name.to_owned() })
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Op::SyncDir, dir, "", |state, step| {
            let node = state.find(dir)?;
            let names = state.names(node)?;
            if !step.is_cut() {
                names.sync();
            }
            Ok(())
        })
    }

    fn file_system(&self, _dir: &Path) -> io::Result<Option<FileSystemId>> {
        Ok(Some(0))
    }

    fn overwrites_in_place(&self, _dir: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn open_file_system(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        let (generation, failures) =
            self.run(Op::Open, dir, "", |state, _| state.find(dir).map(|_| (state.generation, state.failures)))?;
        Ok(whole::open(&self.state, generation, failures, dir))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.run(Op::Free, dir, "", |state, _| Ok(state.free_bytes()))
    }

    fn total_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.run(Op::Free, dir, "", |state, _| Ok(state.total_bytes()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        let (node, generation) = self.run(Op::Lock, path, "", |state, _| {
            let node = open_node(state, path, Open::CreateOrOpen)?;
            if state.locks.contains(&node) {
                return Err(lock_held(path, Some(process::id())));
            }
            for change in
                [Change::SetLen(0), Change::Write { position: 0, bytes: format!("{}\n", process::id()).into_bytes().into() }]
            {
                let sequence = state.sequence();
                state.file(node)?.content.change(sequence, change);
            }
            state.locks.insert(node);
            Ok((node, state.generation))
        })?;
        Ok(Box::new(SimLock { state: Arc::clone(&self.state), generation, node }))
    }
}
