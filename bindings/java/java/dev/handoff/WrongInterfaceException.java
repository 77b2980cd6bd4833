package dev.handoff;

/** The object has another interface than its caller means; nothing was sent. The message names both. */
public final class WrongInterfaceException extends HandoffException {
    private static final long serialVersionUID = 1L;

    WrongInterfaceException(String message) {
        super(message);
    }
}
