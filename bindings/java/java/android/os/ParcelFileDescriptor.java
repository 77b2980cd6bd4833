package android.os;

import dev.handoff.Bridge;
import dev.handoff.HandoffException;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.ref.Cleaner;

/** A file descriptor that travels in parcels. It is closed by {@link #close}, or when nothing refers to it any longer. */
public class ParcelFileDescriptor implements Parcelable, Closeable {
    public static final int MODE_READ_ONLY = 0x10000000;
    public static final int MODE_WRITE_ONLY = 0x20000000;
    public static final int MODE_READ_WRITE = 0x30000000;
    public static final int MODE_CREATE = 0x08000000;
    public static final int MODE_TRUNCATE = 0x04000000;
    public static final int MODE_APPEND = 0x02000000;

    private static final Cleaner CLEANER = Cleaner.create();

    private final Owned owned;
    private final Cleaner.Cleanable closing;

    /** Apart from the object that refers to it, so that it is closed when that is gone. */
    private static final class Owned implements Runnable {
        private int fd;

        Owned(int fd) {
            this.fd = fd;
        }

        @Override
        public synchronized void run() {
            int last = fd;
            fd = -1;
            if (last >= 0) {
                Bridge.closeFile(last);
            }
        }
    }

    private ParcelFileDescriptor(int fd) {
        owned = new Owned(fd);
        closing = CLEANER.register(this, owned);
    }

    public static ParcelFileDescriptor open(File file, int mode) throws FileNotFoundException {
        try {
            return new ParcelFileDescriptor(Bridge.openFile(file.getPath(), mode));
        } catch (HandoffException failed) {
            throw new FileNotFoundException(failed.getMessage());
        }
    }

    /** Takes a descriptor over by its number. */
    public static ParcelFileDescriptor adoptFd(int fd) {
        return new ParcelFileDescriptor(fd);
    }

    /** A copy of a descriptor, which stays its owner's. */
    public static ParcelFileDescriptor fromFd(int fd) throws IOException {
        try {
            return new ParcelFileDescriptor(Bridge.duplicateFile(fd));
        } catch (HandoffException failed) {
            throw new IOException(failed.getMessage(), failed);
        }
    }

    public ParcelFileDescriptor dup() throws IOException {
        return fromFd(getFd());
    }

    public int getFd() {
        synchronized (owned) {
            if (owned.fd < 0) {
                throw new IllegalStateException("the file descriptor was closed");
            }
            return owned.fd;
        }
    }

    /** Gives the descriptor up: the caller closes it. */
    public int detachFd() {
        synchronized (owned) {
            int fd = getFd();
            owned.fd = -1;
            return fd;
        }
    }

    public boolean canDetectErrors() {
        return false;
    }

    /** The size of a regular file. */
    public long getStatSize() {
        File file = new File(path(this));
        return file.isFile() ? file.length() : -1;
    }

    /** The file behind a descriptor, for Java's streams, which know no numbers. They begin at its start. */
    private static String path(ParcelFileDescriptor file) {
        return "/proc/self/fd/" + file.getFd();
    }

    @Override
    public void close() throws IOException {
        closing.clean();
    }

    @Override
    public int describeContents() {
        return CONTENTS_FILE_DESCRIPTOR;
    }

    @Override
    public void writeToParcel(Parcel dest, int flags) {
        dest.writeInt(0);
        dest.writeFile(getFd());
        if ((flags & PARCELABLE_WRITE_RETURN_VALUE) != 0) {
            closing.clean();
        }
    }

    public static final Creator<ParcelFileDescriptor> CREATOR = new Creator<ParcelFileDescriptor>() {
        @Override
        public ParcelFileDescriptor createFromParcel(Parcel source) {
            if (source.readInt() != 0) {
                throw new BadParcelableException("a file descriptor with a status channel");
            }
            return new ParcelFileDescriptor(source.readFile());
        }

        @Override
        public ParcelFileDescriptor[] newArray(int size) {
            return new ParcelFileDescriptor[size];
        }
    };

    /** Reads a file from its start, and closes the descriptor with itself. */
    public static class AutoCloseInputStream extends FileInputStream {
        private final ParcelFileDescriptor file;

        public AutoCloseInputStream(ParcelFileDescriptor file) throws FileNotFoundException {
            super(path(file));
            this.file = file;
        }

        @Override
        public void close() throws IOException {
            super.close();
            file.close();
        }
    }

    /** Writes behind what a file has, and closes the descriptor with itself. */
    public static class AutoCloseOutputStream extends FileOutputStream {
        private final ParcelFileDescriptor file;

        public AutoCloseOutputStream(ParcelFileDescriptor file) throws FileNotFoundException {
            super(path(file), true);
            this.file = file;
        }

        @Override
        public void close() throws IOException {
            super.close();
            file.close();
        }
    }
}
