package sample.held;

/** What a vendor may add to. */
parcelable Extended {
    int number = 1;
    ParcelableHolder extension;
    @nullable String name;
}
