package android.os;

/** A parcel holds something else than is read from it. */
public class BadParcelableException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public BadParcelableException(String message) {
        super(message);
    }
}
