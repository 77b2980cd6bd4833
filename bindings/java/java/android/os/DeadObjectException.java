package android.os;

/** The process of the object that was called has ended. */
public class DeadObjectException extends RemoteException {
    private static final long serialVersionUID = 1L;

    public DeadObjectException() {}

    public DeadObjectException(String message) {
        super(message);
    }
}
