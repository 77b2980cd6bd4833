package sample.everything;

import android.hardware.common.fmq.MQDescriptor;
import android.hardware.common.fmq.SynchronizedReadWrite;
import sample.everything.Color;
import sample.everything.ICallback;
import sample.everything.Point;
import sample.everything.Record;
import sample.everything.Shape;

/** Uses every part of the language once. */
interface IEverything {
    const int ANSWER = 42;
    const @utf8InCpp String GREETING = "hello";

    /**
     * Gives back what it is given.
     * @param record anything
     * @return the same
     */
    Record echo(in Record record);
    int add(int a, int b);
    @nullable String maybe(@nullable String text, boolean wanted);
    String[] reverse(in String[] texts);
    /** Fills an array of the length that the caller gives it. */
    void fill(out int[] numbers, int with);
    void grow(inout byte[] bytes, out Point point);
    int countAndSplit(in List<String> words, out String[] first, inout @nullable Record record);
    Color next(Color color);
    Color[] all();
    @nullable Point[] points(in @nullable Point[] points);
    Shape shape(in Shape shape);
    IBinder itself();
    @nullable IBinder nobody(@nullable IBinder object);
    oneway void call(ICallback callback, int what);
    ParcelFileDescriptor open(String text);
    long size(in ParcelFileDescriptor file);
    CharSequence styled(CharSequence text);
    int[3] turn(in int[3] numbers);
    int sum(in MQDescriptor<int, SynchronizedReadWrite> queue, int count);
    void fail(int code);
    /** @deprecated ask {@code add} */
    int type(int self, int crate);
}
