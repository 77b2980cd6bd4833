package dev.handoff;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Objects;

/**
 * Plain data of a call or a reply, in the layout of Android's parcels. Values are read in the order in which
 * they were written. Not for several threads at once.
 */
public final class Parcel {
    private ByteBuffer data;
    private int written;

    /** With nothing in it. */
    public Parcel() {
        this(new byte[64], 0);
    }

    Parcel(byte[] bytes, int length) {
        data = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        written = length;
    }

    byte[] toBytes() {
        return Arrays.copyOf(data.array(), written);
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
            byte[] larger = Arrays.copyOf(data.array(), Math.max(needed, data.capacity() * 2));
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
        System.arraycopy(value, 0, data.array(), at, value.length);
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
        return Arrays.copyOfRange(data.array(), at, at + length);
    }
}
