//! The process's memory: mimalloc, and each large piece in a mapping of its own.
//!
//! Allocators keep what is freed for later. For small pieces that is what makes them fast; a few buffers of 50 MiB that are kept make the process look
//! larger by half than what it holds, and only the budget for received bytes is promised. A mapping is gone with its piece, costs no memory before it is
//! written, and grows by moving its pages' entries instead of their bytes.
#![expect(unsafe_code, reason = "an allocator cannot be had without")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

use mimalloc::MiMalloc;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// From here on a piece is mapped. To map, to fill and to unmap costs as much as the pages do, some tenths of a microsecond for 4 KiB: reads and batches of
/// usual sizes stay with mimalloc.
const MAPPED_BYTES: usize = 4 << 20;
/// Mappings begin at pages, of 4 KiB at least.
const MAPPED_ALIGN: usize = 4 << 10;

/// The allocator of `hermitd`.
#[derive(Debug)]
pub struct Allocator;

/// Where a piece is follows from its layout alone, so that whoever frees it knows.
const fn is_mapped(size: usize, align: usize) -> bool {
    size >= MAPPED_BYTES && align <= MAPPED_ALIGN
}

fn map(size: usize) -> *mut u8 {
    // SAFETY: the system chooses a place that nobody has.
    let mapped = unsafe { mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    mapped.map_or(null_mut(), <*mut _>::cast)
}

// SAFETY: each piece comes from mimalloc or is a fresh mapping of at least its size, at a page's beginning; which of both is decided by its layout, the
// same way whenever it is touched. Nothing here allocates or panics.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: as the caller promises.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            // Fresh pages are zero.
            return map(layout.size());
        }
        // SAFETY: as the caller promises.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        if is_mapped(layout.size(), layout.align()) {
            // SAFETY: the piece is a mapping of this size, and the caller is done with it. If the system refuses, it stays mapped, which is safe.
            let _kept = unsafe { munmap(piece.cast(), layout.size()) };
            return;
        }
        // SAFETY: as the caller promises; the piece is mimalloc's.
        unsafe { MiMalloc.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        match (is_mapped(layout.size(), layout.align()), is_mapped(new_size, layout.align())) {
            // SAFETY: as the caller promises; the piece is mimalloc's, and will be.
            (false, false) => unsafe { MiMalloc.realloc(piece, layout, new_size) },
            (true, true) => {
                // SAFETY: the piece is a mapping of this size, and nobody but the caller knows where it is.
                let moved = unsafe { mremap(piece.cast(), layout.size(), new_size, MremapFlags::MAYMOVE) };
                moved.map_or(null_mut(), <*mut _>::cast)
            }
            _ => {
                // SAFETY: the caller promises that the new size is one that a layout may have.
                let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
                // SAFETY: the size is not zero: the caller promises so.
                let new = unsafe { self.alloc(new_layout) };
                if !new.is_null() {
                    // SAFETY: both are at least as long as the shorter one, and the new one is nobody else's.
                    unsafe { std::ptr::copy_nonoverlapping(piece, new, layout.size().min(new_size)) };
                    // SAFETY: as the caller promises; its bytes are in the new one.
                    unsafe { self.dealloc(piece, layout) };
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 7] =
        [1, 4096, MAPPED_BYTES - 1, MAPPED_BYTES, MAPPED_BYTES + 1, 2 * MAPPED_BYTES + 4097, 5 * MAPPED_BYTES];

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// What the byte at a place is to be.
    fn byte(at: usize) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    /// Sets every 997th byte, and the last.
    fn fill(piece: *mut u8, size: usize) {
        for at in (0..size).step_by(997).chain([size - 1]) {
            // SAFETY: within the piece.
            unsafe { piece.add(at).write(byte(at)) };
        }
    }

    fn check(piece: *const u8, size: usize) {
        for at in (0..size).step_by(997) {
            // SAFETY: within the piece, and it was filled.
            assert_eq!(unsafe { piece.add(at).read() }, byte(at), "byte {at}");
        }
    }

    #[test]
    fn pieces_of_all_sizes_keep_their_bytes_as_they_grow_and_shrink_across_the_border() {
        for from in SIZES {
            for to in SIZES {
                // SAFETY: a piece is freed once, by the layout that it has then.
                unsafe {
                    let piece = Allocator.alloc(layout(from, 8));
                    fill(piece, from);
                    let moved = Allocator.realloc(piece, layout(from, 8), to);
                    check(moved, from.min(to));
                    fill(moved, to);
                    Allocator.dealloc(moved, layout(to, 8));
                }
            }
        }
    }

    #[test]
    fn zeroed_pieces_are_zero_and_large_alignments_are_kept() {
        for size in SIZES {
            for align in [1, 64, 4096, 1 << 16] {
                // SAFETY: as above; a zeroed piece can be read.
                unsafe {
                    let piece = Allocator.alloc_zeroed(layout(size, align));
                    assert!(piece.addr().is_multiple_of(align));
                    assert!((0..size).step_by(997).all(|at| piece.add(at).read() == 0));
                    Allocator.dealloc(piece, layout(size, align));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_had_is_null() {
        let all = layout(isize::MAX as usize - 4096, 1);
        // SAFETY: a piece of a page is freed once.
        unsafe {
            assert!(Allocator.alloc(all).is_null());
            let piece = Allocator.alloc(layout(MAPPED_BYTES, 1));
            assert!(Allocator.realloc(piece, layout(MAPPED_BYTES, 1), all.size()).is_null());
            fill(piece, MAPPED_BYTES);
            Allocator.dealloc(piece, layout(MAPPED_BYTES, 1));
        }
    }
}
