package dev.handoff;

/** No service is registered under this name. */
public final class NoServiceException extends HandoffException {
    private static final long serialVersionUID = 1L;

    NoServiceException(String message) {
        super(message);
    }
}
