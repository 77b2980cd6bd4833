package android.os;

import dev.handoff.Bridge;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.IntFunction;

/**
 * The data of a call or a reply, as code written for Android reads and writes it: with one position. The layout is that
 * of Android's parcels. Not for several threads at once.
 */
public final class Parcel {
    static final int EX_SECURITY = -1;
    static final int EX_BAD_PARCELABLE = -2;
    static final int EX_ILLEGAL_ARGUMENT = -3;
    static final int EX_NULL_POINTER = -4;
    static final int EX_ILLEGAL_STATE = -5;
    static final int EX_UNSUPPORTED_OPERATION = -7;
    static final int EX_SERVICE_SPECIFIC = -8;

    /** Bytes of a reference to an object, with its stability. */
    private static final int OBJECT_SIZE = 28;
    /** Bytes of a file descriptor; in front of it stand that it is not null and that no second one follows. */
    private static final int FILE_SIZE = 24;
    /** How deep values may be nested in each other: a peer decides, and each level takes stack. */
    private static final int DEEPEST = 64;

    private ByteBuffer data = ByteBuffer.allocate(64).order(ByteOrder.LITTLE_ENDIAN);
    private int size;
    // What was written between the bytes: where it begins, its size, its kind, the library's number of it.
    private final List<long[]> objects = new ArrayList<>();
    // What came: the library's number of the parcel with the objects; 0 if none came. Where its data begin here.
    private long kept;
    private int keptAt;
    private String token;
    private int depth;

    private Parcel() {}

    public static Parcel obtain() {
        return new Parcel();
    }

    /** Lets go what was written or came. The parcel is empty afterwards. */
    public void recycle() {
        for (long[] object : objects) {
            Bridge.release(object[3]);
        }
        objects.clear();
        Bridge.release(kept);
        kept = 0;
        size = 0;
        data.position(0);
        token = null;
    }

    // ---- how the library sees it

    /** What came, behind so many bytes. */
    static Parcel received(byte[] bytes, int from, long kept) {
        Parcel parcel = new Parcel();
        parcel.data = ByteBuffer.wrap(bytes, from, bytes.length - from).slice().order(ByteOrder.LITTLE_ENDIAN);
        parcel.size = bytes.length - from;
        parcel.kept = kept;
        return parcel;
    }

    /** A reply: that there was no exception, then what came. */
    void receive(byte[] answer) {
        recycle();
        data = ByteBuffer.allocate(answer.length - 4).order(ByteOrder.LITTLE_ENDIAN);
        data.position(4);
        data.put(answer, 8, answer.length - 8).position(0);
        size = answer.length - 4;
        kept = ByteBuffer.wrap(answer).order(ByteOrder.LITTLE_ENDIAN).getLong();
        keptAt = 4;
    }

    /** A reply that is an exception. */
    void refuse(int exception, int specific, String message) {
        recycle();
        writeInt(exception);
        writeString(message);
        writeInt(0);
        if (exception == EX_SERVICE_SPECIFIC) {
            writeInt(specific);
        }
        setDataPosition(0);
    }

    /** The interface that the call is meant for. */
    String token() {
        return token;
    }

    /** From some place on, as the library takes it: how many objects, where each stands, the bytes between. */
    byte[] toBytes(int from) {
        objects.sort((left, right) -> Long.compare(left[0], right[0]));
        ByteBuffer bytes = ByteBuffer.allocate(4 + 16 * objects.size() + size).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putInt(objects.size());
        int without = from;
        for (long[] object : objects) {
            bytes.putInt((int) object[0] - without).putInt((int) object[2]).putLong(object[3]);
            without += (int) object[1];
        }
        int at = from;
        for (long[] object : objects) {
            bytes.put(data.array(), data.arrayOffset() + at, (int) object[0] - at);
            at = (int) (object[0] + object[1]);
        }
        bytes.put(data.array(), data.arrayOffset() + at, size - at);
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    /** What a service has answered, as the library takes it: an exception, or what stands behind that there was none. */
    byte[] toOutcome() {
        if (size == 0) {
            return Bridge.reply(new byte[4]);
        }
        setDataPosition(0);
        int exception = readInt();
        if (exception == 0) {
            byte[] bytes = toBytes(4);
            // The library has them now.
            objects.clear();
            return Bridge.reply(bytes);
        }
        String message = readString();
        readInt();
        int specific = exception == EX_SERVICE_SPECIFIC ? readInt() : 0;
        return Bridge.refused(exception, specific, String.valueOf(message));
    }

    // ---- position and size

    public int dataPosition() {
        return data.position();
    }

    public void setDataPosition(int position) {
        if (position < 0 || position > size) {
            throw new IllegalArgumentException("position " + position + " of a parcel of " + size + " bytes");
        }
        data.position(position);
    }

    public int dataSize() {
        return size;
    }

    public int dataAvail() {
        return size - data.position();
    }

    public boolean hasFileDescriptors() {
        return objects.stream().anyMatch(object -> object[2] == Bridge.FILE);
    }

    /** Makes room for so many bytes, filled up to a multiple of four, at the position, which goes behind them; gives where. */
    private int put(int bytes) {
        int at = data.position();
        int end = Math.addExact(at, Math.addExact(bytes, 3) & ~3);
        if (end > data.capacity()) {
            ByteBuffer larger =
                ByteBuffer.allocate(Math.max(end, Math.addExact(data.capacity(), data.capacity())));
            System.arraycopy(data.array(), data.arrayOffset(), larger.array(), 0, size);
            data = larger.order(ByteOrder.LITTLE_ENDIAN);
        }
        Arrays.fill(data.array(), data.arrayOffset() + at, data.arrayOffset() + end, (byte) 0);
        // What is written over is no object any longer.
        objects.removeIf(object -> {
            boolean isOver = object[0] < end && object[0] + object[1] > at;
            if (isOver) {
                Bridge.release(object[3]);
            }
            return isOver;
        });
        size = Math.max(size, end);
        data.position(end);
        return at;
    }

    /** Where the next value of so many bytes stands; the position goes behind it. */
    private int take(int bytes) {
        if (bytes < 0 || bytes > dataAvail()) {
            throw new BadParcelableException("a value of " + bytes + " bytes where " + dataAvail() + " are left");
        }
        int at = data.position();
        data.position(at + Math.min((bytes + 3) & ~3, dataAvail()));
        return at;
    }

    /** A length of items of so many bytes each at the least; -1 is null. */
    private int takeLength(int least) {
        int length = readInt();
        if (length < -1 || (long) length * least > dataAvail()) {
            throw new BadParcelableException(length + " items where " + dataAvail() + " bytes are left");
        }
        return length;
    }

    // ---- the interface, and exceptions

    /** Says which interface the call is meant for. It is compared, and not sent: the library's connection knows it. */
    public void writeInterfaceToken(String descriptor) {
        token = descriptor;
    }

    /** Nothing is to be compared: see {@link #writeInterfaceToken}. */
    public void enforceInterface(String descriptor) {}

    public void enforceNoDataAvail() {
        if (dataAvail() > 0) {
            throw new BadParcelableException(dataAvail() + " bytes stand behind what was read");
        }
    }

    public void writeNoException() {
        writeInt(0);
    }

    /** The number of an exception that a caller can be told; 0 of others. */
    static int exceptionOf(Throwable thrown) {
        return thrown instanceof SecurityException ? EX_SECURITY
            : thrown instanceof BadParcelableException ? EX_BAD_PARCELABLE
            : thrown instanceof IllegalArgumentException ? EX_ILLEGAL_ARGUMENT
            : thrown instanceof NullPointerException ? EX_NULL_POINTER
            : thrown instanceof IllegalStateException ? EX_ILLEGAL_STATE
            : thrown instanceof UnsupportedOperationException ? EX_UNSUPPORTED_OPERATION
            : thrown instanceof ServiceSpecificException ? EX_SERVICE_SPECIFIC
            : 0;
    }

    static int specificOf(Throwable thrown) {
        return thrown instanceof ServiceSpecificException ? ((ServiceSpecificException) thrown).errorCode : 0;
    }

    public void writeException(Exception thrown) {
        int exception = exceptionOf(thrown);
        if (exception == 0) {
            throw thrown instanceof RuntimeException ? (RuntimeException) thrown : new RuntimeException(thrown);
        }
        writeInt(exception);
        writeString(thrown.getMessage());
        writeInt(0);
        if (exception == EX_SERVICE_SPECIFIC) {
            writeInt(specificOf(thrown));
        }
    }

    public void readException() {
        int exception = readInt();
        if (exception == 0) {
            return;
        }
        String message = readString();
        int trace = readInt();
        if (trace > 4) {
            take(trace - 4);
        }
        switch (exception) {
            case EX_SECURITY:
                throw new SecurityException(message);
            case EX_BAD_PARCELABLE:
                throw new BadParcelableException(message);
            case EX_ILLEGAL_ARGUMENT:
                throw new IllegalArgumentException(message);
            case EX_NULL_POINTER:
                throw new NullPointerException(message);
            case EX_ILLEGAL_STATE:
                throw new IllegalStateException(message);
            case EX_UNSUPPORTED_OPERATION:
                throw new UnsupportedOperationException(message);
            case EX_SERVICE_SPECIFIC:
                throw new ServiceSpecificException(readInt(), message);
            default:
                throw new RuntimeException("exception " + exception + ": " + message);
        }
    }

    // ---- numbers and text

    public void writeInt(int value) {
        int at = put(4);
        data.putInt(at, value);
    }

    public int readInt() {
        return data.getInt(take(4));
    }

    public void writeLong(long value) {
        int at = put(8);
        data.putLong(at, value);
    }

    public long readLong() {
        return data.getLong(take(8));
    }

    public void writeFloat(float value) {
        int at = put(4);
        data.putFloat(at, value);
    }

    public float readFloat() {
        return data.getFloat(take(4));
    }

    public void writeDouble(double value) {
        int at = put(8);
        data.putDouble(at, value);
    }

    public double readDouble() {
        return data.getDouble(take(8));
    }

    public void writeByte(byte value) {
        writeInt(value);
    }

    public byte readByte() {
        return (byte) readInt();
    }

    public void writeBoolean(boolean value) {
        writeInt(value ? 1 : 0);
    }

    public boolean readBoolean() {
        return readInt() != 0;
    }

    private void writeChar(char value) {
        writeInt(value);
    }

    private char readChar() {
        return (char) readInt();
    }

    public void writeString(String value) {
        if (value == null) {
            writeInt(-1);
            return;
        }
        int length = value.length();
        writeInt(length);
        int at = put(Math.addExact(Math.multiplyExact(length, 2), 2));
        for (int index = 0; index < length; index++) {
            data.putChar(at + 2 * index, value.charAt(index));
        }
    }

    public String readString() {
        int length = takeLength(2);
        if (length == -1) {
            return null;
        }
        int at = take(2 * length + 2);
        char[] text = new char[length];
        for (int index = 0; index < length; index++) {
            text[index] = data.getChar(at + 2 * index);
        }
        return new String(text);
    }

    // ---- arrays: null is a length of -1; what is read into must have the length that came

    public void writeByteArray(byte[] value) {
        writeInt(value == null ? -1 : value.length);
        if (value != null) {
            int at = put(value.length);
            System.arraycopy(value, 0, data.array(), data.arrayOffset() + at, value.length);
        }
    }

    public byte[] createByteArray() {
        int length = takeLength(1);
        if (length == -1) {
            return null;
        }
        int from = data.arrayOffset() + take(length);
        return Arrays.copyOfRange(data.array(), from, from + length);
    }

    public void readByteArray(byte[] value) {
        into(value, createByteArray());
    }

    /** Puts an array that was read into one that the caller has. */
    private static void into(Object value, Object read) {
        int length = read == null ? -1 : java.lang.reflect.Array.getLength(read);
        if (length != java.lang.reflect.Array.getLength(value)) {
            throw new BadParcelableException("an array of another length came than the one to be read into");
        }
        System.arraycopy(read, 0, value, 0, length);
    }

    public void writeIntArray(int[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeInt(value[index]);
        }
    }

    public int[] createIntArray() {
        int length = takeLength(4);
        int[] value = length == -1 ? null : new int[length];
        for (int index = 0; index < length; index++) {
            value[index] = readInt();
        }
        return value;
    }

    public void readIntArray(int[] value) {
        into(value, createIntArray());
    }

    public void writeLongArray(long[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeLong(value[index]);
        }
    }

    public long[] createLongArray() {
        int length = takeLength(8);
        long[] value = length == -1 ? null : new long[length];
        for (int index = 0; index < length; index++) {
            value[index] = readLong();
        }
        return value;
    }

    public void readLongArray(long[] value) {
        into(value, createLongArray());
    }

    public void writeFloatArray(float[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeFloat(value[index]);
        }
    }

    public float[] createFloatArray() {
        int length = takeLength(4);
        float[] value = length == -1 ? null : new float[length];
        for (int index = 0; index < length; index++) {
            value[index] = readFloat();
        }
        return value;
    }

    public void readFloatArray(float[] value) {
        into(value, createFloatArray());
    }

    public void writeDoubleArray(double[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeDouble(value[index]);
        }
    }

    public double[] createDoubleArray() {
        int length = takeLength(8);
        double[] value = length == -1 ? null : new double[length];
        for (int index = 0; index < length; index++) {
            value[index] = readDouble();
        }
        return value;
    }

    public void readDoubleArray(double[] value) {
        into(value, createDoubleArray());
    }

    public void writeBooleanArray(boolean[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeBoolean(value[index]);
        }
    }

    public boolean[] createBooleanArray() {
        int length = takeLength(4);
        boolean[] value = length == -1 ? null : new boolean[length];
        for (int index = 0; index < length; index++) {
            value[index] = readBoolean();
        }
        return value;
    }

    public void readBooleanArray(boolean[] value) {
        into(value, createBooleanArray());
    }

    public void writeCharArray(char[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeChar(value[index]);
        }
    }

    public char[] createCharArray() {
        int length = takeLength(4);
        char[] value = length == -1 ? null : new char[length];
        for (int index = 0; index < length; index++) {
            value[index] = readChar();
        }
        return value;
    }

    public void readCharArray(char[] value) {
        into(value, createCharArray());
    }

    public void writeStringArray(String[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeString(value[index]);
        }
    }

    public String[] createStringArray() {
        int length = takeLength(4);
        String[] value = length == -1 ? null : new String[length];
        for (int index = 0; index < length; index++) {
            value[index] = readString();
        }
        return value;
    }

    public void readStringArray(String[] value) {
        into(value, createStringArray());
    }

    public void writeStringList(List<String> value) {
        writeStringArray(value == null ? null : value.toArray(new String[0]));
    }

    public ArrayList<String> createStringArrayList() {
        return list(createStringArray());
    }

    public void readStringList(List<String> value) {
        into(value, createStringArray());
    }

    private static <T> ArrayList<T> list(T[] items) {
        return items == null ? null : new ArrayList<>(Arrays.asList(items));
    }

    private static <T> void into(List<T> value, T[] read) {
        value.clear();
        if (read != null) {
            value.addAll(Arrays.asList(read));
        }
    }

    // ---- objects and file descriptors

    /** A strong reference of the library's to an object, which is the caller's to release. */
    static long hold(IBinder object) {
        return object instanceof Binder ? ((Binder) object).hold() : Bridge.hold(((BinderProxy) object).number());
    }

    public void writeStrongBinder(IBinder object) {
        long held = object == null ? 0 : hold(object);
        objects.add(new long[] {put(OBJECT_SIZE), OBJECT_SIZE, Bridge.OBJECT, held});
    }

    public void writeStrongInterface(IInterface object) {
        writeStrongBinder(object == null ? null : object.asBinder());
    }

    public IBinder readStrongBinder() {
        if (kept == 0) {
            int at = take(OBJECT_SIZE);
            for (long[] object : objects) {
                if (object[0] == at && object[2] == Bridge.OBJECT) {
                    // Written by this process, and read by it.
                    return object[3] == 0 ? null : References.of(Bridge.hold(object[3]));
                }
            }
            if (data.getLong(at + 8) != 0) {
                throw new BadParcelableException("no object came with this parcel");
            }
            return null;
        }
        long number = Bridge.takeObject(kept, data.position() - keptAt);
        take(OBJECT_SIZE);
        return number == 0 ? null : References.of(number);
    }

    /** Behind two numbers: that it is not null, and that no second descriptor follows. */
    void writeFile(int fd) {
        int from = data.position() - 8;
        if (from < 0 || data.getInt(from) != 1 || data.getInt(from + 4) != 0) {
            throw new UnsupportedOperationException("a file descriptor travels as writeTypedObject writes it");
        }
        long held = Bridge.holdFile(fd);
        put(FILE_SIZE);
        objects.add(new long[] {from, FILE_SIZE + 8, Bridge.FILE, held});
    }

    int readFile() {
        int from = data.position() - 8;
        if (kept == 0 || from < keptAt) {
            throw new BadParcelableException("no file descriptor came with this parcel");
        }
        int fd = Bridge.takeFile(kept, from - keptAt);
        take(FILE_SIZE);
        return fd;
    }

    public void writeBinderArray(IBinder[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeStrongBinder(value[index]);
        }
    }

    public IBinder[] createBinderArray() {
        int length = takeLength(OBJECT_SIZE);
        IBinder[] value = length == -1 ? null : new IBinder[length];
        for (int index = 0; index < length; index++) {
            value[index] = readStrongBinder();
        }
        return value;
    }

    public void readBinderArray(IBinder[] value) {
        into(value, createBinderArray());
    }

    public void writeBinderList(List<IBinder> value) {
        writeBinderArray(value == null ? null : value.toArray(new IBinder[0]));
    }

    public ArrayList<IBinder> createBinderArrayList() {
        return list(createBinderArray());
    }

    public void readBinderList(List<IBinder> value) {
        into(value, createBinderArray());
    }

    // ---- parcelables: whether one is there, then what it writes

    public <T extends Parcelable> void writeTypedObject(T value, int flags) {
        writeInt(value == null ? 0 : 1);
        if (value != null) {
            value.writeToParcel(this, flags);
        }
    }

    public <T> T readTypedObject(Parcelable.Creator<T> creator) {
        return readInt() == 0 ? null : nested(creator);
    }

    /** A value in another. */
    <T> T nested(Parcelable.Creator<T> creator) {
        if (depth == DEEPEST) {
            throw new BadParcelableException("values are nested more than " + DEEPEST + " deep");
        }
        depth++;
        try {
            return creator.createFromParcel(this);
        } finally {
            depth--;
        }
    }

    // ---- parts, which a holder keeps as they came

    /** So many bytes from the position as a parcel of its own, with the objects in them. Its owner need not recycle it. */
    Parcel part(int bytes) {
        int at = data.position();
        if (bytes < 0 || bytes % 4 != 0) {
            throw new BadParcelableException("a part of " + bytes + " bytes");
        }
        take(bytes);
        byte[] copy = Arrays.copyOfRange(data.array(), data.arrayOffset() + at, data.arrayOffset() + at + bytes);
        Parcel part = received(copy, 0, kept == 0 ? 0 : Bridge.part(kept, at - keptAt, bytes));
        for (long[] object : objects) {
            if (object[2] == Bridge.PART && object[0] == at && object[1] == bytes) {
                part.kept = Bridge.hold(object[3]);
            } else if (object[0] >= at && object[0] + object[1] <= at + bytes) {
                part.objects.add(new long[] {object[0] - at, object[1], object[2], Bridge.hold(object[3])});
            }
        }
        References.recycleBehind(part, part.kept, part.objects);
        return part;
    }

    /** Writes everything that is in a part. */
    void append(Parcel part) {
        int at = put(part.size);
        System.arraycopy(part.data.array(), part.data.arrayOffset(), data.array(), data.arrayOffset() + at, part.size);
        if (part.kept != 0) {
            objects.add(new long[] {at, part.size, Bridge.PART, Bridge.hold(part.kept)});
        }
        for (long[] object : part.objects) {
            objects.add(new long[] {at + object[0], object[1], object[2], Bridge.hold(object[3])});
        }
    }

    public <T extends Parcelable> void writeTypedArray(T[] value, int flags) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeTypedObject(value[index], flags);
        }
    }

    public <T> T[] createTypedArray(Parcelable.Creator<T> creator) {
        int length = takeLength(4);
        T[] value = length == -1 ? null : creator.newArray(length);
        for (int index = 0; index < length; index++) {
            value[index] = readTypedObject(creator);
        }
        return value;
    }

    public <T> void readTypedArray(T[] value, Parcelable.Creator<T> creator) {
        into(value, createTypedArray(creator));
    }

    public <T extends Parcelable> void writeTypedList(List<T> value) {
        writeInt(value == null ? -1 : value.size());
        if (value != null) {
            for (T one : value) {
                writeTypedObject(one, 0);
            }
        }
    }

    public <T> ArrayList<T> createTypedArrayList(Parcelable.Creator<T> creator) {
        return list(createTypedArray(creator));
    }

    public <T> void readTypedList(List<T> value, Parcelable.Creator<T> creator) {
        into(value, createTypedArray(creator));
    }

    // ---- interfaces, as references to their objects

    public <T extends IInterface> void writeInterfaceArray(T[] value) {
        writeInt(value == null ? -1 : value.length);
        for (int index = 0; value != null && index < value.length; index++) {
            writeStrongInterface(value[index]);
        }
    }

    public <T extends IInterface> T[] createInterfaceArray(IntFunction<T[]> newArray, Function<IBinder, T> asInterface) {
        int length = takeLength(OBJECT_SIZE);
        T[] value = length == -1 ? null : newArray.apply(length);
        for (int index = 0; index < length; index++) {
            value[index] = asInterface.apply(readStrongBinder());
        }
        return value;
    }

    public <T extends IInterface> void readInterfaceArray(T[] value, Function<IBinder, T> asInterface) {
        int length = takeLength(OBJECT_SIZE);
        if (length != value.length) {
            throw new BadParcelableException("an array of another length came than the one to be read into");
        }
        for (int index = 0; index < length; index++) {
            value[index] = asInterface.apply(readStrongBinder());
        }
    }

    public <T extends IInterface> void writeInterfaceList(List<T> value) {
        writeInterfaceArray(value == null ? null : value.toArray(new IInterface[0]));
    }

    public <T extends IInterface> ArrayList<T> createInterfaceArrayList(Function<IBinder, T> asInterface) {
        int length = takeLength(OBJECT_SIZE);
        ArrayList<T> value = length == -1 ? null : new ArrayList<>(length);
        for (int index = 0; index < length; index++) {
            value.add(asInterface.apply(readStrongBinder()));
        }
        return value;
    }

    public <T extends IInterface> void readInterfaceList(List<T> value, Function<IBinder, T> asInterface) {
        ArrayList<T> read = createInterfaceArrayList(asInterface);
        value.clear();
        if (read != null) {
            value.addAll(read);
        }
    }

    // ---- arrays of fixed size: each says its length, which must be the one that is meant

    public <T> void writeFixedArray(T value, int flags, int... dimensions) {
        FixedArrays.write(this, value, flags, dimensions);
    }

    public <T> T createFixedArray(Class<T> type, int... dimensions) {
        return type.cast(FixedArrays.read(this, type, null, null, dimensions));
    }

    public <T, S extends Parcelable> T createFixedArray(Class<T> type, Parcelable.Creator<S> creator, int... dimensions) {
        return type.cast(FixedArrays.read(this, type, creator, null, dimensions));
    }

    public <T, S extends IInterface> T createFixedArray(
            Class<T> type, Function<IBinder, S> asInterface, int... dimensions) {
        return type.cast(FixedArrays.read(this, type, null, asInterface, dimensions));
    }

    public <T> void readFixedArray(T value) {
        FixedArrays.copy(value, FixedArrays.read(this, value.getClass(), null, null, FixedArrays.sizes(value)));
    }

    public <T, S extends Parcelable> void readFixedArray(T value, Parcelable.Creator<S> creator) {
        FixedArrays.copy(value, FixedArrays.read(this, value.getClass(), creator, null, FixedArrays.sizes(value)));
    }

    public <T, S extends IInterface> void readFixedArray(T value, Function<IBinder, S> asInterface) {
        FixedArrays.copy(value, FixedArrays.read(this, value.getClass(), null, asInterface, FixedArrays.sizes(value)));
    }
}
