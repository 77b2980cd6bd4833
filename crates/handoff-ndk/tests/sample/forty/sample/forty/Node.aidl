package sample.forty;

parcelable Node {
    int depth;
    @nullable(heap=true) Node next;
}
