//! Answers that C puts together where the engine has them: no copy is made of what it writes.
//!
//! That is only written to, each value behind the others, since a peer may see it and change it. An answer of which C wants
//! anything else, as to read in it or to write an object, becomes data of its own, which the engine gets in the end.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use handoff_ipc::parcel::Writer;

use super::{AParcel, StatusResult, readable, writable};

/// Whom the values of an answer go to.
pub(super) struct Place(NonNull<Writer<'static>>);

// SAFETY: a parcel that has one is lent to C by the thread whose it is, and never moved.
unsafe impl Send for Place {}

impl AParcel {
    /// Has `work` put an answer together, in the place of all that `writer` holds.
    ///
    /// # Errors
    /// If it does not fit.
    #[inline]
    pub(crate) fn answering<R>(
        writer: &mut Writer<'_>,
        work: impl FnOnce(&mut AParcel) -> R,
    ) -> handoff_ipc::Result<R> {
        writer.truncate(0);
        let mut parcel = AParcel::default();
        // The parcel is gone before the borrow of `writer` ends.
        parcel.answer = Some(Place(NonNull::from(&mut *writer).cast()));
        let outcome = work(&mut parcel);
        if parcel.answer.is_none() {
            parcel.send_answer(writer)?;
        } else {
            // It never had data of its own: nothing is to be dropped.
            std::mem::forget(parcel);
        }
        Ok(outcome)
    }

    #[cold]
    fn send_answer(self, writer: &mut Writer<'_>) -> handoff_ipc::Result<()> {
        writer.truncate(0);
        self.data.send(writer)
    }

    #[inline]
    pub(super) fn answer(&mut self) -> Option<&mut Writer<'static>> {
        // SAFETY: `answering` has borrowed it for this parcel alone.
        self.answer.as_mut().map(|place| unsafe { place.0.as_mut() })
    }

    /// From now on the answer is data of its own.
    #[cold]
    pub(super) fn take_answer_back(&mut self) {
        if let Some(answer) = self.answer() {
            let mut bytes = Vec::new();
            answer.copy_into(&mut bytes);
            self.answer = None;
            *self.data.parts_mut().0 = bytes;
        }
    }
}

/// [`readable`], of an answer too.
///
/// # Safety
/// `parcel` is null or a parcel that nobody else uses meanwhile, and C may write it if it is an answer.
pub(super) unsafe fn whole<'a>(parcel: *const AParcel) -> StatusResult<&'a AParcel> {
    // SAFETY: the caller's promise.
    if unsafe { readable(parcel) }?.answer.is_some() {
        // SAFETY: C has got an answer as one that it may write, and nobody else uses it.
        unsafe { writable(parcel.cast_mut()) }?.take_answer_back();
    }
    // SAFETY: the caller's promise.
    unsafe { readable(parcel) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::super::*;

    /// Things that C may do with a parcel that it writes.
    const DOINGS: usize = 13;
    /// The first of them only write.
    const WRITES: usize = 6;
    const GOES_BACK: usize = 6;

    /// Does one of them; gives what C was told.
    fn does(parcel: &mut AParcel, doing: usize) -> i32 {
        let parcel = &raw mut *parcel;
        // SAFETY: a parcel that nobody else uses, and as many bytes as are said.
        unsafe {
            let size = AParcel_getDataSize(parcel);
            match doing {
                0 => AParcel_writeInt32(parcel, 7),
                1 => AParcel_writeInt64(parcel, -7),
                2 => AParcel_writeByteArray(parcel, [1, 2, 3, 4, 5].as_ptr(), 5),
                3 => AParcel_writeByteArray(parcel, [9; 5000].as_ptr(), 5000),
                4 => AParcel_writeInt32Array(parcel, std::ptr::null(), -1),
                5 => AParcel_writeString(parcel, c"text".as_ptr(), 4),
                GOES_BACK => {
                    // As for the size in front of a parcelable.
                    let end = AParcel_getDataPosition(parcel);
                    let back = AParcel_setDataPosition(parcel, 0);
                    back + AParcel_writeInt32(parcel, end) + AParcel_setDataPosition(parcel, end)
                }
                7 => AParcel_appendFrom(parcel, parcel, 0, size.min(12)),
                8 => {
                    let mut bytes = [0; 8];
                    let told = AParcel_marshal(parcel, bytes.as_mut_ptr(), 0, size.min(8) as usize);
                    told + bytes.map(i32::from).iter().sum::<i32>()
                }
                9 => {
                    let mut found = 0;
                    AParcel_readInt32(parcel, &raw mut found) + found
                }
                10 => AParcel_unmarshal(parcel, [5; 12].as_ptr(), 12),
                11 => AParcel_reset(parcel),
                _ => {
                    AParcel_markSensitive(parcel);
                    0
                }
            }
        }
    }

    #[test]
    fn an_answer_becomes_what_a_parcel_of_its_own_becomes_whatever_c_does() {
        for case in 0..DOINGS.pow(3) * 2 {
            let doings = [case, case / DOINGS, case / DOINGS / DOINGS].map(|doing| doing % DOINGS);
            let last = if case < DOINGS.pow(3) { 0 } else { GOES_BACK };
            let all = |parcel: &mut AParcel| {
                let told = [doings, doings].map(|doings| doings.map(|doing| does(parcel, doing)));
                (told, does(parcel, last), parcel.position.get(), parcel.size())
            };
            let mut own = AParcel::default();
            let told = all(&mut own);
            let mut bytes = Vec::new();
            let mut writer = Writer::growing(&mut bytes);
            // In its place, as the exception that the runtime writes.
            writer.write_i32(3).unwrap();
            let answered = AParcel::answering(&mut writer, all).unwrap();
            let objects = writer.finish();
            assert_eq!((answered, &bytes[..], objects.len()), (told, own.bytes(), 0), "{doings:?}");
        }
    }

    #[test]
    fn values_that_follow_each_other_are_nowhere_else() {
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        let here = AParcel::answering(&mut writer, |parcel| {
            assert_eq!((0..WRITES).map(|doing| does(parcel, doing)).sum::<i32>(), 0);
            (parcel.answer.is_some(), parcel.data.as_bytes().len(), parcel.size())
        });
        let len = writer.len();
        assert_eq!(here.unwrap(), (true, 0, len));
    }

    #[test]
    fn objects_of_an_answer_arrive() {
        let (end, _other) = std::io::pipe().unwrap();
        let mut bytes = Vec::new();
        let mut writer = Writer::growing(&mut bytes);
        let write = |parcel: &mut AParcel| {
            parcel.put_i32(7)?;
            parcel.put_objects(|to| to.write_fd(end.as_fd()))?;
            parcel.put_i32(8)
        };
        AParcel::answering(&mut writer, write).unwrap().unwrap();
        let objects = writer.finish();
        assert_eq!((objects.len(), objects[0].0, bytes.len()), (1, 4, 8 + FLAT_OBJECT_SIZE));
    }
}
