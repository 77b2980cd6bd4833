package android.os;

/** A parcelable of a type that the interface does not know, such as what a vendor adds; or nothing. */
@VintfStability
parcelable ParcelableHolder ndk_header "android/binder_parcelable_utils.h" rust_type "::handoff_ipc::parcel::ParcelableHolder";
