package dev.handoff;

import java.util.Objects;

/**
 * A connection to the service manager, and what was registered through it. Closed, that is gone.
 *
 * <pre>{@code
 * try (Connection connection = Connection.open(); RemoteObject greeter = connection.find("sample.greeter", 5000)) {
 *     Parcel request = new Parcel();
 *     request.writeString("Ada");
 *     System.out.println(greeter.call(1, request).readString());
 * }
 * }</pre>
 */
public final class Connection implements AutoCloseable {
    static {
        Natives.load();
    }

    private final long number;

    private Connection(long number) {
        this.number = number;
    }

    /** Connects where {@code $HANDOFF_SOCKET} says, or to the usual place. */
    public static Connection open() {
        return open("");
    }

    /** Connects to the service manager at a socket. */
    public static Connection open(String socket) {
        return new Connection(Outcome.number(connect(Objects.requireNonNull(socket))));
    }

    /** The service of this name, waiting so many milliseconds for it to be registered; 0 not at all. */
    public RemoteObject find(String name, long milliseconds) {
        return new RemoteObject(Outcome.number(find(number, Objects.requireNonNull(name), milliseconds)));
    }

    /**
     * {@link #find(String, long)}, with the object's interface checked.
     *
     * @throws WrongInterfaceException if it has another one
     */
    public RemoteObject find(String name, String descriptor, long milliseconds) {
        RemoteObject found = find(name, milliseconds);
        try {
            found.checkInterface(descriptor);
        } catch (HandoffException wrong) {
            found.close();
            throw wrong;
        }
        return found;
    }

    /**
     * Registers a service. Threads of the library call the handler, several at once.
     *
     * @throws NameTakenException if another process has the name
     */
    public void serve(String name, String descriptor, Handler handler) {
        serve(name, descriptor, handler, false);
    }

    /** {@link #serve}, which takes the name: who has it gets it back when this process ends. */
    public void serve(String name, String descriptor, Handler handler, boolean replace) {
        try (RemoteObject object = offer(descriptor, handler)) {
            register(name, object, replace);
        }
    }

    /**
     * An object of this process, for others to call: it can be registered, or sent in a parcel as a callback. It lives
     * as long as this reference, or others to it.
     */
    public static RemoteObject offer(String descriptor, Handler handler) {
        Dispatcher dispatcher = new Dispatcher(Objects.requireNonNull(handler));
        return new RemoteObject(Outcome.number(offer(Objects.requireNonNull(descriptor), dispatcher)));
    }

    /** Registers an object under a name; {@code replace} takes it from a process that has it. */
    public void register(String name, RemoteObject object, boolean replace) {
        Outcome.open(register(number, Objects.requireNonNull(name), object.number(), replace));
    }

    @Override
    public void close() {
        release(number);
    }

    /** What nobody catches goes where it goes for any thread. */
    static void report(Throwable thrown) {
        Thread thread = Thread.currentThread();
        thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
    }

    /** Called by the library for each call; throws nothing. */
    static final class Dispatcher {
        private final Handler handler;

        Dispatcher(Handler handler) {
            this.handler = handler;
        }

        byte[] dispatch(int pid, int uid, int gid, boolean isOneway, int code, byte[] request, long kept) {
            Parcel reply = new Parcel();
            try {
                handler.serve(new Caller(pid, uid, gid, isOneway), code, new Parcel(request, 0, kept), reply);
                return Outcome.reply(reply.toBytes());
            } catch (ServiceException refused) {
                return Outcome.refused(refused.getException(), refused.getSpecific(), refused.getMessage());
            } catch (UnknownTransactionException unknown) {
                return Outcome.unknownTransaction();
            } catch (BadParcelException bad) {
                return Outcome.refused(ServiceException.BAD_PARCELABLE, 0, bad.getMessage());
            } catch (DeadObjectException died) {
                // The service itself is alive: its caller must not take this for its death.
                String why = "a process that this service depends on has died";
                return Outcome.refused(ServiceException.ILLEGAL_STATE, 0, why);
            } catch (Throwable thrown) {
                report(thrown);
                return Outcome.refused(ServiceException.ILLEGAL_STATE, 0, thrown.toString());
            }
        }
    }

    private static native byte[] connect(String socket);

    private static native byte[] find(long connection, String name, long milliseconds);

    static native byte[] offer(String descriptor, Object dispatcher);

    private static native byte[] register(long connection, String name, long object, boolean replace);

    static native byte[] holdObject(long object);

    static native byte[] holdFile(int fd);

    static native byte[] takeObject(long parcel, int at);

    static native byte[] part(long parcel, int at, int bytes);

    static native byte[] takeFile(long parcel, int at);

    static native boolean same(long one, long other);

    static native byte[] call(long object, int code, byte[] request, long milliseconds, boolean isOneway);

    static native byte[] descriptor(long object);

    static native byte[] checkInterface(long object, String descriptor);

    static native byte[] weaken(long object);

    static native long strengthen(long weak);

    static native long identity(long object);

    static native byte[] openFile(String path, int mode);

    static native byte[] duplicateFile(int fd);

    static native void closeFile(int fd);

    static native boolean alive(long object);

    static native byte[] watch(long object, Object died);

    static native void release(long number);
}
