//! Android boot images, header versions 0 to 4: take apart, replace the kernel, put together again.
//!
//! The header is kept byte for byte and only what a new kernel changes is written into it, so that an
//! image that is put together unchanged is the one that was taken apart. The layout is that of
//! `bootimg.h` in AOSP's `system/tools/mkbootimg`.

use std::fmt;

use serde::Serialize;
use sha1::{Digest as _, Sha1};

const MAGIC: &[u8; 8] = b"ANDROID!";
const ID: std::ops::Range<usize> = 576..608;
const RECOVERY_SIZE: usize = 1632;
const RECOVERY_OFFSET: usize = 1636;
const DTB_SIZE: usize = 1648;
const SIGNATURE_SIZE: usize = 1580;
/// The page size of versions 3 and 4, which have no field for it.
const PAGE: usize = 4096;
/// More than any boot partition holds.
const MOST: usize = 1 << 30;

/// A part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    Kernel,
    /// The initial file system.
    Ramdisk,
    /// The second bootloader (versions 0 to 2).
    Second,
    /// The device tree overlay of the recovery system (versions 1 and 2).
    RecoveryDtbo,
    /// The device tree (version 2).
    Dtb,
    /// The signature of a generic kernel image (version 4).
    Signature,
}

impl Part {
    /// The name of its file when an image is taken apart, as the reference tools have it.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Ramdisk => "ramdisk",
            Self::Second => "second",
            Self::RecoveryDtbo => "recovery_dtbo",
            Self::Dtb => "dtb",
            Self::Signature => "boot_signature",
        }
    }
}

/// Why a file is no boot image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    #[error("it is no Android boot image: it does not begin with ANDROID!{}", if *vendor { "; a vendor_boot image holds no kernel" } else { "" })]
    Magic { vendor: bool },
    #[error(
        "its header has version {0}; 0 to 4 are known (old devices keep the size of a device tree there)"
    )]
    Version(u32),
    #[error("its page size is {0}; powers of two from 2048 to 65536 are possible")]
    PageSize(u32),
    #[error("it ends within its {part}: it has {have} bytes and needs {need}")]
    Short { part: &'static str, have: usize, need: usize },
    #[error("a boot image of {0} bytes fits no device")]
    Large(usize),
    #[error("the new kernel is empty")]
    NoKernel,
}

/// A boot image in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootImage {
    header: Vec<u8>,
    version: u32,
    page: usize,
    parts: Vec<(Part, Vec<u8>)>,
    /// What stands behind the parts, such as the footer of verified boot.
    trailer: Vec<u8>,
    notes: Vec<String>,
}

impl BootImage {
    /// Takes an image apart.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        if !bytes.starts_with(MAGIC) {
            return Err(ImageError::Magic { vendor: bytes.starts_with(b"VNDRBOOT") });
        }
        if bytes.len() > MOST {
            return Err(ImageError::Large(bytes.len()));
        }
        let short = |part, need| ImageError::Short { part, have: bytes.len(), need };
        let word = |at: usize| {
            let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
            field.map(u32::from_le_bytes).ok_or_else(|| short("header", at + 4))
        };
        let version = word(40)?;
        let size = |at: usize| word(at).map(|size| size as usize);
        let (page, sizes) = match version {
            0..=2 => {
                let page = word(36)?;
                if !page.is_power_of_two() || !(2048..=65536).contains(&page) {
                    return Err(ImageError::PageSize(page));
                }
                let mut sizes =
                    vec![(Part::Kernel, size(8)?), (Part::Ramdisk, size(16)?), (Part::Second, size(24)?)];
                if version >= 1 {
                    sizes.push((Part::RecoveryDtbo, size(RECOVERY_SIZE)?));
                }
                if version == 2 {
                    sizes.push((Part::Dtb, size(DTB_SIZE)?));
                }
                (page as usize, sizes)
            }
            3 | 4 => {
                let mut sizes = vec![(Part::Kernel, size(8)?), (Part::Ramdisk, size(12)?)];
                if version == 4 {
                    sizes.push((Part::Signature, size(SIGNATURE_SIZE)?));
                }
                (PAGE, sizes)
            }
            other => return Err(ImageError::Version(other)),
        };
        let header = bytes.get(..page).ok_or_else(|| short("header", page))?.to_vec();
        let (mut at, mut parts) = (page, Vec::new());
        for (part, size) in sizes {
            let end = at.saturating_add(size);
            let content = bytes.get(at..end).ok_or_else(|| short(part.file_name(), end))?;
            parts.push((part, content.to_vec()));
            at = end.next_multiple_of(page);
        }
        let trailer = bytes.get(at..).unwrap_or_default().to_vec();
        Ok(Self { header, version, page, parts, trailer, notes: Vec::new() })
    }

    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The page size, to which parts are padded.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page
    }

    /// The kernel's command line.
    #[must_use]
    pub fn command_line(&self) -> String {
        let text = |range: std::ops::Range<usize>| {
            let field = self.header.get(range).unwrap_or_default();
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        if self.version >= 3 { text(44..1580) } else { format!("{}{}", text(64..576), text(608..1632)) }
    }

    /// A part; empty if the image does not have it.
    #[must_use]
    pub fn part(&self, part: Part) -> &[u8] {
        self.parts.iter().find(|(other, _)| *other == part).map_or(&[], |(_, content)| content)
    }

    /// All parts that this version has, in their order.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &[u8])> {
        self.parts.iter().map(|(part, content)| (*part, content.as_slice()))
    }

    /// What a replaced kernel made invalid, for people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Puts another kernel in.
    ///
    /// The id (a checksum of the parts) and the place of the recovery overlay follow. A signature, and
    /// the data of verified boot behind the parts, hold for the old kernel only: they are left out,
    /// which [`notes`](Self::notes) says.
    pub fn replace_kernel(&mut self, kernel: Vec<u8>) -> Result<(), ImageError> {
        if kernel.is_empty() {
            return Err(ImageError::NoKernel);
        }
        let size = u32::try_from(kernel.len()).ok().filter(|size| (*size as usize) < MOST);
        let size = size.ok_or(ImageError::Large(kernel.len()))?;
        let id = self.id();
        if let Some((_, content)) = self.parts.iter_mut().find(|(part, _)| *part == Part::Kernel) {
            *content = kernel;
        }
        self.set(8, &size.to_le_bytes());
        if self.version <= 2 {
            let zero = self.header[ID].iter().all(|byte| *byte == 0);
            if self.header[ID] == id {
                let id = self.id();
                self.set(ID.start, &id);
            } else if !zero {
                self.notes.push(
                    "its id is no SHA-1 of its parts, and was left: few bootloaders look at it".to_owned(),
                );
            }
            if self.version >= 1 && !self.part(Part::RecoveryDtbo).is_empty() {
                let before = [Part::Kernel, Part::Ramdisk, Part::Second];
                let pages: usize =
                    before.iter().map(|part| self.part(*part).len().next_multiple_of(self.page)).sum();
                self.set(RECOVERY_OFFSET, &((self.page + pages) as u64).to_le_bytes());
            }
        }
        if !self.part(Part::Signature).is_empty() {
            self.parts.retain(|(part, _)| *part != Part::Signature);
            self.set(SIGNATURE_SIZE, &0u32.to_le_bytes());
            self.notes.push("the signature was for the old kernel and was left out".to_owned());
        }
        if self.trailer.iter().any(|byte| *byte != 0) {
            self.notes.push(
                "what verified boot had put behind the image was for the old kernel and was left out: the \
                 bootloader has to be unlocked"
                    .to_owned(),
            );
        }
        self.trailer.clear();
        Ok(())
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The id as the reference tool makes it: SHA-1 of each part followed by its size.
    fn id(&self) -> [u8; 32] {
        let mut hash = Sha1::new();
        for (_, content) in &self.parts {
            hash.update(content);
            hash.update((content.len() as u32).to_le_bytes());
        }
        let mut id = [0; 32];
        id[..20].copy_from_slice(&hash.finalize());
        id
    }

    /// Puts the image together.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        for (_, content) in &self.parts {
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(self.page), 0);
        }
        bytes.extend_from_slice(&self.trailer);
        bytes
    }
}

impl fmt::Display for BootImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot image, header version {}, pages of {} bytes", self.version, self.page)?;
        for (part, content) in self.parts().filter(|(_, content)| !content.is_empty()) {
            write!(f, "\n  {:<15} {} bytes", part.file_name(), content.len())?;
        }
        write!(f, "\n  command line    {}", self.command_line())?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A version 0 image with a kernel and a ramdisk.
    fn small() -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&5u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&3u32.to_le_bytes());
        bytes[36..40].copy_from_slice(&2048u32.to_le_bytes());
        bytes.extend_from_slice(b"linux");
        bytes.resize(4096, 0);
        bytes.extend_from_slice(b"ram");
        bytes.resize(6144, 0);
        bytes
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert_eq!(BootImage::parse(b"VNDRBOOT1234"), Err(ImageError::Magic { vendor: true }));
        assert!(matches!(BootImage::parse(b"ANDROID!"), Err(ImageError::Short { part: "header", .. })));
        let with = |at: usize, value: u32| {
            let mut bytes = small();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            BootImage::parse(&bytes)
        };
        assert_eq!(with(40, 9), Err(ImageError::Version(9)));
        assert_eq!(with(36, 1000), Err(ImageError::PageSize(1000)));
        assert!(matches!(with(8, u32::MAX), Err(ImageError::Short { part: "kernel", .. })));
        let mut image = BootImage::parse(&small()).expect("an image");
        assert_eq!(image.replace_kernel(Vec::new()), Err(ImageError::NoKernel));
    }

    #[test]
    fn a_foreign_id_and_what_stands_behind_are_spoken_of() {
        let mut bytes = small();
        bytes[ID.start] = 7;
        bytes.extend_from_slice(b"AVBf");
        let mut image = BootImage::parse(&bytes).expect("an image");
        assert_eq!(image.to_bytes(), bytes);
        image.replace_kernel(b"newer".to_vec()).expect("replaced");
        assert_eq!(image.notes().len(), 2, "{image}");
        assert_eq!((image.part(Part::Kernel), image.to_bytes().len()), (&b"newer"[..], 6144));
    }

    /// An image of any version with parts of these sizes, in the order of the version.
    fn image_of(version: u32, page: usize, sizes: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let fields: &[usize] = match version {
            0 => &[8, 16, 24],
            1 => &[8, 16, 24, RECOVERY_SIZE],
            2 => &[8, 16, 24, RECOVERY_SIZE, DTB_SIZE],
            3 => &[8, 12],
            _ => &[8, 12, SIGNATURE_SIZE],
        };
        let page = if version >= 3 { PAGE } else { page };
        let mut bytes = vec![0; page];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[40..44].copy_from_slice(&version.to_le_bytes());
        if version <= 2 {
            bytes[36..40].copy_from_slice(&(page as u32).to_le_bytes());
        }
        let mut parts = Vec::new();
        for (number, (&at, &size)) in fields.iter().zip(sizes).enumerate() {
            let content: Vec<u8> = (0..size).map(|byte| (byte * 7 + number) as u8).collect();
            bytes[at..at + 4].copy_from_slice(&(size as u32).to_le_bytes());
            bytes.extend_from_slice(&content);
            bytes.resize(bytes.len().next_multiple_of(page), 0);
            parts.push(content);
        }
        (bytes, parts)
    }

    proptest! {
        #[test]
        fn images_of_every_version_are_read_whole_and_written_as_they_were(
            version in 0u32..=4,
            page in prop_oneof![Just(2048usize), Just(4096), Just(16384)],
            sizes in proptest::collection::vec(0usize..9000, 5),
            kernel in 1usize..9000,
        ) {
            let (bytes, parts) = image_of(version, page, &sizes);
            let mut image = BootImage::parse(&bytes).expect("an image");
            prop_assert_eq!(image.version(), version);
            prop_assert!(image.parts().map(|(_, content)| content).eq(parts.iter().map(Vec::as_slice)));
            prop_assert_eq!(&image.to_bytes(), &bytes);
            image.replace_kernel(vec![9; kernel]).expect("replaced");
            let signed = version == 4 && sizes[2] > 0;
            prop_assert_eq!(image.notes().len(), usize::from(signed));
            let read = BootImage::parse(&image.to_bytes()).expect("an image");
            prop_assert_eq!(read.part(Part::Kernel), &vec![9; kernel][..]);
            for (index, (part, _)) in BootImage::parse(&bytes).expect("an image").parts().enumerate().skip(1) {
                let wanted: &[u8] = if part == Part::Signature { &[] } else { &parts[index] };
                prop_assert_eq!(read.part(part), wanted);
            }
        }

        #[test]
        fn a_cut_image_is_refused_or_read_within_its_bytes(
            version in 0u32..=4,
            sizes in proptest::collection::vec(1usize..5000, 5),
            keep in 0.0f64..1.0,
        ) {
            let (mut bytes, _) = image_of(version, 2048, &sizes);
            bytes.truncate((bytes.len() as f64 * keep) as usize);
            match BootImage::parse(&bytes) {
                // What is cut may be no more than what pads the last part.
                Ok(image) => prop_assert!(image.to_bytes().starts_with(&bytes)),
                Err(error) => {
                    let refused = matches!(error, ImageError::Short { .. } | ImageError::Magic { .. });
                    prop_assert!(refused, "{}", error);
                }
            }
        }

        #[test]
        fn any_bytes_are_survived_and_images_stay_as_they_were(
            at in 8usize..1700,
            value in any::<u32>(),
            cut in 0usize..6144,
        ) {
            let mut bytes = small();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            bytes.truncate(6144 - cut / 2);
            if let Ok(image) = BootImage::parse(&bytes) {
                prop_assert!(image.to_bytes().starts_with(&bytes[..image.page_size().min(bytes.len())]));
                let mut other = image;
                prop_assert!(other.replace_kernel(vec![1; 3000]).is_ok());
                let again = BootImage::parse(&other.to_bytes()).expect("what we write can be read");
                prop_assert_eq!(again.part(Part::Kernel), &[1u8; 3000][..]);
            }
        }
    }
}
