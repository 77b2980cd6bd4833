import android.os.BadParcelableException;
import android.os.Binder;
import android.os.ParcelableHolder;
import android.os.PersistableBundle;
import android.os.ServiceManager;
import java.util.Arrays;
import java.util.Random;
import sample.held.Attached;
import sample.held.Choice;
import sample.held.Extended;
import sample.held.Extra;
import sample.held.IHolds;

/** Sends parcelables of types that an interface does not know, and bundles, to a service in Rust. */
public final class Holds {
    private static final Random CHANCE = new Random(7);

    private static void check(boolean is) {
        if (!is) {
            throw new AssertionError();
        }
    }

    private static String text() {
        return new String[] {"", "ünï😀", "a\nb"}[CHANCE.nextInt(3)];
    }

    private static Extra extra(int depth) {
        Extra made = new Extra();
        made.text = text();
        made.numbers = new long[] {CHANCE.nextLong(), Long.MIN_VALUE};
        if (depth > 0) {
            made.more.setParcelable(extra(depth - 1));
        }
        return made;
    }

    private static void same(Extra one, Extra other) {
        check(one.text.equals(other.text) && Arrays.equals(one.numbers, other.numbers));
        Extra more = one.more.getParcelable(Extra.class);
        Extra others = other.more.getParcelable(Extra.class);
        check((more == null) == (others == null));
        if (more != null) {
            same(more, others);
        }
    }

    private static PersistableBundle bundle(int depth) {
        PersistableBundle made = new PersistableBundle();
        made.putBoolean("flag", CHANCE.nextBoolean());
        made.putInt("int", CHANCE.nextInt());
        made.putLong("long", CHANCE.nextLong());
        made.putDouble("double", CHANCE.nextDouble());
        made.putString("text", text());
        made.putBooleanArray("flags", new boolean[] {true, false});
        made.putIntArray("ints", new int[] {CHANCE.nextInt()});
        made.putLongArray("longs", new long[0]);
        made.putDoubleArray("doubles", new double[] {-0.5});
        made.putStringArray("texts", new String[] {text(), ""});
        if (depth > 0) {
            made.putPersistableBundle("inner", bundle(depth - 1));
        }
        return made;
    }

    private static void same(PersistableBundle one, PersistableBundle other) {
        check(one.toString().equals(other.toString()));
        check(other.getInt("int") == one.getInt("int") && other.getInt("long", 5) == 5 && other.getString("none") == null);
        check(other.getLongArray("longs").length == 0 && other.getStringArray("texts")[1].isEmpty());
        check(other.size() == one.size() && other.keySet().equals(one.keySet()));
    }

    public static void main(String[] arguments) throws Exception {
        IHolds service = IHolds.Stub.asInterface(ServiceManager.waitForService("holds"));
        for (int round = 0; round < 50; round++) {
            Extra added = extra(2);
            Extended sent = new Extended();
            sent.number = round;
            if (round % 3 == 1) {
                sent.extension.setParcelable(added);
            } else if (round % 3 == 2) {
                sent.extension.setParcelable(Choice.text("chosen"));
            }
            Extended back = service.echo(sent);
            check(back.number == round && back.name == null);
            check((back.extension.getParcelable(Extra.class) != null) == (round % 3 == 1));
            Choice chosen = back.extension.getParcelable(Choice.class);
            check((chosen != null) == (round % 3 == 2));
            check(chosen == null || chosen.getText().equals("chosen"));
            if (round % 3 == 1) {
                same(added, back.extension.getParcelable(Extra.class));
            }
            // What nobody has looked at is passed on as it came.
            back = service.echo(service.echo(sent));
            check((back.extension.getParcelable(Extra.class) != null) == (round % 3 == 1));
            same(added, service.echoStable(added));
            PersistableBundle bundle = bundle(round % 3);
            same(bundle, service.echoBundle(bundle));
            check(service.echoBundle(null) == null && service.echoBundle(new PersistableBundle()).isEmpty());
        }
        // An object in it comes back as itself, also through one who does not look.
        Binder object = new Binder();
        Attached attached = new Attached();
        attached.object = object;
        attached.name = "here";
        Extended sent = new Extended();
        sent.extension.setParcelable(attached);
        Extended back = service.echo(service.echo(sent));
        attached = back.extension.getParcelable(Attached.class);
        check(attached.object == object && attached.name.equals("here"));
        // What is stable holds what is stable.
        try {
            extra(0).more.setParcelable(Choice.number(1));
            check(false);
        } catch (BadParcelableException refused) {
            check(refused.getMessage().contains("Choice"));
        }
        ParcelableHolder empty = new ParcelableHolder(0);
        check(empty.getParcelable(Extra.class) == null);
        System.out.println("all is well");
    }
}
