//! What a parcel promises: Android's bytes, every value comes back, and no bytes make it panic.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use proptest::prelude::*;

use super::*;
use crate::ParcelService;
use crate::object::Binder;
use crate::{Error, Result};

type Objects = Vec<(u32, Option<Object>)>;

/// What `write` writes, and the objects beside it.
fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> (Vec<u8>, Objects) {
    let mut bytes = Vec::new();
    let mut writer = Writer::growing(&mut bytes);
    write(&mut writer).unwrap();
    let objects = writer.finish().into_iter().map(|(at, object)| (at, Some(object))).collect();
    (bytes, objects)
}

fn bytes_of<T: Parcelable>(value: &T) -> Vec<u8> {
    written(|to| to.write(value)).0
}

fn read_back<T: Parcelable>(bytes: &[u8]) -> Result<T> {
    Reader::new(SharedBytes::from_slice(bytes)).read()
}

#[test]
fn a_byte_vector_is_lent_where_it_lies_in_private_memory_and_copied_out_of_shared() {
    let bytes = bytes_of(&vec![7u8; 5]);
    let end = 4i32.to_le_bytes();
    let long = [&bytes[..], &end].concat();
    for (is_lent, mut reader) in
        [(true, Reader::of_slice(&long)), (false, Reader::new(SharedBytes::from_slice(&long)))]
    {
        let read = reader.read_byte_slice().unwrap();
        assert_eq!((&*read, matches!(read, Cow::Borrowed(_))), (&[7; 5][..], is_lent));
        assert_eq!(reader.read_i32().unwrap(), 4, "it is behind the padding");
        assert!(reader.read_byte_slice().is_err());
    }
    for bad in [-1, -2, 6, i32::MAX] {
        let bytes = [&i32::to_le_bytes(bad)[..], &[0; 5]].concat();
        assert!(Reader::of_slice(&bytes).read_byte_slice().is_err(), "{bad}");
    }
}

/// As wide as memory gets for a null, which takes four bytes of a parcel.
type Wide = Option<[u64; 512]>;

#[test]
fn counts_of_wide_items_are_bounded_by_what_the_parcel_holds() {
    let nulls = |count: usize| {
        let mut bytes = (count as i32).to_le_bytes().to_vec();
        bytes.resize(4 + 4 * count, 0xff);
        bytes
    };
    assert_eq!(read_back::<Vec<Wide>>(&nulls(4000)).unwrap().len(), 4000, "16 MiB of memory for 16 KB");
    let error = read_back::<Vec<Wide>>(&nulls(4200)).unwrap_err();
    assert!(error.to_string().contains("4200 more values of 4104 bytes"), "{error}");
    // Many small arrays are as one.
    let many = [(200i32).to_le_bytes().to_vec(), nulls(100).repeat(200)].concat();
    assert!(read_back::<Vec<Vec<Wide>>>(&many).is_err());
    let room = |length: i32| length.to_le_bytes().repeat(3);
    let ask = |bytes: &[u8]| {
        let mut reader = Reader::new(SharedBytes::from_slice(bytes));
        (0..3).filter(|_| reader.read_room::<u64>().is_ok()).count()
    };
    assert_eq!([ask(&room(600_000)), ask(&room(1 << 20))], [3, 2]);
    // What is there in full has its room, however much it is.
    let full = bytes_of(&vec![Some([7u64; 512]); 5000]);
    assert_eq!(read_back::<Vec<Wide>>(&full).unwrap().len(), 5000);
    let texts = bytes_of(&vec![String::new(); 1 << 20]);
    assert_eq!(read_back::<Vec<String>>(&texts).unwrap().len(), 1 << 20);
}

fn nothing() -> Binder {
    Binder::new(ParcelService::new("test.INothing", |_, _| Ok(None)))
}

/// A structured parcelable as an interface compiler would make it.
#[derive(Debug, Clone, PartialEq)]
struct Record {
    id: i32,
    name: Option<String>,
    data: Vec<u8>,
}

impl Parcelable for Record {
    fn write_to(&self, to: &mut Writer<'_>) -> Result<()> {
        to.write_sized(|to| {
            to.write(&self.id)?;
            to.write(&self.name)?;
            to.write(&self.data)
        })
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        from.read_sized(|from| Ok(Record { id: from.read()?, name: from.read()?, data: from.read()? }))
    }
}

impl Nullable for Record {}

// ---- Android's bytes, by hand ---------------------------------------------------------------

#[test]
fn numbers_are_little_endian_and_four_bytes_aligned() {
    assert_eq!(bytes_of(&0x0102_0304i32), [4, 3, 2, 1]);
    assert_eq!(bytes_of(&-1i32), [0xff; 4]);
    assert_eq!(bytes_of(&true), [1, 0, 0, 0]);
    assert_eq!(bytes_of(&0xabu8), [0xab, 0, 0, 0]);
    // A Java byte is widened with its sign.
    assert_eq!(bytes_of(&-2i8), [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(bytes_of(&u16::from(b'A')), [b'A', 0, 0, 0]);
    assert_eq!(bytes_of(&1.0f32), [0, 0, 0x80, 0x3f]);
    assert_eq!(bytes_of(&1.0f64), [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    // No gap is left in front of 64 bits.
    let (bytes, _) = written(|to| {
        to.write_i32(1)?;
        to.write_i64(2)
    });
    assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn text_has_a_length_a_zero_and_padding() {
    // String16: units, the units, a zero unit, up to four bytes.
    assert_eq!(bytes_of(&"hi".to_owned()), [2, 0, 0, 0, b'h', 0, b'i', 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(&"h".to_owned()), [1, 0, 0, 0, b'h', 0, 0, 0]);
    assert_eq!(bytes_of(&String::new()), [0, 0, 0, 0, 0, 0, 0, 0]);
    // One character outside the basic plane is two units.
    assert_eq!(bytes_of(&"😀".to_owned()), [2, 0, 0, 0, 0x3d, 0xd8, 0x00, 0xde, 0, 0, 0, 0]);
    assert_eq!(bytes_of(&None::<String>), [0xff; 4]);
    // String8: bytes, a zero byte, up to four bytes.
    assert_eq!(bytes_of(&Utf8("abc".into())), [3, 0, 0, 0, b'a', b'b', b'c', 0]);
    assert_eq!(bytes_of(&Utf8("abcd".into())), [4, 0, 0, 0, b'a', b'b', b'c', b'd', 0, 0, 0, 0]);
    assert_eq!(bytes_of(&None::<Utf8>), [0xff; 4]);
}

#[test]
fn arrays_have_a_count_and_bytes_are_packed() {
    assert_eq!(bytes_of(&vec![1u8, 2, 3, 4, 5]), [5, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
    assert_eq!(bytes_of(&vec![-1i8]), [1, 0, 0, 0, 0xff, 0, 0, 0]);
    assert_eq!(bytes_of(&vec![true, false]), [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(&vec![1i32, 2]), [2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes_of(&None::<Vec<i32>>), [0xff; 4]);
    assert_eq!(bytes_of(&Vec::<i64>::new()), [0; 4]);
    let in_place = written(|to| to.write_bytes_with(5, |bytes| assert_eq!(bytes.push(&[9; 5]), 5))).0;
    assert_eq!(in_place, [5, 0, 0, 0, 9, 9, 9, 9, 9, 0, 0, 0]);
    let in_parts = |bytes: &mut BytesWriter<'_>| {
        assert_eq!((bytes.push(&[1, 2]), bytes.remaining()), (2, 4));
        assert!(std::io::Write::write_all(bytes, &[3; 5]).is_err(), "there is room for four");
        assert_eq!(bytes.push(&[4]), 0);
    };
    assert_eq!(written(|to| to.write_bytes_with(6, in_parts)).0, [6, 0, 0, 0, 1, 2, 3, 3, 3, 3, 0, 0]);
    let unwritten = |bytes: &mut BytesWriter<'_>| assert_eq!(bytes.push(&[7]), 1);
    assert_eq!(written(|to| to.write_bytes_with(3, unwritten)).0, [3, 0, 0, 0, 7, 0, 0, 0]);
}

#[test]
fn parcelables_have_their_size_in_front_and_may_grow() {
    let record = Record { id: 7, name: None, data: vec![1] };
    let bytes = [16, 0, 0, 0, 7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1, 0, 0, 0];
    // The size counts itself: 4 + 4 + 4 + 8.
    let expected: Vec<u8> = [&[20, 0, 0, 0][..], &bytes[4..]].concat();
    assert_eq!(bytes_of(&record), expected);
    assert_eq!(bytes_of(&Some(record.clone()))[..4], [1, 0, 0, 0]);
    assert_eq!(bytes_of(&None::<Record>), [0; 4]);
    // From a newer version, with a field more; what follows is found all the same.
    let (newer, _) = written(|to| {
        to.write_sized(|to| {
            to.write_i32(7)?;
            to.write_null_length()?;
            to.write_bytes(&[1])?;
            to.write_i64(99)
        })?;
        to.write_i32(5)
    });
    let mut reader = Reader::new(SharedBytes::from_slice(&newer));
    assert_eq!(reader.read::<Record>().unwrap(), record);
    assert_eq!(reader.read_i32().unwrap(), 5);
    // From an older version, with a field less: an error, not bytes of what follows.
    let (older, _) = written(|to| {
        to.write_sized(|to| to.write_i32(7))?;
        to.write_i64(0)
    });
    assert!(matches!(read_back::<Record>(&older), Err(Error::BadParcel { .. })));
}

#[test]
fn objects_stand_as_flat_binder_objects() {
    let object = nothing();
    let (bytes, objects) = written(|to| {
        to.write_i32(1)?;
        to.write_binder(Some(&object))?;
        to.write_binder(None)?;
        to.write_fd(File::open("/dev/null").unwrap())
    });
    // The type is B_PACK_CHARS(a, b, '*', 0x85), so its last letter comes first in memory.
    let flat = |kind: &[u8; 2]| -> Vec<u8> {
        [&[0x85, b'*', kind[1], kind[0]][..], &[0; FLAT_OBJECT_SIZE - 4]].concat()
    };
    let expected: Vec<u8> = [
        vec![1, 0, 0, 0],
        flat(b"sb"),
        vec![12, 0, 0, 0], // stability: system
        flat(b"sb"),
        vec![0, 0, 0, 0],
        flat(b"fd"),
    ]
    .concat();
    assert_eq!(bytes, expected);
    let at: Vec<u32> = objects.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [4, 4 + 24 + 4 + 24 + 4]);
}

// ---- what is written comes back ----------------------------------------------------------------

#[test]
fn objects_and_descriptors_come_back_once() {
    let object = nothing();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"inside").unwrap();
    let (bytes, mut objects) = written(|to| {
        to.write(&Some(object.clone()))?;
        to.write(&None::<Binder>)?;
        to.write(&OwnedFd::from(file.try_clone().unwrap()))
    });
    let mut reader = Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects);
    assert_eq!(reader.read::<Option<Binder>>().unwrap(), Some(object));
    assert_eq!(reader.read::<Option<Binder>>().unwrap(), None);
    let mut back = File::from(reader.read::<OwnedFd>().unwrap());
    back.rewind().unwrap();
    let mut text = String::new();
    back.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), reader.remaining()), ("inside", 0));
    // A second look at the same place, a wrong kind, and a place that only looks like an object.
    let mut again = Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects);
    assert!(matches!(again.read::<Binder>(), Err(Error::BadParcel { .. })));
    let (bytes, mut objects) = written(|to| to.write(&nothing()));
    let mut reader = Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects);
    assert!(matches!(reader.read_fd(), Err(Error::BadParcel { .. })));
    assert!(matches!(read_back::<Binder>(&bytes), Err(Error::BadParcel { .. })));
}

/// One value of each form that a parcel has.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    I32(i32),
    U32(u32),
    U16(u16),
    I64(i64),
    U64(u64),
    Bits32(u32),
    Bits64(u64),
    Bool(bool),
    Byte(i8),
    Text(Option<String>),
    Text8(Option<String>),
    Bytes(Option<Vec<u8>>),
    SignedBytes(Vec<i8>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
    Texts(Vec<Option<String>>),
    Nested(Vec<Vec<u8>>),
    Record(Option<Record>),
    Raw(Vec<u8>),
}

impl Item {
    fn write(&self, to: &mut Writer<'_>) -> Result<()> {
        match self {
            Item::I32(value) => to.write(value),
            Item::U32(value) => to.write(value),
            Item::U16(value) => to.write(value),
            Item::I64(value) => to.write(value),
            Item::U64(value) => to.write(value),
            Item::Bits32(bits) => to.write(&f32::from_bits(*bits)),
            Item::Bits64(bits) => to.write(&f64::from_bits(*bits)),
            Item::Bool(value) => to.write(value),
            Item::Byte(value) => to.write(value),
            Item::Text(value) => to.write(value),
            Item::Text8(value) => to.write(&value.clone().map(Utf8)),
            Item::Bytes(value) => to.write(value),
            Item::SignedBytes(value) => to.write(value),
            Item::Numbers(value) => to.write(value),
            Item::Flags(value) => to.write(value),
            Item::Texts(value) => to.write(value),
            Item::Nested(value) => to.write(value),
            Item::Record(value) => to.write(value),
            Item::Raw(value) => to.write_raw(value),
        }
    }

    /// Reads a value of this one's form.
    fn read_alike(&self, from: &mut Reader<'_>) -> Result<Item> {
        Ok(match self {
            Item::I32(_) => Item::I32(from.read()?),
            Item::U32(_) => Item::U32(from.read()?),
            Item::U16(_) => Item::U16(from.read()?),
            Item::I64(_) => Item::I64(from.read()?),
            Item::U64(_) => Item::U64(from.read()?),
            Item::Bits32(_) => Item::Bits32(from.read::<f32>()?.to_bits()),
            Item::Bits64(_) => Item::Bits64(from.read::<f64>()?.to_bits()),
            Item::Bool(_) => Item::Bool(from.read()?),
            Item::Byte(_) => Item::Byte(from.read()?),
            Item::Text(_) => Item::Text(from.read()?),
            Item::Text8(_) => Item::Text8(from.read::<Option<Utf8>>()?.map(|text| text.0)),
            Item::Bytes(_) => Item::Bytes(from.read()?),
            Item::SignedBytes(_) => Item::SignedBytes(from.read()?),
            Item::Numbers(_) => Item::Numbers(from.read()?),
            Item::Flags(_) => Item::Flags(from.read()?),
            Item::Texts(_) => Item::Texts(from.read()?),
            Item::Nested(_) => Item::Nested(from.read()?),
            Item::Record(_) => Item::Record(from.read()?),
            Item::Raw(raw) => Item::Raw(from.read_raw(raw.len())?.to_vec()),
        })
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..20)
}

fn text() -> impl Strategy<Value = String> {
    "[a-z\u{0}é€😀]{0,9}"
}

fn record() -> impl Strategy<Value = Record> {
    (any::<i32>(), proptest::option::of(text()), bytes()).prop_map(|(id, name, data)| Record {
        id,
        name,
        data,
    })
}

fn item() -> impl Strategy<Value = Item> {
    use proptest::{collection::vec, option};
    prop_oneof![
        any::<i32>().prop_map(Item::I32),
        any::<u32>().prop_map(Item::U32),
        any::<u16>().prop_map(Item::U16),
        any::<i64>().prop_map(Item::I64),
        any::<u64>().prop_map(Item::U64),
        any::<u32>().prop_map(Item::Bits32),
        any::<u64>().prop_map(Item::Bits64),
        any::<bool>().prop_map(Item::Bool),
        any::<i8>().prop_map(Item::Byte),
        option::of(text()).prop_map(Item::Text),
        option::of(text()).prop_map(Item::Text8),
        option::of(bytes()).prop_map(Item::Bytes),
        vec(any::<i8>(), 0..9).prop_map(Item::SignedBytes),
        vec(any::<i64>(), 0..9).prop_map(Item::Numbers),
        vec(any::<bool>(), 0..9).prop_map(Item::Flags),
        vec(option::of(text()), 0..5).prop_map(Item::Texts),
        vec(bytes(), 0..5).prop_map(Item::Nested),
        option::of(record()).prop_map(Item::Record),
        bytes().prop_map(Item::Raw),
    ]
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    proptest::collection::vec(item(), 1..12)
}

fn write_all(items: &[Item], to: &mut Writer<'_>) -> Result<()> {
    items.iter().try_for_each(|item| item.write(to))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_value_comes_back(items in items()) {
        let (bytes, _) = written(|to| write_all(&items, to));
        prop_assert_eq!(bytes.len() % 4, 0);
        let mut reader = Reader::new(SharedBytes::from_slice(&bytes));
        for item in &items {
            prop_assert_eq!(&item.read_alike(&mut reader).unwrap(), item);
        }
        prop_assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn fixed_memory_holds_the_same_bytes_or_says_how_many_it_needs(items in items(), room in 0usize..400) {
        let (expected, _) = written(|to| write_all(&items, to));
        let mut memory = vec![0xaau8; room + 16];
        let outcome = {
            // SAFETY: `memory` has `room` bytes and is not touched while the writer lives.
            #[allow(unsafe_code)]
            let mut writer = unsafe { Writer::over(memory.as_mut_ptr(), room) };
            let outcome = write_all(&items, &mut writer).map(|()| writer.len());
            drop(writer.finish());
            outcome
        };
        prop_assert_eq!(&memory[room..], &[0xaa; 16], "nothing is written past the end");
        match outcome {
            Ok(len) => prop_assert_eq!(&memory[..len], &expected[..]),
            Err(Error::TooLarge { size, limit }) => {
                prop_assert!(expected.len() > room && size > room && limit == room);
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn a_parcel_that_is_cut_short_is_an_error_and_no_more(items in items(), cut in any::<prop::sample::Index>()) {
        let (bytes, _) = written(|to| write_all(&items, to));
        let len = cut.index(bytes.len() + 1);
        let mut reader = Reader::new(SharedBytes::from_slice(&bytes[..len]));
        for item in &items {
            match item.read_alike(&mut reader) {
                Ok(read) => prop_assert_eq!(&read, item, "what is whole is right"),
                Err(Error::BadParcel { at, .. }) => {
                    prop_assert!(at <= len && len < bytes.len());
                    return Ok(());
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
        }
        // Only the padding of the last value can be missing without being missed.
        prop_assert!(bytes.len() - len < 4);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), items in items()) {
        let mut objects: Objects = Vec::new();
        let mut reader = Reader::with_objects(SharedBytes::from_slice(&bytes), &mut objects);
        for item in &items {
            let before = reader.remaining();
            if item.read_alike(&mut reader).is_err() {
                break;
            }
            prop_assert!(reader.remaining() <= before);
        }
        // Nothing that came as an object is recorded, whatever the bytes look like.
        prop_assert!(!matches!(reader.read_binder(), Ok(Some(_))));
        prop_assert!(reader.read_fd().is_err());
    }

    #[test]
    fn a_count_never_reserves_more_than_the_bytes_that_are_there(count in any::<i32>(), rest in 0usize..64) {
        let bytes: Vec<u8> = [&count.to_le_bytes()[..], &vec![0; rest]].concat();
        let checked = |least| Reader::new(SharedBytes::from_slice(&bytes)).read_count(least);
        for least in [1usize, 4, 24] {
            match checked(least) {
                Ok(Some(n)) => prop_assert!(n * least <= rest && n as i64 == i64::from(count)),
                Ok(None) => prop_assert_eq!(count, -1),
                Err(_) => prop_assert!(count < -1 || count as usize * least > rest),
            }
        }
    }
}
