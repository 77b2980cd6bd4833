package dev.handoff;

/** The object has no such transaction; thrown by a handler, what its caller is told. */
public final class UnknownTransactionException extends HandoffException {
    private static final long serialVersionUID = 1L;

    public UnknownTransactionException(String message) {
        super(message);
    }
}
