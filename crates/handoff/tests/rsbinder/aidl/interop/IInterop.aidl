package interop;

import interop.Point;

interface IInterop {
    String echo(String text);
    int[] reverse(in int[] numbers);
    byte[] flip(in byte[] data);
    @nullable Point move(in @nullable Point point, int by);
    int callBack(IInterop other, int depth);
    String readFile(in ParcelFileDescriptor file);
    ParcelFileDescriptor makeFile(String text);
    void fail(int code, String message);
    @nullable String[] upper(in @nullable String[] words);
    IInterop another();
    oneway void note(String text);
    String[] notes();
    oneway void die();
}
