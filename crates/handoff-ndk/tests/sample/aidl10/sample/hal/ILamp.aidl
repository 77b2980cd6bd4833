package sample.hal;

import sample.hal.ILampCallback;
import sample.hal.LampState;

interface ILamp {
    const int MAX_LEVEL = 10;
    const String DEFAULT_NAME = "bedside";
    const int REFUSED = 42;

    int add(int a, int b);
    @nullable String echo(@nullable String text);
    void setCallback(in ILampCallback callback);
    void setLevel(int level);
    oneway void setLevelLater(int level);
    void describe(inout LampState state, out LampState second);
    int[] arrays(in int[] a, out int[] b, inout byte[] c, in boolean[] d, in char[] e, in long[] f, in double[] g);
    String[] strings(in String[] a, out String[] b, in @nullable String[] n);
    LampState[] states(in LampState[] states);
    @nullable IBinder same(@nullable IBinder object);
    @nullable ILampCallback current();
    ParcelFileDescriptor open(in ParcelFileDescriptor file);
    @utf8InCpp String utf(@utf8InCpp String text);
    double mix(char c, byte b, long l, float f, boolean z);
    int callerPid();
    void refuse(int how);
    void die();
}
