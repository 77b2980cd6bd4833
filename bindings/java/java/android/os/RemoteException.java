package android.os;

/** A call did not get through. */
public class RemoteException extends Exception {
    private static final long serialVersionUID = 1L;

    public RemoteException() {}

    public RemoteException(String message) {
        super(message);
    }

    /** For who cannot throw this one. */
    public RuntimeException rethrowAsRuntimeException() {
        throw new RuntimeException(this);
    }

    /** The same, under Android's other name. */
    public RuntimeException rethrowFromSystemServer() {
        throw new RuntimeException(this);
    }
}
