package android.os;

import dev.handoff.Bridge;
import dev.handoff.Connection;
import dev.handoff.NoServiceException;

/** Services by name, of the manager that {@code $HANDOFF_SOCKET} names, or of the usual place. */
public final class ServiceManager {
    private static Connection connection;

    private ServiceManager() {}

    private static synchronized Connection connection() {
        if (connection == null) {
            connection = Connection.open();
        }
        return connection;
    }

    /**
     * Registers an object.
     *
     * @throws dev.handoff.NameTakenException if another process has the name
     */
    public static void addService(String name, IBinder service) {
        long held = Parcel.hold(service);
        try {
            Bridge.register(connection(), name, held);
        } finally {
            Bridge.release(held);
        }
    }

    /** The service of this name, or null if there is none now. */
    public static IBinder checkService(String name) {
        return find(name, 0);
    }

    /** {@link #checkService}, which waits five seconds for it. */
    public static IBinder getService(String name) {
        return find(name, 5000);
    }

    /** Waits until there is one. */
    public static IBinder waitForService(String name) {
        while (true) {
            IBinder found = find(name, 60_000);
            if (found != null) {
                return found;
            }
        }
    }

    private static IBinder find(String name, long milliseconds) {
        try {
            return References.of(Bridge.find(connection(), name, milliseconds));
        } catch (NoServiceException none) {
            return null;
        }
    }
}
