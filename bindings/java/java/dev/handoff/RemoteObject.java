package dev.handoff;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** A reference to an object, of another process mostly. Closed, it is given back. */
public final class RemoteObject implements AutoCloseable {
    private final long number;

    RemoteObject(long number) {
        this.number = number;
    }

    long number() {
        return number;
    }

    /** Whether both are references to one object. */
    public boolean isSame(RemoteObject other) {
        return Connection.same(number, other.number);
    }

    /** Calls a transaction and waits for its reply. */
    public Parcel call(int code, Parcel request) {
        return call(code, request, 0);
    }

    /** {@link #call}, waiting so many milliseconds at the most; 0 for ever. */
    public Parcel call(int code, Parcel request, long milliseconds) {
        byte[] reply = Outcome.open(Connection.call(number, code, request.toBytes(), milliseconds, false));
        return new Parcel(reply, 8, ByteBuffer.wrap(reply).order(ByteOrder.LITTLE_ENDIAN).getLong());
    }

    /** Queues a call whose result nobody waits for. */
    public void callOneway(int code, Parcel request) {
        Outcome.open(Connection.call(number, code, request.toBytes(), 0, true));
    }

    /** The name of the object's interface. */
    public String getDescriptor() {
        return new String(Outcome.open(Connection.descriptor(number)), StandardCharsets.UTF_8);
    }

    /**
     * Checks that the object has this interface, or one that extends it.
     *
     * @throws WrongInterfaceException which names both, if it has another one
     */
    public void checkInterface(String descriptor) {
        Outcome.open(Connection.checkInterface(number, Objects.requireNonNull(descriptor)));
    }

    /** False once the object's process is known to be gone, or the reference was closed. */
    public boolean isAlive() {
        return Connection.alive(number);
    }

    /** A death recipient that is in place. Closed, it is taken back. */
    public interface DeathWatch extends AutoCloseable {
        @Override
        void close();
    }

    /**
     * Runs {@code died} once, on a thread of the library, when the object's process ends; at once if it has.
     */
    public DeathWatch onDeath(Runnable died) {
        long watch = Outcome.number(Connection.watch(number, reporting(Objects.requireNonNull(died))));
        return () -> Connection.release(watch);
    }

    /** Runs it; what it throws goes where it goes for any thread. */
    static Runnable reporting(Runnable died) {
        return () -> {
            try {
                died.run();
            } catch (Throwable thrown) {
                Connection.report(thrown);
            }
        };
    }

    @Override
    public void close() {
        Connection.release(number);
    }
}
