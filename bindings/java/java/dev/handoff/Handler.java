package dev.handoff;

/** A service: one function from a request to a reply. */
@FunctionalInterface
public interface Handler {
    /**
     * Serves one call; several threads call it at once. What it throws reaches the caller: a {@link ServiceException}
     * as it is, an {@link UnknownTransactionException} as that, anything else as an illegal state.
     */
    void serve(Caller caller, int code, Parcel request, Parcel reply);
}
