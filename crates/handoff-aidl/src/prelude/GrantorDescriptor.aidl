package android.hardware.common.fmq;

/** Where a part of a message queue lies. */
@VintfStability
parcelable GrantorDescriptor {
    /** Which descriptor of the handle. */
    int fdIndex;
    /** Where in its memory, in bytes. */
    int offset;
    /** How many bytes. */
    long extent;
}
