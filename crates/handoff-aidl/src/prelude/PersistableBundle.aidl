package android.os;

/** Values of a few types, each under a name. */
@VintfStability
parcelable PersistableBundle ndk_header "android/persistable_bundle_aidl.h" rust_type "::handoff_ipc::parcel::PersistableBundle";
