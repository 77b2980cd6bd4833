package vendor.sample.benchmark;

/** What is written. */
parcelable SampleMessage {
    /** Bytes of {@code data} that count. */
    int size;
    byte[] data;
}
