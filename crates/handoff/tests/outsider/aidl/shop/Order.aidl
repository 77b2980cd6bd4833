package shop;

parcelable Order {
    String what;
    int count = 1;
}
