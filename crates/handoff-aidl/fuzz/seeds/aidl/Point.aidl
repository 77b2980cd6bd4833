package sample.everything;

@FixedSize
parcelable Point {
    int x = -3;
    int y;
}
