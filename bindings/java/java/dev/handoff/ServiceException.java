package dev.handoff;

import java.util.Objects;

/** The exception that a service answered with; thrown by a handler, the one that its caller gets. */
public final class ServiceException extends HandoffException {
    private static final long serialVersionUID = 1L;

    /** What a service may refuse a call with, by AIDL's numbers. */
    public static final int SECURITY = -1;
    public static final int BAD_PARCELABLE = -2;
    public static final int ILLEGAL_ARGUMENT = -3;
    public static final int NULL_POINTER = -4;
    public static final int ILLEGAL_STATE = -5;
    public static final int UNSUPPORTED_OPERATION = -7;
    public static final int SERVICE_SPECIFIC = -8;

    private final int exception;
    private final int specific;

    public ServiceException(int exception, String message) {
        this(exception, 0, message);
    }

    ServiceException(int exception, int specific, String message) {
        super(Objects.requireNonNull(message));
        this.exception = exception;
        this.specific = specific;
    }

    /** With the service's own number. */
    public static ServiceException specific(int number, String message) {
        return new ServiceException(SERVICE_SPECIFIC, number, message);
    }

    /** Which exception, by name: {@code IllegalArgument}. */
    public String getName() {
        switch (exception) {
            case SECURITY:
                return "Security";
            case BAD_PARCELABLE:
                return "BadParcelable";
            case ILLEGAL_ARGUMENT:
                return "IllegalArgument";
            case NULL_POINTER:
                return "NullPointer";
            case ILLEGAL_STATE:
                return "IllegalState";
            case UNSUPPORTED_OPERATION:
                return "UnsupportedOperation";
            case SERVICE_SPECIFIC:
                return "ServiceSpecific";
            default:
                return Integer.toString(exception);
        }
    }

    /** As in every language: {@code IllegalArgument exception: the message}. */
    @Override
    public String toString() {
        return (exception == SERVICE_SPECIFIC ? "service-specific error " + specific : getName() + " exception")
            + ": " + getMessage();
    }

    /** Which exception. */
    public int getException() {
        return exception;
    }

    /** The service's own number; 0 unless the exception is {@link #SERVICE_SPECIFIC}. */
    public int getSpecific() {
        return specific;
    }
}
