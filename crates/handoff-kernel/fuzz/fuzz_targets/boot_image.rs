//! Takes any bytes apart as a boot image, versions 0 to 4, and puts them together again.
#![no_main]

use handoff_kernel::device::{BootImage, Part};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut image) = BootImage::parse(bytes) else { return };
    assert!(image.version() <= 4);
    let inside: usize = image.parts().map(|(_, content)| content.len()).sum();
    assert!(inside <= bytes.len());
    // Whatever is read is written as it was, but for what pads its parts.
    let again = image.to_bytes();
    let read = BootImage::parse(&again).expect("what was written can be read");
    assert!(read.parts().eq(image.parts()));
    assert!(again.len() >= bytes.len());
    assert!(image.to_string().starts_with("boot image"));

    let others: Vec<_> = image.parts().map(|(part, content)| (part, content.to_vec())).collect();
    image.replace_kernel(vec![7; 5000]).expect("it is small enough");
    let replaced = BootImage::parse(&image.to_bytes()).expect("what was written can be read");
    assert_eq!(replaced.part(Part::Kernel), [7; 5000]);
    for (part, content) in others {
        if !matches!(part, Part::Kernel | Part::Signature) {
            assert_eq!(replaced.part(part), content);
        }
    }
});
