import dev.handoff.ThreadAffinity
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Callers in the shape that the original study has them, in Kotlin: they compile, and get what they meant. */
class StudyCallersTest {
    @Test
    fun aThreadIsStartedOnACoreAndTheCallerStaysWhereItWas() {
        val before = ThreadAffinity.getAllowedCores()
        val core = before.last()
        val seen = CompletableFuture<IntArray>()
        ThreadAffinity.threadToCore(core) {
            Thread {
                var sum = 0L
                for (i in 0..1_000_000L) {
                    sum += i
                }
                assertEquals(500_000_500_000L, sum)
                seen.complete(ThreadAffinity.getAllowedCores())
            }.start()
        }
        assertArrayEquals(intArrayOf(core), seen.get(30, TimeUnit.SECONDS), "the new thread has the core")
        assertArrayEquals(before, ThreadAffinity.getAllowedCores(), "the caller was put back")
    }

    /** What the book shows. */
    @Test
    fun coresAreNamedOrNumbered() {
        val sleeper = ProcessBuilder("sleep", "60").start()
        val (pid, core) = Pair(sleeper.pid().toInt(), ThreadAffinity.getAllowedCores().first())
        val done = CompletableFuture<Int>()
        fun work() = done.complete(1)
        // ANCHOR: affinity
        ThreadAffinity.threadToCore(core) { work() }            // this thread, for the block
        ThreadAffinity.newThreadOn("all") { work() }.start()    // a new thread; this one stays where it is
        ThreadAffinity.pidToCore(pid, core)                     // every thread of a process
        // ANCHOR_END: affinity
        assertEquals(1, done.get(30, TimeUnit.SECONDS))
        sleeper.destroyForcibly().waitFor()
    }

    @Test
    fun coresAreCounted() {
        assertTrue(ThreadAffinity.getCoresCount() >= ThreadAffinity.getAllowedCores().size)
    }

    @Test
    fun aWholeProcessIsPinnedToOneCore() {
        val sleeper = ProcessBuilder("sleep", "60").start()
        try {
            val core = ThreadAffinity.getAllowedCores().first()
            assertArrayEquals(intArrayOf(core), ThreadAffinity.pidToCore(sleeper.pid().toInt(), core))
        } finally {
            sleeper.destroyForcibly().waitFor()
        }
    }

    @Test
    fun aNewThreadRunsOnItsCoreAndItsMakerStays() {
        val before = ThreadAffinity.getAllowedCores()
        val seen = CompletableFuture<IntArray>()
        val thread = ThreadAffinity.newThreadOn("${before.first()}") { seen.complete(ThreadAffinity.getAllowedCores()) }
        thread.start()
        assertArrayEquals(intArrayOf(before.first()), seen.get(30, TimeUnit.SECONDS))
        assertArrayEquals(before, ThreadAffinity.getAllowedCores())
    }
}
