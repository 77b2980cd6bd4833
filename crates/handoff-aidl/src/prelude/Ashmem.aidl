package android.hardware.common;

/** Shared memory, as HIDL's `memory` described it. */
@VintfStability
parcelable Ashmem {
    /** The memory. */
    ParcelFileDescriptor fd;
    /** Its size in bytes. */
    long size;
}
