//! Kernels on Android devices: boot images, and bringing one to a device.

mod flash;
mod image;

pub use flash::{Call, FlashError, FlashPlan, flash};
pub use image::{BootImage, ImageError, Part};
