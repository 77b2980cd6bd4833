package android.os;

/**
 * A parcelable of a type that the interface does not know, such as what a vendor adds; or nothing. It stays as it travels
 * until it is asked for.
 */
public final class ParcelableHolder implements Parcelable {
    public static final Parcelable.Creator<ParcelableHolder> CREATOR = new Parcelable.Creator<ParcelableHolder>() {
        @Override
        public ParcelableHolder createFromParcel(Parcel source) {
            ParcelableHolder made = new ParcelableHolder(PARCELABLE_STABILITY_LOCAL);
            made.stability = source.readInt();
            made.take(source);
            return made;
        }

        @Override
        public ParcelableHolder[] newArray(int size) {
            return new ParcelableHolder[size];
        }
    };

    private int stability;
    // What is held: the value that was set or asked for, or how it came; neither if nothing is.
    private Parcelable value;
    private Parcel held;

    /** With nothing in it, for types that promise at least so much. */
    public ParcelableHolder(int stability) {
        this.stability = stability;
    }

    @Override
    public int getStability() {
        return stability;
    }

    /** Puts a value in, in the place of what was there. */
    public void setParcelable(Parcelable value) {
        if (value != null && value.getStability() < stability) {
            throw new BadParcelableException(value.getClass().getName() + " promises less than what holds it");
        }
        this.value = value;
        held = null;
    }

    /** The value, or null if none of this class is there. */
    public <T extends Parcelable> T getParcelable(Class<T> type) {
        if (held != null) {
            held.setDataPosition(0);
            if (!name(type).equals(held.readString())) {
                return null;
            }
            value = creator(type).createFromParcel(held);
            held = null;
        }
        return type.isInstance(value) ? type.cast(value) : null;
    }

    /** The name of a class's type in AIDL. */
    private static String name(Class<?> type) {
        return String.valueOf(type.getCanonicalName());
    }

    private static <T extends Parcelable> Parcelable.Creator<T> creator(Class<T> type) {
        try {
            @SuppressWarnings("unchecked")
            Parcelable.Creator<T> creator = (Parcelable.Creator<T>) type.getField("CREATOR").get(null);
            return creator;
        } catch (ReflectiveOperationException none) {
            throw new IllegalArgumentException(type.getName() + " has no CREATOR");
        }
    }

    @Override
    public int describeContents() {
        return value != null ? value.describeContents()
            : held != null && held.hasFileDescriptors() ? CONTENTS_FILE_DESCRIPTOR
            : 0;
    }

    @Override
    public void writeToParcel(Parcel parcel, int flags) {
        parcel.writeInt(stability);
        if (value == null) {
            parcel.writeInt(held == null ? 0 : held.dataSize());
            if (held != null) {
                parcel.append(held);
            }
            return;
        }
        int at = parcel.dataPosition();
        parcel.writeInt(0);
        int start = parcel.dataPosition();
        parcel.writeString(name(value.getClass()));
        value.writeToParcel(parcel, flags);
        int end = parcel.dataPosition();
        parcel.setDataPosition(at);
        parcel.writeInt(end - start);
        parcel.setDataPosition(end);
    }

    /** Takes what came in the place of what was there. */
    public void readFromParcel(Parcel parcel) {
        int found = parcel.readInt();
        if (found != stability) {
            throw new BadParcelableException("a holder of stability " + found + " where " + stability + " is meant");
        }
        take(parcel);
    }

    private void take(Parcel parcel) {
        int size = parcel.readInt();
        value = null;
        held = size == 0 ? null : parcel.part(size);
    }
}
