package sample.held;

/** What a vendor adds: it stays as it is, and may be added to itself. */
@VintfStability
parcelable Extra {
    String text;
    long[] numbers;
    ParcelableHolder more;
}
