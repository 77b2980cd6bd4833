import android.os.Binder;
import android.os.DeadObjectException;
import android.os.IBinder;
import android.os.Parcel;
import android.os.ParcelFileDescriptor;
import android.os.RemoteException;
import android.os.ServiceManager;
import android.os.ServiceSpecificException;
import java.io.File;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import sample.hal.ILamp;
import sample.hal.ILampCallback;
import sample.hal.LampState;

/**
 * The lamp of crates/handoff-ndk/tests/sample, in Java as it is written for Android: {@code serve} it, or {@code call} one in
 * every way that its interface knows. Whoever serves may be written in C++.
 */
public final class Lamp extends ILamp.Stub {
    private static final String NAME = "sample.hal.ILamp/default";

    private ILampCallback callback;

    private static LampState copyOf(LampState state) {
        LampState copy = new LampState();
        copy.level = state.level;
        copy.name = state.name;
        copy.note = state.note;
        copy.history = state.history.clone();
        copy.owner = state.owner;
        try {
            // What is returned is closed: each value has a descriptor of its own.
            copy.log = state.log.dup();
        } catch (IOException failed) {
            throw new ServiceSpecificException(2, failed.getMessage());
        }
        copy.letter = state.letter;
        return copy;
    }

    @Override
    public int add(int a, int b) {
        return a + b;
    }

    @Override
    public String echo(String text) {
        if ("collect".equals(text)) {
            System.gc();
        }
        return text;
    }

    @Override
    public synchronized void setCallback(ILampCallback callback) {
        this.callback = callback;
    }

    @Override
    public void setLevel(int level) throws RemoteException {
        if (level < 0 || level > MAX_LEVEL) {
            throw new IllegalArgumentException("no such level");
        }
        ILampCallback told = current();
        if (told != null) {
            told.onChanged(level, "set");
        }
    }

    @Override
    public void setLevelLater(int level) throws RemoteException {
        setLevel(level);
    }

    @Override
    public void describe(LampState state, LampState second) {
        LampState copy = copyOf(state);
        second.level = copy.level;
        second.name = copy.name + "!";
        second.history = copy.history;
        second.owner = copy.owner;
        second.log = copy.log;
        state.level += 1;
        state.history = Arrays.copyOf(state.history, state.history.length + 1);
        state.history[state.history.length - 1] = state.level;
    }

    @Override
    public int[] arrays(int[] a, int[] b, byte[] c, boolean[] d, char[] e, long[] f, double[] g) {
        List<Integer> back = new ArrayList<>();
        for (int one : a) back.add(one);
        for (int at = 0; at < b.length; at++) b[at] = at;
        for (int at = 0; at < c.length; at++) c[at]++;
        for (boolean one : d) back.add(one ? 1 : 0);
        for (char one : e) back.add((int) one);
        for (long one : f) back.add((int) one);
        for (double one : g) back.add((int) one);
        return back.stream().mapToInt(Integer::intValue).toArray();
    }

    @Override
    public String[] strings(String[] a, String[] b, String[] n) {
        for (int at = 0; at < b.length; at++) b[at] = a[at];
        List<String> back = new ArrayList<>();
        for (String one : n == null ? new String[] {"none"} : n) back.add(one == null ? "null" : one);
        return back.toArray(new String[0]);
    }

    @Override
    public LampState[] states(LampState[] states) {
        LampState[] back = new LampState[states.length];
        for (int at = 0; at < back.length; at++) back[at] = copyOf(states[back.length - 1 - at]);
        return back;
    }

    @Override
    public IBinder same(IBinder object) {
        return object;
    }

    @Override
    public synchronized ILampCallback current() {
        return callback;
    }

    @Override
    public ParcelFileDescriptor open(ParcelFileDescriptor file) {
        try (ParcelFileDescriptor.AutoCloseOutputStream out = new ParcelFileDescriptor.AutoCloseOutputStream(file.dup())) {
            out.write("served".getBytes());
            return file;
        } catch (IOException failed) {
            throw new ServiceSpecificException(1, failed.getMessage());
        }
    }

    @Override
    public String utf(String text) {
        return text;
    }

    @Override
    public double mix(char c, byte b, long l, float f, boolean z) {
        return c + b + (double) l + f + (z ? 0.5 : 0);
    }

    @Override
    public int callerPid() {
        return Binder.getCallingPid();
    }

    @Override
    public void refuse(int how) {
        switch (how) {
            case -1: throw new SecurityException("refused");
            case -4: throw new NullPointerException("refused");
            case -7: throw new UnsupportedOperationException("refused");
            default: throw new ServiceSpecificException(how, "refused");
        }
    }

    @Override
    public void die() {
        Runtime.getRuntime().halt(0);
    }

    private static void check(boolean is) {
        if (!is) {
            throw new AssertionError();
        }
    }

    private static <T extends Exception> T fails(Class<T> kind, Callable call) throws Exception {
        try {
            call.run();
        } catch (Exception thrown) {
            if (kind.isInstance(thrown)) {
                return kind.cast(thrown);
            }
            throw thrown;
        }
        throw new AssertionError("it did not fail");
    }

    private interface Callable {
        void run() throws Exception;
    }

    /** Hears of levels. */
    private static final class Listener extends ILampCallback.Stub {
        final LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();

        @Override
        public void onChanged(int level, String why) {
            heard.add(level + why);
        }

        String next() throws InterruptedException {
            return heard.poll(60, TimeUnit.SECONDS);
        }
    }

    private static LampState state(IBinder owner, ParcelFileDescriptor file) {
        LampState state = new LampState();
        state.name = "käse 🧀";
        state.history = new int[] {1, -2, Integer.MAX_VALUE};
        state.owner = owner;
        state.log = file;
        return state;
    }

    /** What the book shows. */
    static ILamp registeredAndFound() throws RemoteException {
        // ANCHOR: lamp
        ServiceManager.addService("sample.hal.ILamp/own", new Lamp());    // Lamp extends ILamp.Stub
        ILamp lamp = ILamp.Stub.asInterface(ServiceManager.waitForService("sample.hal.ILamp/own"));
        // ANCHOR_END: lamp
        return lamp;
    }

    private static void call() throws Exception {
        check(registeredAndFound().add(1, 2) == 3);
        IBinder object = ServiceManager.waitForService(NAME);
        check(object.isBinderAlive() && object.pingBinder() && object.getInterfaceDescriptor().equals("sample.hal.ILamp"));
        check(ServiceManager.checkService("nobody") == null);
        check(ServiceManager.checkService(NAME) == object);
        ILamp lamp = ILamp.Stub.asInterface(object);
        check(lamp.asBinder() == object && object.queryLocalInterface("sample.hal.ILamp") == null);
        // Of another process and of this one: nothing is called, and the error names both.
        for (IBinder other : new IBinder[] {object, new Lamp()}) {
            ILampCallback wrong = ILampCallback.Stub.asInterface(other);
            SecurityException refused = fails(SecurityException.class, () -> wrong.onChanged(1, "no callback"));
            String both = "the object has the interface sample.hal.ILamp, not sample.hal.ILampCallback";
            check(both.equals(refused.getMessage()));
        }

        check(lamp.add(40, 2) == 42 && lamp.add(Integer.MAX_VALUE, 1) == Integer.MIN_VALUE);
        for (String text : new String[] {"", "a", "ab", "abc", "käse 🧀", null}) {
            check(text == null ? lamp.echo(null) == null : text.equals(lamp.echo(text)));
        }
        check(lamp.utf("a\0b").equals("a\0b"));
        check(lamp.callerPid() == ProcessHandle.current().pid() && Binder.getCallingPid() == ProcessHandle.current().pid());
        check(lamp.mix('c', (byte) -3, 1L << 40, 0.25f, true) == 'c' - 3 + (double) (1L << 40) + 0.25 + 0.5);

        Listener listener = new Listener();
        check(lamp.current() == null);
        lamp.setCallback(listener);
        lamp.setLevel(7);
        check(listener.next().equals("7set"));
        lamp.setLevelLater(8);
        check(listener.next().equals("8set"));
        check(lamp.current() == listener);
        check(fails(IllegalArgumentException.class, () -> lamp.setLevel(11)).getMessage().equals("no such level"));

        File file = File.createTempFile("lamp", null);
        ParcelFileDescriptor log = ParcelFileDescriptor.open(file, ParcelFileDescriptor.MODE_READ_WRITE);
        LampState state = state(listener, log);
        LampState second = new LampState();
        lamp.describe(state, second);
        check(state.level == 4 && Arrays.equals(state.history, new int[] {1, -2, Integer.MAX_VALUE, 4}));
        check(second.name.equals("käse 🧀!") && second.note == null && second.level == 3 && second.kind.equals("lamp"));
        check(second.warmth == 1.5f && second.on && second.letter == 'a' && second.tiny == 4 && second.exact == 2.5);
        check(second.owner == listener && second.log.getFd() >= 0 && second.log.getFd() != log.getFd());

        int[] b = new int[3];
        byte[] c = {1, 2, 127};
        int[] back = lamp.arrays(new int[] {1, 2}, b, c, new boolean[] {true, false}, new char[] {'a'}, new long[] {7}, new double[] {9});
        check(Arrays.equals(b, new int[] {0, 1, 2}) && Arrays.equals(c, new byte[] {2, 3, -128}));
        check(Arrays.equals(back, new int[] {1, 2, 1, 0, 'a', 7, 9}));
        String[] copied = new String[2];
        check(Arrays.equals(lamp.strings(new String[] {"x", ""}, copied, new String[] {"y", null}), new String[] {"y", "null"}));
        check(Arrays.equals(copied, new String[] {"x", ""}));
        check(Arrays.equals(lamp.strings(new String[0], new String[0], null), new String[] {"none"}));
        LampState[] states = new LampState[20];
        for (int at = 0; at < states.length; at++) {
            states[at] = state(listener, log);
            states[at].level = at;
        }
        LampState[] reversed = lamp.states(states);
        check(reversed.length == 20 && reversed[0].level == 19 && reversed[19].owner == listener);

        check(lamp.same(null) == null && lamp.same(object) == object && lamp.same(listener) == listener);
        ParcelFileDescriptor opened = lamp.open(log);
        check(Files.readString(file.toPath()).equals("served") && opened.getStatSize() == 6);
        opened.close();
        fails(IllegalStateException.class, opened::getFd);
        check(file.delete());

        ServiceSpecificException refused = fails(ServiceSpecificException.class, () -> lamp.refuse(ILamp.REFUSED));
        check(refused.errorCode == 42 && refused.getMessage().equals("refused"));
        fails(SecurityException.class, () -> lamp.refuse(-1));
        fails(NullPointerException.class, () -> lamp.refuse(-4));
        fails(UnsupportedOperationException.class, () -> lamp.refuse(-7));
        check(!object.transact(99, Parcel.obtain(), Parcel.obtain(), 0));
        objectsGo(lamp);

        CountDownLatch died = new CountDownLatch(1);
        IBinder.DeathRecipient never = () -> System.exit(3);
        object.linkToDeath(never, 0);
        check(object.unlinkToDeath(never, 0));
        object.linkToDeath(died::countDown, 0);
        fails(DeadObjectException.class, lamp::die);
        check(died.await(60, TimeUnit.SECONDS) && !object.isBinderAlive());
        fails(DeadObjectException.class, () -> lamp.add(1, 2));
    }

    /** What nobody refers to any longer is collected: neither the library nor the service holds it for ever. */
    private static void objectsGo(ILamp lamp) throws Exception {
        WeakReference<Listener> last = new WeakReference<>(new Listener());
        for (int at = 0; at < 100; at++) {
            Listener one = new Listener();
            lamp.setCallback(one);
            last = new WeakReference<>(one);
        }
        lamp.setCallback(new Listener());
        for (int at = 0; last.get() != null; at++) {
            check(at < 600);
            System.gc();
            // What the service was sent goes when its virtual machine has found that nobody needs it.
            lamp.echo("collect");
            Thread.sleep(100);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("call")) {
            call();
            System.out.println("all is well");
            System.exit(0);
        }
        ServiceManager.addService(NAME, new Lamp());
        System.out.println("ready");
        new CountDownLatch(1).await();
    }
}
