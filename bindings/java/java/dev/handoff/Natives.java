package dev.handoff;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/**
 * Loads the library: from {@code java.library.path}, as an Android archive has it, or else from the JAR with the
 * classifier of this machine's architecture ({@code linux-x86_64}, {@code linux-aarch64}).
 */
final class Natives {
    private static final String NAME = "handoff_java";

    private Natives() {}

    /** Loads it; a second time does nothing. */
    static void load() {
        try {
            System.loadLibrary(NAME);
        } catch (UnsatisfiedLinkError notThere) {
            String resource = "natives/linux-" + architecture() + "/lib" + NAME + ".so";
            try (InputStream library = Natives.class.getResourceAsStream(resource)) {
                if (library == null) {
                    UnsatisfiedLinkError error = new UnsatisfiedLinkError(
                            "lib" + NAME + ".so is neither in java.library.path nor in the class path: add the artifact"
                                    + " dev.handoff:handoff with the classifier linux-" + architecture());
                    error.initCause(notThere);
                    throw error;
                }
                loadCopy(library);
            } catch (IOException problem) {
                UnsatisfiedLinkError error = new UnsatisfiedLinkError(
                        "lib" + NAME + ".so cannot be copied to " + System.getProperty("java.io.tmpdir")
                                + ", to be loaded from there: choose another folder with -Djava.io.tmpdir");
                error.initCause(problem);
                throw error;
            }
        }
    }

    /** The loader takes files only. The file is made anew, so that nobody else's is loaded, and is gone at once. */
    private static void loadCopy(InputStream library) throws IOException {
        File copy = File.createTempFile("libhandoff_java-", ".so");
        try {
            try (OutputStream out = new FileOutputStream(copy)) {
                byte[] buffer = new byte[65536];
                int count;
                while ((count = library.read(buffer)) >= 0) {
                    out.write(buffer, 0, count);
                }
            }
            System.load(copy.getAbsolutePath());
        } finally {
            if (!copy.delete()) {
                copy.deleteOnExit();
            }
        }
    }

    /** As the kernel calls it; virtual machines say {@code amd64} or {@code x86_64}. */
    private static String architecture() {
        String name = System.getProperty("os.arch", "");
        return name.equals("amd64") ? "x86_64" : name.equals("arm64") ? "aarch64" : name;
    }
}
