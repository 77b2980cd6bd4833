package android.os;

/** A value that can be written into a parcel. */
public interface Parcelable {
    int PARCELABLE_WRITE_RETURN_VALUE = 0x0001;
    int CONTENTS_FILE_DESCRIPTOR = 0x0001;
    int PARCELABLE_STABILITY_LOCAL = 0x0000;
    int PARCELABLE_STABILITY_VINTF = 0x0001;

    int describeContents();

    void writeToParcel(Parcel dest, int flags);

    default int getStability() {
        return PARCELABLE_STABILITY_LOCAL;
    }

    /** Makes values of what a parcel holds: each class has one, as its field {@code CREATOR}. */
    interface Creator<T> {
        T createFromParcel(Parcel source);

        T[] newArray(int size);
    }
}
