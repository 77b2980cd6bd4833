package dev.handoff;

/** A call that failed, or a service that could not be had. */
public class HandoffException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    HandoffException(String message) {
        super(message);
    }
}
