import android.os.IBinder;
import android.os.ParcelFileDescriptor;
import android.os.ServiceManager;
import android.os.ServiceSpecificException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import sample.everything.Color;
import sample.everything.ICallback;
import sample.everything.IEverything;
import sample.everything.Mode;
import sample.everything.Point;
import sample.everything.Record;
import sample.everything.Shape;

/** Sends values of every type to a service in Rust, and looks at what comes back. */
public final class Everything {
    private static void check(boolean is) {
        if (!is) {
            throw new AssertionError();
        }
    }

    private static Point point(int x, int y) {
        Point made = new Point();
        made.x = x;
        made.y = y;
        return made;
    }

    private static Record.Inner inner(int depth) {
        Record.Inner made = new Record.Inner();
        made.kind = Record.Kind.NONE;
        made.more = depth == 0 ? null : new Record.Inner[] {inner(depth - 1), null};
        return made;
    }

    private static Record record(int depth) {
        Record made = new Record();
        made.flag = false;
        made.small = -128;
        made.letter = '\uffff';
        made.text = "ünï😀";
        made.utf8 = "";
        made.color = 77;
        made.mode = Mode.FAR;
        made.colors = new byte[] {Color.BLUE, Color.RED, -9};
        made.bytes = new byte[] {1, 2, -1};
        made.texts = new String[] {"a", ""};
        made.maybe = new String[] {null, "b"};
        made.list = List.of("c");
        made.point = point(1, 2);
        made.other = depth == 0 ? null : point(3, 4);
        made.points = new Point[] {point(5, 6)};
        made.matrix = new int[][] {{1, 2, 3}, {4, 5, 6}};
        made.digest[39] = 7;
        made.shape = Shape.pixels(new byte[] {9});
        made.inner = inner(2);
        made.next = depth == 0 ? null : record(depth - 1);
        return made;
    }

    private static void same(Record left, Record right) {
        check(left.flag == right.flag && left.small == right.small && left.letter == right.letter && left.number == right.number);
        check(left.big == right.big && left.half == right.half && left.pi == right.pi && left.text.equals(right.text));
        check(left.utf8.equals(right.utf8) && right.nothing == null && left.color == right.color && left.mode == right.mode);
        check(Arrays.equals(left.colors, right.colors) && Arrays.equals(left.bytes, right.bytes) && Arrays.equals(left.numbers, right.numbers));
        check(Arrays.equals(left.texts, right.texts) && Arrays.equals(left.maybe, right.maybe) && left.list.equals(right.list));
        check(left.point.y == right.point.y && (left.other == null) == (right.other == null) && right.points[0].x == 5);
        check(Arrays.deepEquals(left.matrix, right.matrix) && Arrays.equals(left.digest, right.digest));
        check(left.shape.getTag() == right.shape.getTag() && Arrays.equals(left.shape.getPixels(), right.shape.getPixels()));
        check(right.inner.more.length == 2 && right.inner.more[1] == null && right.inner.more[0].more[0].more == null);
        check((left.next == null) == (right.next == null));
        if (left.next != null) {
            same(left.next, right.next);
        }
    }

    public static void main(String[] arguments) throws Exception {
        check(IEverything.ANSWER == 42 && IEverything.GREETING.equals("hello") && IEverything.VERSION == 3);
        check(Record.NAME.equals("record") && Record.SIZES[2] == 3 && Record.MASK == 0xffffffffffL && Shape.CORNERS == 4);
        Record defaults = new Record();
        check(defaults.small == -1 && defaults.letter == 'A' && defaults.number == 7 && defaults.big == 1L << 33);
        check(defaults.half == 0.5f && defaults.pi == 3.25 && defaults.text.equals("hi \"you\"") && defaults.color == Color.GREEN);
        check(Arrays.equals(defaults.numbers, new int[] {1, 2, 3}) && new Point().x == -3 && new Shape().getRadius() == 7);

        IBinder object = ServiceManager.waitForService("rust.everything");
        IEverything rust = IEverything.Stub.asInterface(object);
        for (int depth = 0; depth < 4; depth++) {
            same(record(depth), rust.echo(record(depth)));
        }
        check(rust.add(2, 3) == 5 && rust.type(5, 3) == 2);
        check(rust.maybe("x", true).equals("x") && rust.maybe("x", false) == null && rust.maybe(null, true) == null);
        check(Arrays.equals(rust.reverse(new String[] {"a", "b"}), new String[] {"b", "a"}));
        int[] numbers = new int[5];
        rust.fill(numbers, 7);
        check(Arrays.equals(numbers, new int[] {7, 7, 7, 7, 7}));
        check(rust.next(Color.GREEN) == Color.BLUE && Arrays.equals(rust.all(), new byte[] {Color.RED, Color.GREEN, Color.BLUE}));
        Point[] points = rust.points(new Point[] {null, point(1, 2)});
        check(points.length == 2 && points[0] == null && points[1].y == 2 && rust.points(null) == null);
        check(rust.shape(Shape.radius(1)).getRadius() == 1 && rust.shape(Shape.name(null)).getName() == null);
        check(rust.shape(Shape.corner(point(8, 9))).getCorner().y == 9);
        try {
            Shape.radius(1).getCorner();
            check(false);
        } catch (IllegalStateException other) {
            check(other.getMessage().contains("radius"));
        }
        check(Arrays.equals(rust.turn(new int[] {1, 2, 3}), new int[] {3, 2, 1}));
        check(IEverything.Stub.asInterface(rust.itself()).add(1, 1) == 2 && rust.nobody(null) == null && rust.nobody(object) == object);
        LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
        ICallback callback = new ICallback.Stub() {
            @Override
            public void happened(int what, String text) {
                heard.add(what + text);
            }
        };
        for (int what = 0; what < 30; what++) {
            rust.call(callback, what);
            check(heard.poll(60, TimeUnit.SECONDS).equals(what + "as asked"));
        }
        ParcelFileDescriptor file = rust.open("made there");
        check(rust.size(file) == 10);
        try (ParcelFileDescriptor.AutoCloseInputStream in = new ParcelFileDescriptor.AutoCloseInputStream(file)) {
            check(new String(in.readAllBytes(), StandardCharsets.UTF_8).equals("made there"));
        }
        try {
            rust.fail(17);
            check(false);
        } catch (ServiceSpecificException refused) {
            check(refused.errorCode == 17 && refused.getMessage().equals("as asked"));
        }
        check(rust.getInterfaceVersion() == 3 && rust.getInterfaceHash().equals(IEverything.HASH));
        System.out.println("all is well");
        System.exit(0);
    }
}
