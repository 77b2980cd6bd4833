//! What a queue carries: values of a fixed size, laid out as C does.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// A value of a fixed size that travels in a queue.
///
/// It is put into shared memory and read back field by field, so that no value that Rust forbids
/// ever comes out of memory that somebody else writes to. Numbers and arrays are items;
/// [`queue_item!`](crate::queue_item) makes one of a struct, laid out as C does:
///
/// ```
/// use handoff_ipc::queue::Item;
///
/// #[derive(Debug, Clone, PartialEq)]
/// struct Sample { at: i64, channel: u8, value: f32 }
/// handoff_ipc::queue_item!(Sample { at: i64, channel: u8, value: f32 });
/// assert_eq!((Sample::SIZE, Sample::ALIGN), (16, 8));
/// ```
pub trait Item: Sized {
    /// Bytes that a value takes: FMQ's quantum. Not 0.
    const SIZE: usize;

    /// Its alignment within a struct, in bytes.
    const ALIGN: usize;

    /// Puts the value into its place of `SIZE` bytes.
    fn put(&self, to: ItemMut<'_>);

    /// Reads a value. Any bytes are one.
    fn get(from: ItemRef<'_>) -> Self;

    /// Puts values one after the other.
    #[inline]
    fn put_all(items: &[Self], to: ItemMut<'_>) {
        for (index, item) in items.iter().enumerate() {
            item.put(to.part(index * Self::SIZE, Self::SIZE));
        }
    }

    /// Reads values that lie one after the other.
    #[inline]
    fn get_all(from: ItemRef<'_>, items: &mut [Self]) {
        for (index, item) in items.iter_mut().enumerate() {
            *item = Self::get(from.part(index * Self::SIZE, Self::SIZE));
        }
    }
}

/// Where a value is put: a few bytes of shared memory.
#[derive(Debug)]
pub struct ItemMut<'a> {
    // Invariant: `start..start + len` is writable for 'a; others may read and write it.
    start: *mut u8,
    len: usize,
    owner: PhantomData<&'a mut [u8]>,
}

/// Where a value is read from: a few bytes of shared memory.
#[derive(Debug)]
pub struct ItemRef<'a> {
    // Invariant: `start..start + len` is readable for 'a; others may write to it.
    start: *const u8,
    len: usize,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> ItemMut<'a> {
    /// # Safety
    /// `start..start + len` must be writable for `'a`.
    #[inline]
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        ItemMut { start, len, owner: PhantomData }
    }

    /// Private memory as the same type.
    pub fn from_slice(bytes: &'a mut [u8]) -> Self {
        // SAFETY: a slice is writable for its lifetime.
        unsafe { ItemMut::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// The part of `len` bytes from `at`.
    ///
    /// # Panics
    /// If it reaches past the end.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> ItemMut<'_> {
        assert!(at <= self.len && len <= self.len - at, "a field past the end of its item");
        // SAFETY: just checked to lie inside.
        unsafe { ItemMut::new(self.start.add(at), len) }
    }

    /// Copies `bytes` to the start.
    ///
    /// # Panics
    /// If they are more than there is room for.
    #[inline]
    pub fn put(self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "more bytes than the item has");
        // SAFETY: just checked to fit; a slice of this process never overlaps a queue's memory,
        // because no reference into that is ever made.
        unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl<'a> ItemRef<'a> {
    /// # Safety
    /// `start..start + len` must be readable for `'a`.
    #[inline]
    pub(super) unsafe fn new(start: *const u8, len: usize) -> Self {
        ItemRef { start, len, owner: PhantomData }
    }

    /// Private memory as the same type.
    pub fn from_slice(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice is readable for its lifetime.
        unsafe { ItemRef::new(bytes.as_ptr(), bytes.len()) }
    }

    /// The part of `len` bytes from `at`.
    ///
    /// # Panics
    /// If it reaches past the end.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> ItemRef<'a> {
        assert!(at <= self.len && len <= self.len - at, "a field past the end of its item");
        // SAFETY: just checked to lie inside.
        unsafe { ItemRef::new(self.start.add(at), len) }
    }

    /// Copies the first bytes out.
    ///
    /// # Panics
    /// If more are asked for than there are.
    #[inline]
    pub fn get(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.len, "more bytes than the item has");
        // SAFETY: just checked to be there. A peer's write at the same time can tear the copy, which
        // is why any bytes have to be a value.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.start, bytes.len()) }
    }

    /// The first `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.get(&mut bytes);
        bytes
    }
}

impl Item for u8 {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;
    #[inline]
    fn put(&self, to: ItemMut<'_>) {
        to.put(&[*self]);
    }
    #[inline]
    fn get(from: ItemRef<'_>) -> Self {
        from.array::<1>()[0]
    }
    #[inline]
    fn put_all(items: &[Self], to: ItemMut<'_>) {
        to.put(items);
    }
    #[inline]
    fn get_all(from: ItemRef<'_>, items: &mut [Self]) {
        from.get(items);
    }
}

macro_rules! number_items {
    ($($type:ty),+) => { $(
        impl Item for $type {
            const SIZE: usize = size_of::<$type>();
            const ALIGN: usize = size_of::<$type>();
            #[inline]
            fn put(&self, to: ItemMut<'_>) {
                to.put(&self.to_ne_bytes());
            }
            #[inline]
            fn get(from: ItemRef<'_>) -> Self {
                <$type>::from_ne_bytes(from.array())
            }
        }
    )+ };
}

number_items!(i8, i16, u16, i32, u32, i64, u64, f32, f64);

/// Anything but 0 is true.
impl Item for bool {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;
    #[inline]
    fn put(&self, to: ItemMut<'_>) {
        to.put(&[u8::from(*self)]);
    }
    #[inline]
    fn get(from: ItemRef<'_>) -> Self {
        u8::get(from) != 0
    }
}

impl<T: Item, const N: usize> Item for [T; N] {
    const SIZE: usize = T::SIZE * N;
    const ALIGN: usize = T::ALIGN;
    #[inline]
    fn put(&self, to: ItemMut<'_>) {
        T::put_all(self, to);
    }
    #[inline]
    fn get(from: ItemRef<'_>) -> Self {
        let mut items = [const { None }; N];
        for (index, item) in items.iter_mut().enumerate() {
            *item = Some(T::get(from.part(index * T::SIZE, T::SIZE)));
        }
        items.map(|item| match item {
            Some(item) => item,
            None => unreachable!("each was just read"),
        })
    }
    #[inline]
    fn get_all(from: ItemRef<'_>, items: &mut [Self]) {
        T::get_all(from, items.as_flattened_mut());
    }
    #[inline]
    fn put_all(items: &[Self], to: ItemMut<'_>) {
        T::put_all(items.as_flattened(), to);
    }
}

/// Makes a struct an [`crate::queue::Item`]: its fields, in order, at the offsets that C gives
/// them. Padding is written as zeros.
#[macro_export]
macro_rules! queue_item {
    ($name:ty { $($field:ident : $type:ty),+ $(,)? }) => {
        impl $crate::queue::Item for $name {
            const ALIGN: usize = {
                let mut align = 1;
                $(if <$type as $crate::queue::Item>::ALIGN > align {
                    align = <$type as $crate::queue::Item>::ALIGN;
                })+
                align
            };
            const SIZE: usize = {
                let mut at = 0_usize;
                $(
                    at = at.next_multiple_of(<$type as $crate::queue::Item>::ALIGN);
                    at += <$type as $crate::queue::Item>::SIZE;
                )+
                at.next_multiple_of(<Self as $crate::queue::Item>::ALIGN)
            };
            #[inline]
            #[allow(unused_assignments)]
            fn put(&self, to: $crate::queue::ItemMut<'_>) {
                let mut at = 0_usize;
                $(
                    let start = at.next_multiple_of(<$type as $crate::queue::Item>::ALIGN);
                    // What another process put there before is no part of this value.
                    to.part(at, start - at).put(&[0; 8][..start - at]);
                    let size = <$type as $crate::queue::Item>::SIZE;
                    $crate::queue::Item::put(&self.$field, to.part(start, size));
                    at = start + size;
                )+
                let rest = <Self as $crate::queue::Item>::SIZE - at;
                to.part(at, rest).put(&[0; 8][..rest]);
            }
            #[inline]
            #[allow(unused_assignments)]
            fn get(from: $crate::queue::ItemRef<'_>) -> Self {
                let mut at = 0_usize;
                $(
                    at = at.next_multiple_of(<$type as $crate::queue::Item>::ALIGN);
                    let size = <$type as $crate::queue::Item>::SIZE;
                    let $field = <$type as $crate::queue::Item>::get(from.part(at, size));
                    at += size;
                )+
                Self { $($field),+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    #[repr(C)]
    struct Mixed {
        flag: bool,
        id: u64,
        channels: [i16; 3],
        value: f32,
        last: u8,
    }
    crate::queue_item!(Mixed { flag: bool, id: u64, channels: [i16; 3], value: f32, last: u8 });

    #[test]
    fn a_struct_lies_as_c_lays_it_out() {
        assert_eq!((Mixed::SIZE, Mixed::ALIGN), (size_of::<Mixed>(), align_of::<Mixed>()));
        let value = Mixed { flag: true, id: 0x0102, channels: [-1, 2, -3], value: 1.5, last: 9 };
        let mut bytes = vec![0xee; Mixed::SIZE];
        value.put(ItemMut::from_slice(&mut bytes));
        assert_eq!(bytes[std::mem::offset_of!(Mixed, flag)], 1);
        assert_eq!(bytes[std::mem::offset_of!(Mixed, id)..][..8], 0x0102_u64.to_ne_bytes());
        assert_eq!(bytes[std::mem::offset_of!(Mixed, value)..][..4], 1.5_f32.to_ne_bytes());
        assert_eq!(bytes[std::mem::offset_of!(Mixed, last)], 9);
        assert!(bytes[1..8].iter().all(|byte| *byte == 0), "no old bytes travel in the padding");
        assert_eq!(Mixed::get(ItemRef::from_slice(&bytes)), value);
    }

    #[test]
    fn any_bytes_are_a_value() {
        let bytes = vec![0xff; Mixed::SIZE];
        let value = Mixed::get(ItemRef::from_slice(&bytes));
        assert!(value.flag);
        assert_eq!(value.channels, [-1; 3]);
    }

    #[test]
    fn arrays_of_arrays_are_read_as_they_were_put() {
        let values = [[[1_u16, 2], [3, 4]], [[5, 6], [7, 8]]];
        let mut bytes = [0; 16];
        Item::put_all(&values, ItemMut::from_slice(&mut bytes));
        let mut read = [[[0_u16; 2]; 2]; 2];
        Item::get_all(ItemRef::from_slice(&bytes), &mut read);
        assert_eq!(read, values);
        assert_eq!(<[[u16; 2]; 2]>::get(ItemRef::from_slice(&bytes)), values[0]);
    }

    #[test]
    #[should_panic(expected = "more bytes than the item has")]
    fn an_item_cannot_write_past_its_end() {
        7_u64.put(ItemMut::from_slice(&mut [0; 4]));
    }
}
