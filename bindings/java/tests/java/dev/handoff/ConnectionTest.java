package dev.handoff;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Calls and services, as a Java programmer is promised them. {@code $HANDOFF_SOCKET}, or the fixture that is started
 * here, leads to a manager with the service {@code test.rust}: 1 echoes every kind of value, 2 refuses, 3 waits, 4 ends its process, 5 counts, 6 waits
 * until as many calls of it as it is told have come, and says whether they did.
 */
class ConnectionTest {
    private static Process fixture;
    private static String socket;
    private final Connection connection = connect();

    private static Connection connect() {
        return socket == null ? Connection.open() : Connection.open(socket);
    }

    /** Starts what the tests call, unless the environment leads there. */
    @BeforeAll
    static void startFixture() throws IOException {
        String program = System.getProperty("handoff.fixture", "");
        if (System.getenv("HANDOFF_SOCKET") == null && !program.isEmpty()) {
            fixture = new ProcessBuilder(program).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            socket = new BufferedReader(new InputStreamReader(fixture.getInputStream(), StandardCharsets.UTF_8))
                .readLine();
        }
    }

    @AfterAll
    static void stopFixture() throws Exception {
        if (fixture != null) {
            fixture.getOutputStream().close();
            fixture.waitFor();
        }
    }

    @AfterEach
    void close() {
        connection.close();
    }

    @Test
    void valuesOfEveryKindComeBack() {
        try (RemoteObject rust = connection.find("test.rust", 0)) {
            assertEquals("test.IRust", rust.getDescriptor());
            assertTrue(rust.isAlive());
            byte[] bytes = new byte[70_001];
            bytes[70_000] = 9;
            Parcel request = new Parcel();
            request.writeBoolean(true);
            request.writeInt(-7);
            request.writeLong(1L << 40);
            request.writeDouble(0.25);
            request.writeString("Łódź 🦀");
            request.writeByteArray(bytes);
            Parcel reply = rust.call(1, request);
            assertTrue(reply.readBoolean());
            assertEquals(-7, reply.readInt());
            assertEquals(1L << 40, reply.readLong());
            assertEquals(0.25, reply.readDouble());
            assertEquals("Łódź 🦀", reply.readString());
            assertArrayEquals(bytes, reply.readByteArray());
            assertEquals(0, reply.remaining());
            assertThrows(BadParcelException.class, reply::readInt);
            assertThrows(BadParcelException.class, reply::readString);
        }
    }

    @Test
    void failuresAreExceptionsOfTheirKind() {
        RemoteObject rust = connection.find("test.rust", 0);
        ServiceException refused = assertThrows(ServiceException.class, () -> rust.call(2, new Parcel()));
        assertEquals(ServiceException.SERVICE_SPECIFIC, refused.getException());
        assertEquals(42, refused.getSpecific());
        assertEquals("as asked", refused.getMessage());
        assertThrows(DeadlineException.class, () -> rust.call(3, new Parcel(), 50));
        assertThrows(UnknownTransactionException.class, () -> rust.call(99, new Parcel()));
        assertThrows(NoServiceException.class, () -> connection.find("test.nobody", 0));
        rust.close();
        assertFalse(rust.isAlive());
        assertThrows(HandoffException.class, () -> rust.call(1, new Parcel()));
        assertThrows(HandoffException.class, () -> Connection.open("/nowhere/manager.sock"));
    }

    @Test
    void manyThreadsCallAtOnce() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (RemoteObject rust = connection.find("test.rust", 0)) {
            List<Future<Boolean>> calls = new ArrayList<>();
            for (int thread = 0; thread < 8; thread++) {
                calls.add(threads.submit(() -> {
                    Parcel request = new Parcel();
                    request.writeInt(8);
                    return rust.call(6, request).readBoolean();
                }));
            }
            // Each waits in the service until all are there: one after the other they never would be.
            for (Future<Boolean> call : calls) {
                assertTrue(call.get());
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void aOnewayCallArrives() throws Exception {
        try (RemoteObject rust = connection.find("test.rust", 0)) {
            int before = rust.call(5, new Parcel()).readInt();
            rust.callOneway(5, new Parcel());
            long end = System.nanoTime() + 60_000_000_000L;
            while (rust.call(5, new Parcel()).readInt() < before + 2) {
                assertTrue(System.nanoTime() < end);
            }
        }
    }

    @Test
    void javaServesJavaAndWhatItThrowsReachesTheCaller() {
        connection.serve("test.java", "test.IJava", (caller, code, request, reply) -> {
            switch (code) {
                case 1:
                    reply.writeInt(request.readInt() + 1);
                    return;
                case 2:
                    throw new ServiceException(ServiceException.SECURITY, "not you");
                case 3:
                    throw new IllegalStateException("a fault, on purpose");
                default:
                    throw new UnknownTransactionException("none");
            }
        });
        try (Connection other = connect(); RemoteObject java = other.find("test.java", 0)) {
            Parcel request = new Parcel();
            request.writeInt(41);
            assertEquals(42, java.call(1, request).readInt());
            int[] exceptions = {ServiceException.BAD_PARCELABLE, ServiceException.SECURITY, ServiceException.ILLEGAL_STATE};
            for (int code = 1; code <= 3; code++) {
                int wanted = code;
                ServiceException refused = assertThrows(ServiceException.class, () -> java.call(wanted, new Parcel()));
                assertEquals(exceptions[code - 1], refused.getException());
            }
            assertThrows(UnknownTransactionException.class, () -> java.call(9, new Parcel()));
        }
    }

    @Test
    void anObjectOfAnotherInterfaceIsRefused() {
        String both = "the object has the interface test.IRust, not test.IOther";
        Throwable wrong =
            assertThrows(WrongInterfaceException.class, () -> connection.find("test.rust", "test.IOther", 0));
        assertEquals(both, wrong.getMessage());
        try (RemoteObject rust = connection.find("test.rust", "test.IRust", 0)) {
            wrong = assertThrows(WrongInterfaceException.class, () -> rust.checkInterface("test.IOther"));
            assertEquals(both, wrong.getMessage());
            assertTrue(rust.isAlive());
        }
    }

    @Test
    void aNameThatIsTakenIsRefused() {
        Handler one = (caller, code, request, reply) -> reply.writeInt(1);
        Handler two = (caller, code, request, reply) -> reply.writeInt(2);
        connection.serve("test.taken", "test.INumber", one);
        try (Connection other = connect()) {
            Throwable taken =
                assertThrows(NameTakenException.class, () -> other.serve("test.taken", "test.INumber", two));
            assertTrue(taken.getMessage().contains("process " + ProcessHandle.current().pid()), taken.getMessage());
            other.serve("test.taken", "test.INumber", two, true);
            try (RemoteObject found = connection.find("test.taken", 0)) {
                assertEquals(2, found.call(1, new Parcel()).readInt());
            }
        }
    }

    @Test
    void objectsAndFileDescriptorsTravel() throws Exception {
        // Reads a letter, tells the receipt what was in it, and gives both back.
        connection.serve("test.postbox", "test.IPostbox", (caller, code, request, reply) -> {
            reply.writeInt(code);
            int letter = request.readFileDescriptor();
            try (RemoteObject receipt = request.readObject()) {
                Parcel news = new Parcel();
                news.writeString(Files.readString(Path.of("/proc/self/fd/" + letter)));
                receipt.callOneway(1, news);
                reply.writeObject(null);
                try (RemoteObject other = Connection.offer("test.IOther", (c, n, q, r) -> r.writeInt(17))) {
                    reply.writeObject(other);
                }
                reply.writeFileDescriptor(letter);
                reply.writeString("the end");
            } catch (IOException failed) {
                throw new ServiceException(ServiceException.ILLEGAL_STATE, failed.toString());
            }
            assertEquals(0, request.remaining());
        });
        CompletableFuture<String> heard = new CompletableFuture<>();
        Path letter = Files.createTempFile("letter", null);
        Files.writeString(letter, "dear reader");
        try (Connection other = connect();
                RemoteObject postbox = other.find("test.postbox", "test.IPostbox", 0);
                RemoteObject receipt = Connection.offer("test.IReceipt", (caller, code, request, reply) -> {
                    heard.complete(request.readString() + caller.isOneway());
                })) {
            assertEquals("test.IReceipt", receipt.getDescriptor());
            assertTrue(receipt.isSame(receipt) && !receipt.isSame(postbox));
            // A number of the process for the file: one comes back from the library's own copy.
            assertThrows(HandoffException.class, () -> new Parcel().writeFileDescriptor(-1));
            assertThrows(BadParcelException.class, () -> new Parcel().readObject());
            try (Parcel first = new Parcel(); FileInputStream file = new FileInputStream(letter.toFile())) {
                first.writeFileDescriptor(number(letter));
                first.writeObject(receipt);
                try (Parcel reply = postbox.call(9, first)) {
                    assertEquals(9, reply.readInt());
                    assertThrows(HandoffException.class, reply::readFileDescriptor);
                    assertEquals(null, reply.readObject());
                    try (RemoteObject offered = reply.readObject()) {
                        assertEquals("test.IOther", offered.getDescriptor());
                        assertEquals(17, offered.call(1, new Parcel()).readInt());
                    }
                    int copy = reply.readFileDescriptor();
                    assertEquals("dear reader", Files.readString(Path.of("/proc/self/fd/" + copy)));
                    assertEquals("the end", reply.readString());
                    assertEquals(0, reply.remaining());
                    assertThrows(BadParcelException.class, reply::readInt);
                }
                assertEquals("dear readertrue", heard.get(60, TimeUnit.SECONDS));
                assertTrue(file.available() > 0);
            }
        } finally {
            Files.delete(letter);
        }
    }

    /** The number of an open file of this process. */
    private static int number(Path file) throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            for (Path one : (Iterable<Path>) open::iterator) {
                if (Files.exists(one) && Files.isSameFile(one, file)) {
                    return Integer.parseInt(one.getFileName().toString());
                }
            }
        }
        throw new IOException("not open");
    }

    @Test
    void aServiceWhoseOwnCallFailedIsNotDead() {
        connection.serve("test.dependent", "test.IDependent", (caller, code, request, reply) -> {
            throw new DeadObjectException("the process that serves this object has died");
        });
        try (Connection other = connect(); RemoteObject dependent = other.find("test.dependent", 0)) {
            ServiceException refused =
                assertThrows(ServiceException.class, () -> dependent.call(1, new Parcel()));
            assertEquals(
                "IllegalState exception: a process that this service depends on has died", refused.toString());
            assertTrue(dependent.isAlive());
        }
    }

    @Test
    void theDeathOfAServiceIsHeard() throws Exception {
        CountDownLatch died = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        try (RemoteObject mortal = connection.find("test.mortal", 0)) {
            RemoteObject.DeathWatch watch = mortal.onDeath(died::countDown);
            mortal.onDeath(never::countDown).close();
            assertThrows(DeadObjectException.class, () -> mortal.call(4, new Parcel()));
            assertTrue(died.await(60, TimeUnit.SECONDS));
            assertFalse(mortal.isAlive());
            assertEquals(1, never.getCount());
            watch.close();
        }
    }
}
