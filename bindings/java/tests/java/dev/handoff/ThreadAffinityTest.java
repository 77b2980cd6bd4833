package dev.handoff;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a Java programmer is promised. */
class ThreadAffinityTest {
    private final int[] before = ThreadAffinity.getAllowedCores();
    private final int first = before[0];
    private final int[] one = {first};

    @Test
    void aBlockRunsOnItsCoreAndTheThreadIsPutBack() {
        assertTrue(ThreadAffinity.getCoresCount() >= before.length);
        ThreadAffinity.threadToCore(first, () -> assertArrayEquals(one, ThreadAffinity.getAllowedCores()));
        assertArrayEquals(before, ThreadAffinity.getAllowedCores());
    }

    @Test
    void theThreadIsPutBackAlsoWhenTheBlockThrows() {
        Executable throwing = () -> ThreadAffinity.threadToCore(first, () -> {
            throw new IllegalStateException();
        });
        assertThrows(IllegalStateException.class, throwing);
        assertArrayEquals(before, ThreadAffinity.getAllowedCores());
    }

    @Test
    void aNewThreadRunsOnItsCoreAndItsMakerStays() throws Exception {
        AtomicReference<int[]> there = new AtomicReference<>();
        Thread thread = ThreadAffinity.newThreadOn("" + first, () -> there.set(ThreadAffinity.getAllowedCores()));
        thread.start();
        thread.join();
        assertArrayEquals(one, there.get());
        assertArrayEquals(before, ThreadAffinity.getAllowedCores());
    }

    @Test
    void aProcessIsPinnedWithItsOtherThreads() throws Exception {
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
        try {
            assertArrayEquals(one, ThreadAffinity.pidToCore(pid, first));
            look.countDown();
            bystander.join();
            assertArrayEquals(one, other.get());
        } finally {
            ThreadAffinity.pidTo(pid, "all");
        }
    }

    @Test
    void errorsSayWhy() {
        assertTrue(refusal(() -> ThreadAffinity.coresOf("bgi")).contains("did you mean `big`"));
        assertTrue(refusal(() -> ThreadAffinity.threadToCore(5000, () -> {})).contains("not online"));
        assertTrue(refusal(() -> ThreadAffinity.setPriority("fast")).contains("is not a priority"));
        assertArrayEquals(before, ThreadAffinity.getAllowedCores());
    }

    @Test
    void aPriorityIsGiven() throws Exception {
        AtomicReference<String> priority = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            ThreadAffinity.setPriority("batch:15");
            priority.set(ThreadAffinity.getPriority());
        });
        thread.start();
        thread.join();
        assertEquals("batch:15", priority.get());
    }

    private static String refusal(Executable call) {
        return String.valueOf(assertThrows(RuntimeException.class, call).getMessage());
    }
}
