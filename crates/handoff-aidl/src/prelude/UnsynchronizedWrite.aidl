package android.hardware.common.fmq;

/** The flavour whose writer overwrites what its readers have not read. */
@VintfStability
parcelable UnsynchronizedWrite {}
