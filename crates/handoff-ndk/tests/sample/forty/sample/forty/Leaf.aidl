package sample.forty;

parcelable Leaf {
    int number;
    @utf8InCpp String text;
}
