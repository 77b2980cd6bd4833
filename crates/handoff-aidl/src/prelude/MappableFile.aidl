package android.hardware.common;

/** A part of a file that can be mapped. */
@VintfStability
parcelable MappableFile {
    /** How many bytes. */
    long length;
    /** `PROT_READ`, `PROT_WRITE` and others of `mmap`. */
    int prot;
    /** The file. */
    ParcelFileDescriptor fd;
    /** Where in the file, in bytes. */
    long offset;
}
