package android.os;

import java.lang.reflect.Array;
import java.util.Arrays;
import java.util.function.Function;

/** Arrays of fixed size in parcels: each says its length, which must be the one that is meant. */
final class FixedArrays {
    private FixedArrays() {}

    static void write(Parcel parcel, Object value, int flags, int... dimensions) {
        if (value == null) {
            parcel.writeInt(-1);
            return;
        }
        int length = Array.getLength(value);
        if (length != dimensions[0]) {
            throw new BadParcelableException("an array of " + length + " items where " + dimensions[0] + " are meant");
        }
        if (dimensions.length > 1) {
            parcel.writeInt(length);
            int[] inner = Arrays.copyOfRange(dimensions, 1, dimensions.length);
            for (int index = 0; index < length; index++) {
                write(parcel, Array.get(value, index), flags, inner);
            }
        } else if (value instanceof int[]) {
            parcel.writeIntArray((int[]) value);
        } else if (value instanceof byte[]) {
            parcel.writeByteArray((byte[]) value);
        } else if (value instanceof boolean[]) {
            parcel.writeBooleanArray((boolean[]) value);
        } else if (value instanceof char[]) {
            parcel.writeCharArray((char[]) value);
        } else if (value instanceof long[]) {
            parcel.writeLongArray((long[]) value);
        } else if (value instanceof float[]) {
            parcel.writeFloatArray((float[]) value);
        } else if (value instanceof double[]) {
            parcel.writeDoubleArray((double[]) value);
        } else if (value instanceof String[]) {
            parcel.writeStringArray((String[]) value);
        } else if (value instanceof IBinder[]) {
            parcel.writeBinderArray((IBinder[]) value);
        } else if (value instanceof IInterface[]) {
            parcel.writeInterfaceArray((IInterface[]) value);
        } else {
            parcel.writeTypedArray((Parcelable[]) value, flags);
        }
    }

    /** The sizes of an array and of those in it. */
    static int[] sizes(Object value) {
        int length = Array.getLength(value);
        if (!value.getClass().getComponentType().isArray()) {
            return new int[] {length};
        }
        int[] inner = sizes(Array.get(value, 0));
        int[] all = new int[inner.length + 1];
        all[0] = length;
        System.arraycopy(inner, 0, all, 1, inner.length);
        return all;
    }

    static void copy(Object value, Object read) {
        if (read == null) {
            throw new BadParcelableException("null came where an array of fixed size is meant");
        }
        System.arraycopy(read, 0, value, 0, Array.getLength(value));
    }

    static Object read(
            Parcel parcel, Class<?> type, Parcelable.Creator<?> creator, Function<IBinder, ?> asInterface, int... dimensions) {
        int start = parcel.dataPosition();
        int length = parcel.readInt();
        if (length == -1) {
            return null;
        }
        if (length != dimensions[0]) {
            throw new BadParcelableException("an array of " + length + " items came where " + dimensions[0] + " are meant");
        }
        Class<?> item = type.getComponentType();
        if (item.isArray() || asInterface != null || creator != null) {
            Object value = Array.newInstance(item, length);
            int[] inner = Arrays.copyOfRange(dimensions, 1, dimensions.length);
            for (int index = 0; index < length; index++) {
                Array.set(value, index, item.isArray() ? read(parcel, item, creator, asInterface, inner)
                    : creator != null ? parcel.readTypedObject(creator) : asInterface.apply(parcel.readStrongBinder()));
            }
            return value;
        }
        parcel.setDataPosition(start);
        return item == int.class ? parcel.createIntArray()
            : item == byte.class ? parcel.createByteArray()
            : item == boolean.class ? parcel.createBooleanArray()
            : item == char.class ? parcel.createCharArray()
            : item == long.class ? parcel.createLongArray()
            : item == float.class ? parcel.createFloatArray()
            : item == double.class ? parcel.createDoubleArray()
            : item == String.class ? parcel.createStringArray()
            : parcel.createBinderArray();
    }
}
