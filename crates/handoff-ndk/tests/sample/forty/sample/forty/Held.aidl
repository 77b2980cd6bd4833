package sample.forty;

import sample.forty.IDone;

parcelable Held {
    IBinder binder;
    IDone callback;
    ParcelFileDescriptor file;
    String note;
}
