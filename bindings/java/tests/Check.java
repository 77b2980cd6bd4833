import dev.handoff.ThreadAffinity;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** What a Java programmer is promised. Prints one line for each promise that is kept. */
final class Check {
    public static void main(String[] arguments) throws Exception {
        int[] before = ThreadAffinity.getAllowedCores();
        int first = before[0];
        check(ThreadAffinity.getCoresCount() >= before.length, "cores are counted");

        ThreadAffinity.threadToCore(first, () -> check(isOn(first), "a block runs on its core"));
        check(Arrays.equals(ThreadAffinity.getAllowedCores(), before), "and the thread is where it was");

        try {
            ThreadAffinity.threadToCore(first, () -> { throw new IllegalStateException(); });
        } catch (IllegalStateException expected) {
            check(Arrays.equals(ThreadAffinity.getAllowedCores(), before), "also when the block throws");
        }

        AtomicReference<int[]> there = new AtomicReference<>();
        Thread thread = ThreadAffinity.newThreadOn("" + first, () -> there.set(ThreadAffinity.getAllowedCores()));
        thread.start();
        thread.join();
        check(Arrays.equals(there.get(), new int[] {first}), "a new thread runs on its core");
        check(Arrays.equals(ThreadAffinity.getAllowedCores(), before), "and its maker stays");

        CountDownLatch started = new CountDownLatch(1);
        CountDownLatch look = new CountDownLatch(1);
        AtomicReference<int[]> other = new AtomicReference<>();
        Thread bystander = new Thread(() -> {
            started.countDown();
            try {
                look.await();
            } catch (InterruptedException e) {
                return;
            }
            other.set(ThreadAffinity.getAllowedCores());
        });
        bystander.start();
        started.await();
        int pid = (int) ProcessHandle.current().pid();
        int[] granted = ThreadAffinity.pidToCore(pid, first);
        look.countDown();
        bystander.join();
        check(Arrays.equals(granted, new int[] {first}), "a process is pinned");
        check(Arrays.equals(other.get(), new int[] {first}), "with its other threads");
        ThreadAffinity.pidTo(pid, "all");

        check(refusal(() -> ThreadAffinity.coresOf("bgi")).contains("did you mean `big`"), "errors say why");
        check(refusal(() -> ThreadAffinity.pidToCore(pid, 5000)).contains("not online"), "also those of the kernel");
        check(refusal(() -> ThreadAffinity.setPriority("fast")).contains("is not a priority"), "also of priorities");
        ThreadAffinity.setPriority("batch:15");
        check(ThreadAffinity.getPriority().equals("batch:15"), "a priority is given");
    }

    private static boolean isOn(int core) {
        return Arrays.equals(ThreadAffinity.getAllowedCores(), new int[] {core});
    }

    private static String refusal(Runnable call) {
        try {
            call.run();
            return "it was not refused";
        } catch (RuntimeException refused) {
            return String.valueOf(refused.getMessage());
        }
    }

    private static void check(boolean kept, String promise) {
        if (!kept) {
            throw new AssertionError(promise);
        }
        System.out.println("kept: " + promise);
    }
}
