package android.hardware.common.fmq;

import android.hardware.common.NativeHandle;
import android.hardware.common.fmq.GrantorDescriptor;

/** How another process finds a message queue of items of one type. */
@VintfStability
parcelable MQDescriptor<T, Flavor> {
    /** Read counter, write counter, data, and the word of the event flag where there is one. */
    GrantorDescriptor[] grantors;
    /** The memory. */
    NativeHandle handle;
    /** Bytes of an item. */
    int quantum;
    /** Which flavour. */
    int flags;
}
