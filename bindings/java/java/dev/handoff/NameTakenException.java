package dev.handoff;

/** Another process has registered this name. The message names the process. */
public final class NameTakenException extends HandoffException {
    private static final long serialVersionUID = 1L;

    NameTakenException(String message) {
        super(message);
    }
}
