package android.os;

/** An object that can be called: of this process, a {@link Binder}, or a reference to one of another. */
public interface IBinder {
    int FIRST_CALL_TRANSACTION = 0x00000001;
    int LAST_CALL_TRANSACTION = 0x00ffffff;
    int PING_TRANSACTION = ('_' << 24) | ('P' << 16) | ('N' << 8) | 'G';
    int DUMP_TRANSACTION = ('_' << 24) | ('D' << 16) | ('M' << 8) | 'P';
    int INTERFACE_TRANSACTION = ('_' << 24) | ('N' << 16) | ('T' << 8) | 'F';
    int FLAG_ONEWAY = 0x00000001;
    int FLAG_CLEAR_BUF = 0x00000020;

    /** The name of the object's interface. */
    String getInterfaceDescriptor() throws RemoteException;

    boolean pingBinder();

    boolean isBinderAlive();

    /** What {@link Binder#attachInterface} was given for this name; null of another process's object. */
    IInterface queryLocalInterface(String descriptor);

    /** Calls the object: false if it does not know the code. {@code reply} is null of a oneway call. */
    boolean transact(int code, Parcel data, Parcel reply, int flags) throws RemoteException;

    /** Hears that the object's process has ended. */
    interface DeathRecipient {
        void binderDied();
    }

    /** Tells {@code recipient}, once, on a thread of the library. */
    void linkToDeath(DeathRecipient recipient, int flags) throws RemoteException;

    /** Takes that back; false if the object has died. */
    boolean unlinkToDeath(DeathRecipient recipient, int flags);
}
