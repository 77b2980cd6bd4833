package sample.held;

/** Something that others can call, and its name. */
parcelable Attached {
    IBinder object;
    String name;
}
