package android.os;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Values of a few types, each under a name. Not for several threads at once. */
public final class PersistableBundle implements Parcelable, Cloneable {
    public static final PersistableBundle EMPTY = new PersistableBundle();
    public static final Parcelable.Creator<PersistableBundle> CREATOR = new Parcelable.Creator<PersistableBundle>() {
        @Override
        public PersistableBundle createFromParcel(Parcel source) {
            PersistableBundle made = new PersistableBundle();
            made.readFromParcel(source);
            return made;
        }

        @Override
        public PersistableBundle[] newArray(int size) {
            return new PersistableBundle[size];
        }
    };

    /** The marks of bundles that native code and that Java wrote. */
    private static final int NATIVE = 0x4c444e44;
    private static final int JAVA = 0x4c444e42;
    /** The type of what has no value. */
    private static final int NULL = -1;
    /** The least bytes of an entry: an empty name and a type. */
    private static final int LEAST_ENTRY = 12;

    /** The types with the numbers that they travel under, in the order in which native code writes values. */
    private static final Class<?>[] TYPES = {
        Boolean.class, Integer.class, Long.class, Double.class, String.class, boolean[].class, int[].class, long[].class,
        double[].class, String[].class, PersistableBundle.class,
    };
    private static final int[] NUMBERS = {9, 1, 6, 8, 0, 23, 18, 19, 28, 14, 25};

    private final TreeMap<String, Object> values = new TreeMap<>();

    public PersistableBundle() {}

    public PersistableBundle(PersistableBundle other) {
        values.putAll(other.values);
    }

    @Override
    public PersistableBundle clone() {
        return new PersistableBundle(this);
    }

    /** With copies of arrays and of bundles in it. */
    public PersistableBundle deepCopy() {
        PersistableBundle copy = new PersistableBundle();
        Parcel parcel = Parcel.obtain();
        writeToParcel(parcel, 0);
        parcel.setDataPosition(0);
        copy.readFromParcel(parcel);
        parcel.recycle();
        return copy;
    }

    public int size() {
        return values.size();
    }

    public boolean isEmpty() {
        return values.isEmpty();
    }

    public boolean containsKey(String key) {
        return values.containsKey(key);
    }

    public Object get(String key) {
        return values.get(key);
    }

    public Set<String> keySet() {
        return values.keySet();
    }

    public void remove(String key) {
        values.remove(key);
    }

    public void clear() {
        values.clear();
    }

    public void putAll(PersistableBundle other) {
        values.putAll(other.values);
    }

    /** The value of a name, or another where none of the type has it. */
    private <T> T get(Class<T> type, String key, T otherwise) {
        Object value = values.get(key);
        return type.isInstance(value) ? type.cast(value) : otherwise;
    }

    public void putBoolean(String key, boolean value) {
        values.put(key, value);
    }

    public boolean getBoolean(String key) {
        return getBoolean(key, false);
    }

    public boolean getBoolean(String key, boolean otherwise) {
        return get(Boolean.class, key, otherwise);
    }

    public void putInt(String key, int value) {
        values.put(key, value);
    }

    public int getInt(String key) {
        return getInt(key, 0);
    }

    public int getInt(String key, int otherwise) {
        return get(Integer.class, key, otherwise);
    }

    public void putLong(String key, long value) {
        values.put(key, value);
    }

    public long getLong(String key) {
        return getLong(key, 0);
    }

    public long getLong(String key, long otherwise) {
        return get(Long.class, key, otherwise);
    }

    public void putDouble(String key, double value) {
        values.put(key, value);
    }

    public double getDouble(String key) {
        return getDouble(key, 0);
    }

    public double getDouble(String key, double otherwise) {
        return get(Double.class, key, otherwise);
    }

    public void putString(String key, String value) {
        values.put(key, value);
    }

    public String getString(String key) {
        return getString(key, null);
    }

    public String getString(String key, String otherwise) {
        return get(String.class, key, otherwise);
    }

    public void putBooleanArray(String key, boolean[] value) {
        values.put(key, value);
    }

    public boolean[] getBooleanArray(String key) {
        return get(boolean[].class, key, null);
    }

    public void putIntArray(String key, int[] value) {
        values.put(key, value);
    }

    public int[] getIntArray(String key) {
        return get(int[].class, key, null);
    }

    public void putLongArray(String key, long[] value) {
        values.put(key, value);
    }

    public long[] getLongArray(String key) {
        return get(long[].class, key, null);
    }

    public void putDoubleArray(String key, double[] value) {
        values.put(key, value);
    }

    public double[] getDoubleArray(String key) {
        return get(double[].class, key, null);
    }

    public void putStringArray(String key, String[] value) {
        values.put(key, value);
    }

    public String[] getStringArray(String key) {
        return get(String[].class, key, null);
    }

    public void putPersistableBundle(String key, PersistableBundle value) {
        values.put(key, value);
    }

    public PersistableBundle getPersistableBundle(String key) {
        return get(PersistableBundle.class, key, null);
    }

    @Override
    public int describeContents() {
        return 0;
    }

    @Override
    public void writeToParcel(Parcel parcel, int flags) {
        if (values.isEmpty()) {
            parcel.writeInt(0);
            return;
        }
        int at = parcel.dataPosition();
        parcel.writeInt(0);
        parcel.writeInt(NATIVE);
        int start = parcel.dataPosition();
        parcel.writeInt((int) values.values().stream().filter(value -> value != null).count());
        for (int type = 0; type < TYPES.length; type++) {
            for (Map.Entry<String, Object> entry : values.entrySet()) {
                if (TYPES[type].isInstance(entry.getValue())) {
                    parcel.writeString(entry.getKey());
                    parcel.writeInt(NUMBERS[type]);
                    write(parcel, entry.getValue(), flags);
                }
            }
        }
        int end = parcel.dataPosition();
        parcel.setDataPosition(at);
        parcel.writeInt(end - start);
        parcel.setDataPosition(end);
    }

    private static void write(Parcel parcel, Object value, int flags) {
        if (value instanceof Boolean) {
            parcel.writeBoolean((Boolean) value);
        } else if (value instanceof Integer) {
            parcel.writeInt((Integer) value);
        } else if (value instanceof Long) {
            parcel.writeLong((Long) value);
        } else if (value instanceof Double) {
            parcel.writeDouble((Double) value);
        } else if (value instanceof String) {
            parcel.writeString((String) value);
        } else if (value instanceof boolean[]) {
            parcel.writeBooleanArray((boolean[]) value);
        } else if (value instanceof int[]) {
            parcel.writeIntArray((int[]) value);
        } else if (value instanceof long[]) {
            parcel.writeLongArray((long[]) value);
        } else if (value instanceof double[]) {
            parcel.writeDoubleArray((double[]) value);
        } else if (value instanceof String[]) {
            parcel.writeStringArray((String[]) value);
        } else {
            ((PersistableBundle) value).writeToParcel(parcel, flags);
        }
    }

    public void readFromParcel(Parcel parcel) {
        values.clear();
        int size = parcel.readInt();
        if (size == 0) {
            return;
        }
        int mark = parcel.readInt();
        if (mark != NATIVE && mark != JAVA) {
            throw new BadParcelableException(mark + " is the mark of no bundle");
        }
        if (size < 0 || size > parcel.dataAvail()) {
            throw new BadParcelableException("a bundle of " + size + " bytes where " + parcel.dataAvail() + " are left");
        }
        int end = parcel.dataPosition() + size;
        int count = parcel.readInt();
        if (count < 0 || (long) count * LEAST_ENTRY > parcel.dataAvail()) {
            throw new BadParcelableException("a bundle of " + count + " values in " + size + " bytes");
        }
        for (int index = 0; index < count; index++) {
            String key = parcel.readString();
            values.put(String.valueOf(key), read(parcel, parcel.readInt()));
        }
        if (parcel.dataPosition() != end) {
            throw new BadParcelableException("a bundle has another size than it says");
        }
    }

    private static Object read(Parcel parcel, int number) {
        switch (number) {
            case NULL:
                return null;
            case 9:
                return parcel.readBoolean();
            case 1:
                return parcel.readInt();
            case 6:
                return parcel.readLong();
            case 8:
                return parcel.readDouble();
            case 0:
                return parcel.readString();
            case 23:
                return parcel.createBooleanArray();
            case 18:
                return parcel.createIntArray();
            case 19:
                return parcel.createLongArray();
            case 28:
                return parcel.createDoubleArray();
            case 14:
                return parcel.createStringArray();
            case 25:
                return parcel.nested(CREATOR);
            default:
                throw new BadParcelableException("a bundle has no values of type " + number);
        }
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("PersistableBundle[{");
        String comma = "";
        for (Map.Entry<String, Object> entry : values.entrySet()) {
            Object value = entry.getValue();
            String shown = Arrays.deepToString(new Object[] {value});
            text.append(comma).append(entry.getKey()).append('=').append(shown, 1, shown.length() - 1);
            comma = ", ";
        }
        return text.append("}]").toString();
    }
}
