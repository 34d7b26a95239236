//! Reads what `strace -f -yy -s 0 -o FILE` has written: which bytes went from which descriptor to which, by what call.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use anyhow::{Context, Result};

/// The system calls by which bytes of a file can get to a socket, or into the process. Everything that is not in this list
/// moves no bytes between descriptors and memory.
pub const CALLS: &str = "sendfile,read,readv,pread64,preadv,preadv2,mmap,splice,tee,vmsplice,copy_file_range,\
    recvfrom,recvmsg,recvmmsg,write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,sendmmsg,\
    io_uring_setup,io_uring_enter,io_submit,process_vm_readv";

/// Stands for a `preadv2` that was told not to wait, and would have had to: what it asked for was not in the page cache.
pub const NOT_CACHED: &str = "not cached";

/// One call that ended with success; or [`NOT_CACHED`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// The descriptor that the bytes came from; `None` if that is the process's memory.
    pub from: Option<String>,
    /// The descriptor that the bytes went to; `None` if that is the process's memory.
    pub to: Option<String>,
    /// How many bytes.
    pub bytes: u64,
}

/// Puts the halves of interrupted lines together.
#[derive(Debug, Default)]
pub struct Reader {
    begun: HashMap<u32, String>,
}

impl Reader {
    /// Takes the next line of the trace. A call is returned when it is complete and has moved bytes.
    ///
    /// # Errors
    ///
    /// When the line is not understood: a proof that overlooks a line is none.
    pub fn line(&mut self, line: &str) -> Result<Option<Call>> {
        let context = || format!("line of the trace not understood: {line}");
        let (pid, event) = line.split_once(' ').with_context(context)?;
        let pid = pid.parse().with_context(context)?;
        let event = event.trim_start();
        if event.starts_with("+++") || event.starts_with("---") {
            return Ok(None);
        }
        if let Some(head) = event.strip_suffix("<unfinished ...>") {
            self.begun.insert(pid, head.to_owned());
            return Ok(None);
        }
        let whole = match event.strip_prefix("<... ") {
            Some(tail) => {
                let (name, tail) = tail.split_once(" resumed>").with_context(context)?;
                let head = self.begun.remove(&pid).filter(|head| head.starts_with(&format!("{name}(")));
                head.with_context(context)? + tail
            }
            None => event.to_owned(),
        };
        parse(&whole).with_context(context)
    }
}

/// Reads `name(arguments) = result`. `None` within is a call that failed, or that moved nothing.
fn parse(call: &str) -> Option<Option<Call>> {
    let (head, result) = call.rsplit_once(" = ")?;
    let (name, arguments) = head.trim_end().strip_suffix(')')?.split_once('(')?;
    if name == "preadv2" && result.starts_with("-1 EAGAIN") {
        let from = descriptors(arguments).into_iter().next();
        return Some(Some(Call { name: NOT_CACHED.into(), from, to: None, bytes: 0 }));
    }
    // At its end the process's unfinished calls have no result.
    if result.starts_with('?') || result.starts_with("-1 ") {
        return Some(None);
    }
    let result = result.split(' ').next()?;
    let fds = descriptors(arguments);
    let at = |index: usize| fds.get(index).cloned();
    let (from, to) = match name {
        "sendfile" => (Some(at(1)?), Some(at(0)?)),
        "splice" | "tee" | "copy_file_range" => (Some(at(0)?), Some(at(1)?)),
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" | "recvmmsg" => (Some(at(0)?), None),
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg" | "sendmmsg" | "vmsplice" => {
            (None, Some(at(0)?))
        }
        "mmap" => {
            // Memory of no file moves nothing; a mapped file may be read in full without another call.
            let Some(file) = at(0) else { return Some(None) };
            let bytes = arguments.split(", ").nth(1)?.parse().ok()?;
            return Some(Some(Call { name: name.into(), from: Some(file), to: None, bytes }));
        }
        // The rest of the list is not expected at all: let it be seen, with whatever it has.
        _ => (at(0), None),
    };
    let bytes: u64 = result.parse().ok()?;
    Some((bytes > 0).then(|| Call { name: name.into(), from, to, bytes }))
}

/// The descriptors among the arguments, in order: `7</a/path>` gives `/a/path`.
fn descriptors(arguments: &str) -> Vec<String> {
    arguments
        .split(", ")
        .filter_map(|argument| {
            let (number, path) = argument.split_once('<')?;
            number.parse::<u32>().ok()?;
            Some(path.strip_suffix('>')?.to_owned())
        })
        .collect()
}

/// Calls and bytes, by where the bytes came from, where they went and how.
#[derive(Debug, Default)]
pub struct Flows(BTreeMap<Flow, (u64, u64)>);

/// A way that bytes have taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// As in [`Call`].
    pub from: Option<String>,
    /// As in [`Call`].
    pub to: Option<String>,
    /// The call's name.
    pub name: String,
}

impl Flows {
    /// Counts a call.
    pub fn add(&mut self, call: Call) {
        let Call { name, from, to, bytes } = call;
        let (calls, sum) = self.0.entry(Flow { from, to, name }).or_default();
        *calls += 1;
        *sum += bytes;
    }

    /// The calls and bytes of all flows that `of` picks.
    pub fn sum(&self, of: impl Fn(&Flow) -> bool) -> (u64, u64) {
        let picked = self.0.iter().filter(|(flow, _)| of(flow));
        picked.fold((0, 0), |(calls, bytes), (_, more)| (calls + more.0, bytes + more.1))
    }
}

impl fmt::Display for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>14} {:>8}  {:<10} from → to", "bytes", "calls", "call")?;
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
        for (flow, (calls, bytes)) in rows {
            let name = |end: &Option<String>| end.clone().unwrap_or_else(|| "memory".to_owned());
            writeln!(f, "{bytes:>14} {calls:>8}  {:<10} {} → {}", flow.name, name(&flow.from), name(&flow.to))?;
        }
        Ok(())
    }
}

/// Whether a descriptor, as strace names it, is a network socket.
#[must_use]
pub fn is_socket(name: &str) -> bool {
    ["socket:[", "TCP:[", "TCPv6:["].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: &str = "TCP:[127.0.0.1:9092->127.0.0.1:40512]";

    fn read(lines: &[&str]) -> Vec<Call> {
        let mut reader = Reader::default();
        lines.iter().filter_map(|line| reader.line(line).unwrap()).collect()
    }

    fn call(name: &str, from: Option<&str>, to: Option<&str>, bytes: u64) -> Call {
        Call { name: name.into(), from: from.map(Into::into), to: to.map(Into::into), bytes }
    }

    #[test]
    fn both_ends_of_a_sendfile_are_read() {
        let line = format!("14606 sendfile(5<{SOCKET}>, 6</d/0.wal>, [1048576] => [2097152], 1048576) = 1048576");
        assert_eq!(read(&[&line]), [call("sendfile", Some("/d/0.wal"), Some(SOCKET), 1 << 20)]);
    }

    #[test]
    fn reads_and_writes_end_in_memory() {
        let lines = [
            "7 pread64(6</d/0.wal>, \"\"..., 10, 0) = 10",
            "7 preadv2(6</d/0.wal>, [...], 2, 5, 0)   = 30",
            "7 sendto(5<socket:[21784]>, \"\"..., 100, MSG_MORE, NULL, 0) = 100",
            "7 writev(1</dev/null>, [{iov_base=\"\"..., iov_len=7}], 1) = 7",
            "7 sendmsg(5<socket:[21784]>, {msg_name=NULL, msg_iov=[{iov_base=\"\"..., iov_len=29}], msg_iovlen=1}, MSG_MORE) = 29",
        ];
        let expected = [
            call("pread64", Some("/d/0.wal"), None, 10),
            call("preadv2", Some("/d/0.wal"), None, 30),
            call("sendto", None, Some("socket:[21784]"), 100),
            call("writev", None, Some("/dev/null"), 7),
            call("sendmsg", None, Some("socket:[21784]"), 29),
        ];
        assert_eq!(read(&lines), expected);
    }

    #[test]
    fn halves_are_put_together_also_when_threads_interleave() {
        let lines = [
            &format!("1 sendfile(5<{SOCKET}>, 6</d/0.wal>, [0] <unfinished ...>"),
            // Short process ids are padded to five columns.
            "2     read(3<pipe:[1]>,  <unfinished ...>",
            "3     pread64(6</d/0.wal>, \"\"..., 10, 0) = 10",
            "1 <... sendfile resumed>=> [262144], 262144) = 262144",
            "2 <... read resumed>\"\"..., 4096)    = 18",
        ];
        let expected = [
            call("pread64", Some("/d/0.wal"), None, 10),
            call("sendfile", Some("/d/0.wal"), Some(SOCKET), 262_144),
            call("read", Some("pipe:[1]"), None, 18),
        ];
        assert_eq!(read(&lines), expected);
    }

    #[test]
    fn what_failed_or_moved_nothing_does_not_count() {
        let lines = [
            &format!("1 sendfile(5<{SOCKET}>, 6</d/0.wal>, [0], 262144) = -1 EAGAIN (Resource temporarily unavailable)"),
            "1 read(3</d/0.wal>, \"\", 4096) = 0",
            "1 read(3<pipe:[1]>,  <unfinished ...>",
            "1 <... read resumed> <unfinished ...>) = ?",
            "1 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=1, si_uid=0} ---",
            "1 +++ exited with 0 +++",
        ];
        assert_eq!(read(&lines), []);
    }

    #[test]
    fn a_read_that_would_have_waited_for_the_disk_is_told_apart() {
        let lines = [
            "7 preadv2(6</d/0.wal>, [{iov_base=\"\", iov_len=1}], 1, 65536, RWF_NOWAIT) = -1 EAGAIN (Resource temporarily unavailable)",
            "7 read(3<pipe:[1]>, 0x20000, 4096) = -1 EAGAIN (Resource temporarily unavailable)",
        ];
        assert_eq!(read(&lines), [call(NOT_CACHED, Some("/d/0.wal"), None, 0)]);
    }

    #[test]
    fn a_mapped_file_counts_as_read_and_plain_memory_does_not() {
        let lines = [
            "1 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 6</d/0.wal>, 0) = 0x7f811d088000",
            "1 mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f1352c83000",
        ];
        assert_eq!(read(&lines), [call("mmap", Some("/d/0.wal"), None, 4096)]);
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for line in ["", "x", "1 sendfile(5<a>) = 7", "1 <... read resumed>) = 3", "1 read(3<a>, \"\") = many", "1 read(3<a>"] {
            Reader::default().line(line).unwrap_err();
        }
    }

    #[test]
    fn flows_add_up_and_are_shown_largest_first() {
        let mut flows = Flows::default();
        flows.add(call("sendto", None, Some(SOCKET), 69));
        flows.add(call("sendfile", Some("/d/0.wal"), Some(SOCKET), 100));
        flows.add(call("sendfile", Some("/d/0.wal"), Some(SOCKET), 200));
        assert_eq!(flows.sum(|flow| flow.to.as_deref().is_some_and(is_socket)), (3, 369));
        assert_eq!(flows.sum(|flow| flow.from.as_deref().is_some_and(is_socket)), (0, 0));
        let shown = flows.to_string();
        let rows: Vec<_> = shown.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[1].contains("sendfile   /d/0.wal → TCP:["), "{shown}");
        assert!(rows[2].contains("sendto     memory → TCP:["), "{shown}");
    }
}
