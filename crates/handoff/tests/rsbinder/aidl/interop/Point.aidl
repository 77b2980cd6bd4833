package interop;

parcelable Point {
    int x;
    long y;
    @nullable String label;
}
