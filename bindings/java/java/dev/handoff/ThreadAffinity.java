package dev.handoff;

import java.util.Objects;

/**
 * Puts threads and processes on chosen cores.
 *
 * <p>Cores are numbers, or names that mean the same on every machine: {@code "big"}, {@code "little"},
 * {@code "llc:0"}, {@code "0-3,5"}, {@code "all,!0"}. What cannot be had throws a {@link RuntimeException}
 * with the reason. From Kotlin: {@code ThreadAffinity.threadToCore(0) { work() }}.
 */
public final class ThreadAffinity {
    static {
        Natives.load();
    }

    private ThreadAffinity() {}

    /** How many cores are online. */
    public static int getCoresCount() {
        return numbers(online()).length;
    }

    /** The cores that the calling thread may use. */
    public static int[] getAllowedCores() {
        return numbers(mask(0));
    }

    /** The cores that a name means here. */
    public static int[] coresOf(String cores) {
        return numbers(resolve(Objects.requireNonNull(cores)));
    }

    /**
     * Runs the block on one core, in the calling thread, which is afterwards where it was: also when the
     * block throws. Threads that the block starts inherit the core and keep it; see {@link #newThreadOn}.
     */
    public static void threadToCore(int core, Runnable block) {
        threadTo(Integer.toString(core), block);
    }

    /** {@link #threadToCore}, with cores by name. */
    public static void threadTo(String cores, Runnable block) {
        Objects.requireNonNull(block);
        String before = mask(0);
        pinThread(0, Objects.requireNonNull(cores));
        try {
            block.run();
        } finally {
            pinThread(0, before);
        }
    }

    /** Makes a thread, not started yet, that runs the block on these cores; the caller stays where it is. */
    public static Thread newThreadOn(String cores, Runnable block) {
        // Found wrong now rather than in the other thread, where nobody may be listening.
        resolve(Objects.requireNonNull(cores));
        Objects.requireNonNull(block);
        return new Thread(() -> threadTo(cores, block));
    }

    /** Puts every thread of a process on one core, those that are born meanwhile too. Gives what was granted. */
    public static int[] pidToCore(int pid, int core) {
        return pidTo(pid, Integer.toString(core));
    }

    /** {@link #pidToCore}, with cores by name. */
    public static int[] pidTo(int pid, String cores) {
        return numbers(pinProcess(pid, Objects.requireNonNull(cores)));
    }

    /** Policy and priority of the calling thread, such as {@code "other:5"} or {@code "fifo:10"}. */
    public static String getPriority() {
        return priorityOf(0);
    }

    /** Gives the calling thread a policy and priority, as {@link #getPriority} tells it. */
    public static void setPriority(String priority) {
        setPriorityOf(0, Objects.requireNonNull(priority));
    }

    /** Tells the running policy that a process came to the foreground, or left it. */
    public static void setForeground(int pid, boolean isForeground) {
        foreground(pid, isForeground);
    }

    /** {@code "0-2,5"} as numbers. */
    private static int[] numbers(String list) {
        java.util.stream.IntStream.Builder all = java.util.stream.IntStream.builder();
        for (String item : list.split(",")) {
            if (item.isEmpty()) {
                continue;
            }
            String[] ends = item.split("-", 2);
            int last = Integer.parseInt(ends[ends.length - 1]);
            for (int core = Integer.parseInt(ends[0]); core <= last; core++) {
                all.add(core);
            }
        }
        return all.build().toArray();
    }

    private static native String mask(int thread);

    private static native String resolve(String cores);

    private static native String online();

    private static native String pinThread(int thread, String cores);

    private static native String pinProcess(int pid, String cores);

    private static native String priorityOf(int thread);

    private static native void setPriorityOf(int thread, String priority);

    private static native void foreground(int pid, boolean isForeground);
}
