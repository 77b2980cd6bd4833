package android.os;

/** What a generated interface extends: its object can be asked for. */
public interface IInterface {
    IBinder asBinder();
}
