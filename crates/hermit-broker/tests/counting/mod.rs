//! An allocator that counts, for tests that allow only so many allocations. The tests of other crates include this file by its path.
#![expect(unsafe_code, reason = "an allocator that counts")]
#![allow(dead_code, unreachable_pub, missing_docs, reason = "test support, of which each test uses a part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
    static LARGE_HERE: Cell<u64> = const { Cell::new(0) };
}

/// What is larger comes as fresh pages from the system, as a rule.
const LARGE_BYTES: usize = 256 << 10;

/// Allocations of this thread so far.
pub fn here() -> u64 {
    HERE.get()
}

/// Those of 256 KiB and more.
pub fn large_here() -> u64 {
    LARGE_HERE.get()
}

/// Allocations of all other threads so far.
pub fn elsewhere() -> u64 {
    EVERYWHERE.load(Ordering::Relaxed) - here()
}

fn count(size: usize) {
    // A thread that ends counts for nobody.
    if size >= LARGE_BYTES && LARGE_HERE.try_with(|here| here.set(here.get() + 1)).is_err() {
        return;
    }
    if HERE.try_with(|here| here.set(here.get() + 1)).is_ok() {
        EVERYWHERE.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: it is the system's allocator, which keeps the contract; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// How many allocations more, by `counted`, `work` with twice as many items makes than with `items`.
pub fn grows_by(items: usize, counted: fn() -> u64, mut work: impl FnMut(usize)) -> u64 {
    let mut found = [0; 2];
    // The first round fills what is kept.
    for (round, items) in [(0, items), (0, items), (1, 2 * items)] {
        let before = counted();
        work(items);
        found[round] = counted() - before;
    }
    found[1].saturating_sub(found[0])
}
