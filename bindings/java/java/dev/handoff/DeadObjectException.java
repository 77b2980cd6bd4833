package dev.handoff;

/** The process that serves the object has died. */
public final class DeadObjectException extends HandoffException {
    private static final long serialVersionUID = 1L;

    DeadObjectException(String message) {
        super(message);
    }
}
