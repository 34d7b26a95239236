//! The simulated file system: nodes, paths, power, and the order in which things happened.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};

use rustix::io::Errno;

use super::content::{Content, Fate};
use super::fault::{Effect, Fault, Op, Struck};
use super::names::{NameChange, Names, NodeId};
use super::rng::Rng;

/// What a disk without a set capacity reports: 1 TiB.
const PLENTY_BYTES: u64 = 1 << 40;

pub(super) const ROOT: NodeId = 0;

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileNode),
    Dir(Names),
}

#[derive(Debug, Clone, Default)]
pub(super) struct FileNode {
    pub(super) content: Content,
    /// Handles of the running process.
    pub(super) open: u32,
    /// Whether a name leads here, as the process sees it.
    pub(super) linked: bool,
    /// How often writing it back has failed; told once to each handle.
    pub(super) failures: u64,
}

/// How a power cut chooses what survives of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing does.
    Nothing,
    /// Everything does: as if all had been written back just in time.
    Everything,
    /// All up to some moment: the disk kept the order. The change at that moment is torn.
    InOrder,
    /// Each file and directory fares differently: all, nothing, torn sectors, holes of zeros, reordered.
    Mixed,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) rng: Rng,
    /// Raised by each crash: handles and locks of an earlier one are dead.
    pub(super) generation: u64,
    /// Off between the cut and the crash that ends it.
    pub(super) powered: bool,
    nodes: BTreeMap<NodeId, Node>,
    next_node: NodeId,
    next_sequence: u64,
    pub(super) locks: BTreeSet<NodeId>,
    /// How often writing anything back has failed; told once to each handle of the whole.
    pub(super) failures: u64,
    pub(super) mutations: u64,
    /// Operations of all kinds.
    pub(super) calls: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) struck: Vec<Struck>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) trace: Vec<String>,
    /// The state just after each mutation with the number of mutations so far, where a test wants that.
    pub(super) images: Option<Vec<(u64, Self)>>,
}

/// The power is off, or was since the handle was opened.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the simulated power is off")]
pub(super) struct PowerCut;

pub(super) fn power_cut() -> io::Error {
    io::Error::other(PowerCut)
}

/// What [`State::begin`] found out about an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    op: Op,
    cut: bool,
    /// The most bytes that a read or write may move.
    pub(super) limit: usize,
}

impl Step {
    /// Whether the power goes during this operation.
    pub(super) const fn is_cut(self) -> bool {
        self.cut
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            generation: 0,
            powered: true,
            nodes: BTreeMap::from([(ROOT, Node::Dir(Names::default()))]),
            next_node: ROOT + 1,
            next_sequence: 0,
            locks: BTreeSet::new(),
            failures: 0,
            mutations: 0,
            calls: 0,
            cut_at: None,
            faults: Vec::new(),
            struck: Vec::new(),
            capacity_bytes: None,
            trace: Vec::new(),
            images: None,
        }
    }

    /// A copy as another disk: same content, durable and not, and nobody has files open.
    pub(super) fn image(&mut self) -> Self {
        let images = self.images.take();
        let trace = std::mem::take(&mut self.trace);
        let mut image = self.clone();
        self.images = images;
        self.trace = trace;
        image.faults.clear();
        image.struck.clear();
        image.cut_at = None;
        image.mutations = 0;
        image.calls = 0;
        image
    }

    /// Whether an operation may take place, and how; counts it.
    pub(super) fn begin(&mut self, op: Op, path: &Path) -> io::Result<Step> {
        if !self.powered {
            return Err(power_cut());
        }
        self.calls += 1;
        let mut step = Step { op, cut: false, limit: usize::MAX };
        if op.mutates() {
            step.cut = self.cut_at.is_some_and(|at| self.mutations >= at);
            self.mutations += 1;
        }
        let struck = self.faults.iter_mut().find_map(|fault| fault.strike(op, path));
        self.faults.retain(|fault| !fault.is_spent());
        if let Some(effect) = struck {
            self.struck.push(Struck { op, path: path.to_owned(), effect });
        }
        match struck {
            Some(Effect::Error(error)) => Err(error.into()),
            Some(Effect::Short(limit)) => {
                step.limit = limit;
                Ok(step)
            }
            None => Ok(step),
        }
    }

    /// The operation's effect is recorded; where the power went, its caller never learns how it ended.
    pub(super) fn finish<T>(&mut self, step: Step, result: io::Result<T>) -> io::Result<T> {
        if step.cut {
            self.powered = false;
            return Err(power_cut());
        }
        if step.op.mutates() && self.images.is_some() {
            let image = self.image();
            self.images.get_or_insert_default().push((self.mutations, image));
        }
        result
    }

    pub(super) const fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        let id = self.next_node;
        self.next_node += 1;
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn node(&mut self, id: NodeId) -> io::Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or_else(|| Errno::STALE.into())
    }

    pub(super) fn names(&mut self, id: NodeId) -> io::Result<&mut Names> {
        match self.node(id)? {
            Node::Dir(names) => Ok(names),
            Node::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    pub(super) fn file(&mut self, id: NodeId) -> io::Result<&mut FileNode> {
        match self.node(id)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// The node of a path, as the process sees it.
    pub(super) fn find(&mut self, path: &Path) -> io::Result<NodeId> {
        let mut at = ROOT;
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    at = self.names(at)?.live.get(name).copied().ok_or(Errno::NOENT)?;
                }
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL.into()),
            }
        }
        Ok(at)
    }

    /// The directory in which a path's last name stands, and that name.
    pub(super) fn find_parent<'p>(&mut self, path: &'p Path) -> io::Result<(NodeId, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = self.find(path.parent().unwrap_or_else(|| Path::new("")))?;
        self.names(parent)?;
        Ok((parent, name))
    }

    pub(super) fn change_names(&mut self, dir: NodeId, change: NameChange) -> io::Result<()> {
        let sequence = self.sequence();
        self.names(dir)?.change(sequence, change);
        Ok(())
    }

    /// Bytes of all files that have a name or a reader; holes count as bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.nodes
            .values()
            .map(|node| match node {
                Node::File(file) if file.linked || file.open > 0 => file.content.live.len() as u64,
                Node::File(_) | Node::Dir(_) => 0,
            })
            .sum()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.capacity_bytes.unwrap_or(PLENTY_BYTES)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(PLENTY_BYTES, |capacity| capacity.saturating_sub(self.used_bytes()))
    }

    /// The process is gone, the kernel lives on: its page cache is still what everybody reads, and still not durable.
    pub(super) fn kill(&mut self) {
        self.generation += 1;
        self.powered = true;
        self.cut_at = None;
        self.locks.clear();
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.open = 0;
            }
        }
    }

    /// The power is gone and back.
    pub(super) fn crash(&mut self, survival: Survival, mut rng: Rng) {
        let waiting: Vec<u64> = self.nodes.values().flat_map(Node::waiting).collect();
        let moment = waiting.get(rng.below(waiting.len())).copied().unwrap_or(0);
        for node in self.nodes.values_mut() {
            let fate = match survival {
                Survival::Nothing => Fate::Lost,
                Survival::Everything => Fate::Kept,
                Survival::InOrder => Fate::Before(moment),
                Survival::Mixed => mixed(&mut rng, moment),
            };
            node.settle(fate, &mut rng);
            node.reload();
        }
        self.drop_unreachable();
        self.kill();
    }

    fn drop_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut todo = vec![ROOT];
        while let Some(id) = todo.pop() {
            if let Some(Node::Dir(names)) = self.nodes.get(&id) {
                todo.extend(names.durable.values().copied().filter(|node| reached.insert(*node)));
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.linked = true;
            }
        }
    }

    /// All that waited is durable.
    pub(super) fn sync_all(&mut self) {
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => file.content.sync(),
                Node::Dir(names) => names.sync(),
            }
        }
    }

    /// The kernel writes files back by itself, and fails.
    pub(super) fn fail_writeback(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            if let Some(Node::File(file)) = self.nodes.get_mut(&id)
                && !file.content.pending.is_empty()
            {
                file.failures += 1;
                self.failures += 1;
                self.fail_sync(id);
            }
        }
    }

    /// A sync of everything fails: each node fares as if its own had failed.
    pub(super) fn fail_sync_of_all(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.fail_sync(id));
    }

    /// A sync of this node fails: what waited for it is durable or not, and nothing waits any more.
    pub(super) fn fail_sync(&mut self, id: NodeId) {
        let mut rng = Rng::new(self.rng.next_u64());
        if let Some(node) = self.nodes.get_mut(&id) {
            let waiting: Vec<u64> = node.waiting().collect();
            let moment = waiting.get(rng.below(waiting.len())).copied().unwrap_or(0);
            node.settle(mixed(&mut rng, moment), &mut rng);
        }
    }
}

/// What may become of one file or directory.
fn mixed(rng: &mut Rng, moment: u64) -> Fate {
    match rng.below(8) {
        0 => Fate::Lost,
        1 => Fate::Kept,
        2 => Fate::Holes,
        3 => Fate::Before(moment),
        _ => Fate::Torn,
    }
}

impl Node {
    /// The sequence numbers of what is not synced.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u64> {
        let (file, dir) = match self {
            Self::File(file) => (Some(&file.content.pending), None),
            Self::Dir(names) => (None, Some(&names.pending)),
        };
        file.into_iter().flatten().map(|(at, _)| *at).chain(dir.into_iter().flatten().map(|(at, _)| *at))
    }

    fn settle(&mut self, fate: Fate, rng: &mut Rng) {
        match self {
            Self::File(file) => file.content.settle(fate, rng),
            Self::Dir(names) => names.settle(fate, rng),
        }
    }

    fn reload(&mut self) {
        match self {
            Self::File(file) => file.content.reload(),
            Self::Dir(names) => names.reload(),
        }
    }
}
