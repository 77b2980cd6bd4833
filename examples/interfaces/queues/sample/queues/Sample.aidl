package sample.queues;

/** What a queue carries: numbers, enums, arrays of a fixed size and such types. */
@FixedSize
parcelable Sample {
    @Backing(type="byte")
    enum Quality { POOR, GOOD }

    @FixedSize
    parcelable Range {
        char unit;
        double low;
        double high;
    }

    long at;
    byte channel;
    float value;
    Quality quality;
    Range[2] ranges;
    boolean isLast;
}
