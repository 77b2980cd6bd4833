//! The bytes of parcelables, unions and enums, by hand from Android's layout; what older and newer
//! versions of them make of each other.

use handoff_examples::interfaces::sample::everything::{Color, Point, Shape};
use handoff_examples::interfaces::vendor::sample::benchmark::{SampleMessage, v1_0};
use handoff_ipc::Result;
use handoff_ipc::parcel::{Parcel, Parcelable, Writer};

fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<()>) -> Vec<u8> {
    let mut parcel = Parcel::new();
    parcel.write(write).unwrap();
    parcel.into_bytes()
}

fn read<T: Parcelable>(bytes: &[u8]) -> Result<T> {
    Parcel::from_bytes(bytes.to_vec()).read(|from| from.read())
}

#[test]
fn a_parcelable_is_not_null_then_its_size_then_its_fields() {
    let message = SampleMessage { size: 2, data: vec![1, 2, 3] };
    let expected = [1, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 0];
    assert_eq!(written(|to| to.write(&message)), expected);
    // The same in HIDL's own words.
    assert_eq!(written(|to| to.write(&v1_0::SampleMessage { size: 2, data: vec![1, 2, 3] })), expected);
    assert_eq!(read::<SampleMessage>(&expected).unwrap(), message);
    assert_eq!(read::<Option<SampleMessage>>(&[0; 4]).unwrap(), None);
    assert!(read::<SampleMessage>(&[0; 4]).is_err());
    // In an array each item says that it is there.
    let points = written(|to| to.write(&vec![Point { x: 1, y: 2 }]));
    assert_eq!(points, [1, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn unions_have_a_tag_and_enums_their_number() {
    assert_eq!(written(|to| to.write(&Shape::Radius(5))), [1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    let pixels = written(|to| to.write(&Shape::Pixels(vec![7])));
    assert_eq!(pixels, [1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0]);
    assert!(read::<Shape>(&[1, 0, 0, 0, 9, 0, 0, 0]).unwrap_err().to_string().contains("no field 9"));
    assert_eq!(written(|to| to.write(&Color::BLUE)), [6, 0, 0, 0]);
    // Bytes are packed, whatever they mean.
    assert_eq!(written(|to| to.write(&vec![Color::RED, Color::BLUE])), [2, 0, 0, 0, 0, 6, 0, 0]);
}

#[test]
fn versions_read_each_other() {
    // A newer one has a field more, which is skipped.
    let newer = written(|to| {
        to.write_structured(|to| {
            to.write(&1i32)?;
            to.write(&2i32)?;
            to.write(&"new".to_owned())
        })?;
        to.write(&77i32)
    });
    let mut parcel = Parcel::from_bytes(newer);
    assert_eq!(parcel.read(|from| from.read::<Point>()).unwrap(), Point { x: 1, y: 2 });
    assert_eq!(parcel.read(|from| from.read::<i32>()).unwrap(), 77);
    // An older one has a field less, which keeps its default; none at all keeps every one.
    assert_eq!(read::<Point>(&[1, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]).unwrap(), Point { x: 9, y: 0 });
    assert_eq!(read::<Point>(&[1, 0, 0, 0, 4, 0, 0, 0]).unwrap(), Point { x: -3, y: 0 });
}
