package sample.everything;

import sample.everything.Color;
import sample.everything.Mode;
import sample.everything.Point;
import sample.everything.Shape;

/** What everything can be written into; see {@link Shape}. */
parcelable Record {
    /** The kinds that are nested. */
    enum Kind { NONE, SOME }
    parcelable Inner {
        Kind kind = Kind.SOME;
        @nullable Inner[] more;
    }
    const String NAME = "re" + "cord";
    const int[] SIZES = {1, 2, 3};
    const long MASK = 0xffffffffffL;

    boolean flag = true;
    byte small = -1;
    char letter = 'A';
    int number = 1 + 2 * 3;
    long big = 1L << 33;
    float half = 0.5f;
    double pi = 3.25;
    String text = "hi \"you\"";
    @utf8InCpp String utf8;
    @nullable String nothing;
    Color color = Color.GREEN;
    Mode mode = Mode.FAST;
    Color[] colors;
    byte[] bytes;
    int[] numbers = {1, 2, 3};
    String[] texts;
    @nullable String[] maybe;
    List<String> list;
    Point point;
    @nullable Point other;
    Point[] points;
    int[2][3] matrix;
    byte[40] digest;
    Shape shape;
    Inner inner;
    @nullable(heap=true) Record next;
}
