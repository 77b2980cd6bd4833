package dev.handoff;

/** The reply did not come within the call's deadline. */
public final class DeadlineException extends HandoffException {
    private static final long serialVersionUID = 1L;

    DeadlineException(String message) {
        super(message);
    }
}
