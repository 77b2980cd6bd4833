package dev.handoff;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** What the {@code android.os} classes of this JAR need of the library. Not for programs: it changes when they need it. */
public final class Bridge {
    /** Kinds of what stands between the bytes of a parcel. */
    public static final int OBJECT = 1;
    public static final int FILE = 2;
    public static final int PART = 3;

    private Bridge() {}

    /** Serves calls: gives an outcome, and throws nothing. */
    public interface Server {
        byte[] serve(int pid, int uid, boolean isOneway, int code, byte[] request, long kept);
    }

    /** What the library calls. */
    private static final class Dispatcher {
        private final Server server;

        Dispatcher(Server server) {
            this.server = server;
        }

        byte[] dispatch(int pid, int uid, int gid, boolean isOneway, int code, byte[] request, long kept) {
            return server.serve(pid, uid, isOneway, code, request, kept);
        }
    }

    /** A reference to an object that the server serves. This and every other number is released by its owner. */
    public static long offer(String descriptor, Server server) {
        return Outcome.number(Connection.offer(descriptor, (Object) new Dispatcher(server)));
    }

    public static void register(Connection connection, String name, long object) {
        connection.register(name, new RemoteObject(object), false);
    }

    public static long find(Connection connection, String name, long milliseconds) {
        return connection.find(name, milliseconds).number();
    }

    /** One more number for what a number stands for. */
    public static long hold(long object) {
        return Outcome.number(Connection.holdObject(object));
    }

    /** The objects in so many bytes of a parcel; 0 if there are none. */
    public static long part(long parcel, int at, int bytes) {
        return taken(Connection.part(parcel, at, bytes));
    }

    public static long holdFile(int fd) {
        return Outcome.number(Connection.holdFile(fd));
    }

    /** A reference that does not keep its object. */
    public static long weaken(long object) {
        return Outcome.number(Connection.weaken(object));
    }

    /** A reference that does; 0 if the object is gone. */
    public static long strengthen(long weak) {
        return Connection.strengthen(weak);
    }

    /** A number that is one object's alone, as long as a reference to it is held. */
    public static long identity(long object) {
        return Connection.identity(object);
    }

    public static void release(long number) {
        if (number != 0) {
            Connection.release(number);
        }
    }

    /** The object that came at a place of a parcel; 0 for a reference to none. */
    public static long takeObject(long parcel, int at) {
        return taken(Connection.takeObject(parcel, at));
    }

    public static int takeFile(long parcel, int at) {
        return (int) taken(Connection.takeFile(parcel, at));
    }

    public static int openFile(String path, int mode) {
        return (int) Outcome.number(Connection.openFile(path, mode));
    }

    public static int duplicateFile(int fd) {
        return (int) Outcome.number(Connection.duplicateFile(fd));
    }

    public static void closeFile(int fd) {
        Connection.closeFile(fd);
    }

    private static long taken(byte[] outcome) {
        return ByteBuffer.wrap(Outcome.open(outcome)).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    /** The library's number of a parcel, or 0; then the data. */
    public static byte[] call(long object, int code, byte[] request, boolean isOneway) {
        byte[] answer = Outcome.open(Connection.call(object, code, request, 0, isOneway));
        return isOneway ? new byte[8] : answer;
    }

    public static String descriptor(long object) {
        return new String(Outcome.open(Connection.descriptor(object)), StandardCharsets.UTF_8);
    }

    public static void checkInterface(long object, String descriptor) {
        Outcome.open(Connection.checkInterface(object, descriptor));
    }

    public static boolean alive(long object) {
        return Connection.alive(object);
    }

    public static long watch(long object, Runnable died) {
        return Outcome.number(Connection.watch(object, RemoteObject.reporting(died)));
    }

    public static byte[] reply(byte[] data) {
        return Outcome.reply(data);
    }

    public static byte[] refused(int exception, int specific, String message) {
        return Outcome.refused(exception, specific, message);
    }

    public static byte[] unknownTransaction() {
        return Outcome.unknownTransaction();
    }

    public static void report(Throwable thrown) {
        Connection.report(thrown);
    }
}
