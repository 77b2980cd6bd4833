package sample.hal;

parcelable LampState {
    int level = 3;
    String name;
    @nullable String note;
    int[] history;
    IBinder owner;
    ParcelFileDescriptor log;
    float warmth = 1.5f;
    boolean on = true;
    char letter = 'a';
    byte tiny = 4;
    long big = 5;
    double exact = 2.5;
    String kind = "lamp";
}
