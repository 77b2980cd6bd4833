package dev.handoff;

/** A parcel does not hold what was asked of it. */
public final class BadParcelException extends HandoffException {
    private static final long serialVersionUID = 1L;

    BadParcelException(String message) {
        super(message);
    }
}
