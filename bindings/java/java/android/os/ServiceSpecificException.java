package android.os;

/** An error whose number the service's interface has given a meaning. */
public class ServiceSpecificException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public final int errorCode;

    public ServiceSpecificException(int errorCode) {
        this(errorCode, null);
    }

    public ServiceSpecificException(int errorCode, String message) {
        super(message);
        this.errorCode = errorCode;
    }

    @Override
    public String toString() {
        return super.toString() + " (code " + errorCode + ")";
    }
}
