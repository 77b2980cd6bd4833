package android.os;

import dev.handoff.Bridge;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** An object of this process, which others can call: generated stubs extend it. */
public class Binder implements IBinder {
    /** Who calls, on a thread that serves. */
    private static final ThreadLocal<int[]> CALLER = new ThreadLocal<>();
    private static final int OWN_UID = ownUid();

    private IInterface owner;
    private volatile String descriptor;
    // The library's weak reference to what it knows this object as. What others have is strong, and holds this object.
    private long weak;

    public Binder() {}

    public Binder(String descriptor) {
        this.descriptor = descriptor;
    }

    public void attachInterface(IInterface owner, String descriptor) {
        this.owner = owner;
        this.descriptor = descriptor;
    }

    /** The process that calls, of a thread that serves; else the own one. */
    public static final int getCallingPid() {
        int[] caller = CALLER.get();
        return caller == null ? (int) ProcessHandle.current().pid() : caller[0];
    }

    /** The user that calls; without a call, the own one. */
    public static final int getCallingUid() {
        int[] caller = CALLER.get();
        return caller == null ? OWN_UID : caller[1];
    }

    private static int ownUid() {
        try {
            return (Integer) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        } catch (IOException problem) {
            throw new UncheckedIOException("cannot look up the user of this process", problem);
        }
    }

    /** Until {@link #restoreCallingIdentity}, this process itself is who calls. */
    public static final long clearCallingIdentity() {
        int[] caller = CALLER.get();
        CALLER.remove();
        return caller == null ? 0 : 1L << 62 | (long) caller[1] << 31 | caller[0];
    }

    public static final void restoreCallingIdentity(long token) {
        if (token != 0) {
            CALLER.set(new int[] {(int) (token & 0x7fffffff), (int) (token >> 31 & 0x7fffffff)});
        }
    }

    @Override
    public String getInterfaceDescriptor() {
        return descriptor;
    }

    @Override
    public boolean pingBinder() {
        return true;
    }

    @Override
    public boolean isBinderAlive() {
        return true;
    }

    @Override
    public IInterface queryLocalInterface(String descriptor) {
        return descriptor != null && descriptor.equals(this.descriptor) ? owner : null;
    }

    @Override
    public void linkToDeath(DeathRecipient recipient, int flags) {}

    @Override
    public boolean unlinkToDeath(DeathRecipient recipient, int flags) {
        return true;
    }

    /** Serves a call: reads from {@code data}, writes into {@code reply}, which is null of a oneway call. */
    protected boolean onTransact(int code, Parcel data, Parcel reply, int flags) throws RemoteException {
        if (code == INTERFACE_TRANSACTION && reply != null) {
            reply.writeString(getInterfaceDescriptor());
            return true;
        }
        return code == PING_TRANSACTION;
    }

    /** From this very process: no engine is between. */
    @Override
    public final boolean transact(int code, Parcel data, Parcel reply, int flags) throws RemoteException {
        // The caller's proxy may be of another interface, whose numbers mean other methods here.
        String token = data.token();
        if (token != null && descriptor != null && !token.equals(descriptor)) {
            throw new SecurityException("the object has the interface " + descriptor + ", not " + token);
        }
        data.setDataPosition(0);
        boolean known = onTransact(code, data, reply, flags);
        if (reply != null) {
            reply.setDataPosition(0);
        }
        return known;
    }

    /** A strong reference of the library's to this object, which is the caller's to release. */
    synchronized long hold() {
        long held = known();
        if (held == 0) {
            held = Bridge.offer(descriptor == null ? "" : descriptor, new Server(this));
            long made = Bridge.weaken(held);
            Bridge.release(weak);
            weak = made;
            References.put(held, this);
        }
        return held;
    }

    /** The same; 0 where the library has no longer, or never had, an object for this one. */
    synchronized long known() {
        return weak == 0 ? 0 : Bridge.strengthen(weak);
    }

    /** Serves the calls that come through the library. */
    private static final class Server implements Bridge.Server {
        private final Binder binder;

        Server(Binder binder) {
            this.binder = binder;
        }

        @Override
        public byte[] serve(int pid, int uid, boolean isOneway, int code, byte[] request, long kept) {
            Parcel data = Parcel.received(request, 0, kept);
            Parcel reply = isOneway ? null : Parcel.obtain();
            int[] outer = CALLER.get();
            CALLER.set(new int[] {pid, uid});
            try {
                if (!binder.onTransact(code, data, reply, isOneway ? FLAG_ONEWAY : 0)) {
                    return Bridge.unknownTransaction();
                }
                return reply == null ? Bridge.reply(new byte[4]) : reply.toOutcome();
            } catch (Throwable thrown) {
                int exception = Parcel.exceptionOf(thrown);
                if (exception == 0) {
                    // Not one that a caller can be told: it hears that the service failed.
                    Bridge.report(thrown);
                    return Bridge.refused(Parcel.EX_ILLEGAL_STATE, 0, thrown.toString());
                }
                return Bridge.refused(exception, Parcel.specificOf(thrown), String.valueOf(thrown.getMessage()));
            } finally {
                data.recycle();
                if (reply != null) {
                    reply.recycle();
                }
                if (outer == null) {
                    CALLER.remove();
                } else {
                    CALLER.set(outer);
                }
            }
        }
    }
}
