package sample.queues;

@FixedSize
parcelable Sample {
    long at;
    byte channel;
    float value;
}
