package android.os;

import dev.handoff.Bridge;
import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Which Java object stands for which of the library's: one for one, so that both can be compared with {@code ==}. */
final class References {
    private static final Cleaner CLEANER = Cleaner.create();
    // By the library's identity of an object, which is unique while a reference to that is held.
    private static final Map<Long, WeakReference<IBinder>> ALL = new HashMap<>();

    private References() {}

    static synchronized void put(long number, IBinder object) {
        ALL.put(Bridge.identity(number), new WeakReference<>(object));
    }

    /** The object that a strong reference of the library's leads to; takes that reference over. */
    static synchronized IBinder of(long number) {
        long identity = Bridge.identity(number);
        WeakReference<IBinder> reference = ALL.get(identity);
        IBinder known = reference == null ? null : reference.get();
        if (known instanceof Binder) {
            // An object of this process that nobody held meanwhile has another identity when it is given away again.
            long own = ((Binder) known).known();
            boolean isIt = own != 0 && Bridge.identity(own) == identity;
            Bridge.release(own);
            known = isIt ? known : null;
        }
        if (known == null) {
            BinderProxy made = new BinderProxy(number);
            ALL.put(identity, new WeakReference<>(made));
            CLEANER.register(made, () -> forget(identity, number));
            return made;
        }
        Bridge.release(number);
        return known;
    }

    /** Lets go what the library keeps for a parcel when nothing refers to that any longer. */
    static void recycleBehind(Parcel parcel, long kept, List<long[]> objects) {
        long[] numbers = objects.stream().mapToLong(object -> object[3]).toArray();
        CLEANER.register(parcel, () -> {
            Bridge.release(kept);
            for (long number : numbers) {
                Bridge.release(number);
            }
        });
    }

    private static synchronized void forget(long identity, long number) {
        WeakReference<IBinder> reference = ALL.get(identity);
        if (reference != null && reference.get() == null) {
            ALL.remove(identity);
        }
        Bridge.release(number);
    }
}
