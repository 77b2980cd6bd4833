package dev.handoff;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * The data of a call or a reply, in the layout of Android's parcels. Values are read in the order in which they were
 * written. One that carries objects or file descriptors is closed, so that they are let go; one without them needs no
 * closing. What a handler is given and gives is closed for it. Not for several threads at once.
 */
public final class Parcel implements AutoCloseable {
    private static final int OBJECT = 1;
    private static final int FILE = 2;
    /** Bytes of a reference to no object. */
    private static final int NO_OBJECT = 28;

    private ByteBuffer data;
    private int written;
    // What stands between the bytes: where, of what kind, its number.
    private final List<long[]> between = new ArrayList<>();
    // The number of the library's own parcel, which has the objects that came; 0 if none did.
    private long kept;

    /** With nothing in it. */
    public Parcel() {
        data = ByteBuffer.wrap(new byte[64]).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** What came: the bytes from some place on. */
    Parcel(byte[] bytes, int from, long kept) {
        data = ByteBuffer.wrap(bytes, from, bytes.length - from).slice().order(ByteOrder.LITTLE_ENDIAN);
        written = bytes.length - from;
        this.kept = kept;
    }

    /** As the library takes it: how many objects, where each stands, the bytes. */
    byte[] toBytes() {
        ByteBuffer bytes = ByteBuffer.allocate(4 + 16 * between.size() + written).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putInt(between.size());
        for (long[] one : between) {
            bytes.putInt((int) one[0]).putInt((int) one[1]).putLong(one[2]);
        }
        return bytes.put(data.array(), data.arrayOffset(), written).array();
    }

    /** Lets go the objects that were written, and those that came and were not read. */
    @Override
    public void close() {
        if (kept != 0) {
            Connection.release(kept);
            kept = 0;
        }
        for (long[] one : between) {
            Connection.release(one[2]);
        }
        between.clear();
    }

    /** Bytes that were not read yet. */
    public int remaining() {
        return written - data.position();
    }

    private int grow(int bytes) {
        int at = written;
        int padded = Math.addExact(bytes, 3) & ~3;
        int needed = Math.addExact(at, padded);
        if (needed > data.capacity()) {
            int position = data.position();
            byte[] larger = new byte[Math.max(needed, data.capacity() * 2)];
            System.arraycopy(data.array(), data.arrayOffset(), larger, 0, written);
            data = ByteBuffer.wrap(larger).order(ByteOrder.LITTLE_ENDIAN);
            data.position(position);
        }
        written = needed;
        return at;
    }

    /** Where the next value of so many bytes stands, which is taken. */
    private int take(int bytes) {
        if (bytes < 0 || bytes > remaining()) {
            throw new BadParcelException("a value of " + bytes + " bytes where " + remaining() + " are left");
        }
        int at = data.position();
        data.position(at + Math.min((bytes + 3) & ~3, remaining()));
        return at;
    }

    public void writeBoolean(boolean value) {
        writeInt(value ? 1 : 0);
    }

    public void writeInt(int value) {
        int at = grow(4);
        data.putInt(at, value);
    }

    public void writeLong(long value) {
        int at = grow(8);
        data.putLong(at, value);
    }

    public void writeDouble(double value) {
        int at = grow(8);
        data.putDouble(at, value);
    }

    public void writeString(String value) {
        int length = Objects.requireNonNull(value).length();
        writeInt(length);
        int at = grow(Math.addExact(Math.multiplyExact(length, 2), 2));
        for (int index = 0; index < length; index++) {
            data.putChar(at + 2 * index, value.charAt(index));
        }
    }

    public void writeByteArray(byte[] value) {
        writeInt(value.length);
        int at = grow(value.length);
        System.arraycopy(value, 0, data.array(), data.arrayOffset() + at, value.length);
    }

    /** Adds a reference; null is one to no object. The parcel has one of its own until it is closed. */
    public void writeObject(RemoteObject object) {
        long held = object == null ? 0 : Outcome.number(Connection.holdObject(object.number()));
        between.add(new long[] {written, OBJECT, held});
    }

    /**
     * Adds a {@code ParcelFileDescriptor} by its number, which stays the caller's to close. The parcel has a copy until it
     * is closed.
     */
    public void writeFileDescriptor(int fd) {
        between.add(new long[] {written, FILE, Outcome.number(Connection.holdFile(fd))});
    }

    /** A reference that is the caller's to close; null is one to no object. */
    public RemoteObject readObject() {
        if (kept == 0) {
            int at = take(NO_OBJECT);
            if (data.getLong(at + 8) != 0) {
                throw new BadParcelException("no object came with this parcel");
            }
            return null;
        }
        long number = taken(Connection.takeObject(kept, data.position()));
        return number == 0 ? null : new RemoteObject(number);
    }

    /** A file descriptor by its number, which is the caller's to close. */
    public int readFileDescriptor() {
        if (kept == 0) {
            throw new BadParcelException("no file descriptor came with this parcel");
        }
        return (int) taken(Connection.takeFile(kept, data.position()));
    }

    private long taken(byte[] outcome) {
        ByteBuffer bytes = ByteBuffer.wrap(Outcome.open(outcome)).order(ByteOrder.LITTLE_ENDIAN);
        long number = bytes.getLong();
        data.position(bytes.getInt());
        return number;
    }

    public boolean readBoolean() {
        return readInt() != 0;
    }

    public int readInt() {
        return data.getInt(take(4));
    }

    public long readLong() {
        return data.getLong(take(8));
    }

    public double readDouble() {
        return data.getDouble(take(8));
    }

    public String readString() {
        int length = readInt();
        if (length < 0 || length > remaining() / 2) {
            throw new BadParcelException("a string of " + length + " characters");
        }
        int at = take(2 * length + 2);
        char[] text = new char[length];
        for (int index = 0; index < length; index++) {
            text[index] = data.getChar(at + 2 * index);
        }
        return new String(text);
    }

    public byte[] readByteArray() {
        int length = readInt();
        int at = take(length);
        int from = data.arrayOffset() + at;
        return Arrays.copyOfRange(data.array(), from, from + length);
    }
}
