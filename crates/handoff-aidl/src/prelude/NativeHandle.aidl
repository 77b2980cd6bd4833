package android.hardware.common;

/** Descriptors and numbers that belong together. */
@VintfStability
parcelable NativeHandle {
    /** The descriptors. */
    ParcelFileDescriptor[] fds;
    /** The numbers. */
    int[] ints;
}
