package sample.forty;

parcelable Pair<A, B> {
    A first;
    B second;
}
