package android.hardware.common.fmq;

/** The flavour with one reader, one writer and flow control. */
@VintfStability
parcelable SynchronizedReadWrite {}
