package dev.handoff;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** How outcomes travel between Java and the library: a kind, then the data or what went wrong. */
final class Outcome {
    private static final int OK = 0;
    private static final int DEAD = 1;
    private static final int DEADLINE = 2;
    private static final int EXCEPTION = 3;
    private static final int NO_SERVICE = 4;
    private static final int UNKNOWN_TRANSACTION = 5;
    // 6 is any other.
    private static final int WRONG_INTERFACE = 7;
    private static final int NAME_TAKEN = 8;

    private Outcome() {}

    /** The data, or the exception. */
    static byte[] open(byte[] outcome) {
        ByteBuffer bytes = ByteBuffer.wrap(outcome).order(ByteOrder.LITTLE_ENDIAN);
        int kind = bytes.getInt();
        switch (kind) {
            case OK:
                return Arrays.copyOfRange(outcome, 4, outcome.length);
            case DEAD:
                throw new DeadObjectException(text(outcome, 4));
            case DEADLINE:
                throw new DeadlineException(text(outcome, 4));
            case EXCEPTION:
                throw new ServiceException(bytes.getInt(), bytes.getInt(), text(outcome, 12));
            case NO_SERVICE:
                throw new NoServiceException(text(outcome, 4));
            case UNKNOWN_TRANSACTION:
                throw new UnknownTransactionException(text(outcome, 4));
            case WRONG_INTERFACE:
                throw new WrongInterfaceException(text(outcome, 4));
            case NAME_TAKEN:
                throw new NameTakenException(text(outcome, 4));
            default:
                throw new HandoffException(text(outcome, 4));
        }
    }

    /** The number that stands for something of the library. */
    static long number(byte[] outcome) {
        return ByteBuffer.wrap(open(outcome)).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    static byte[] reply(byte[] data) {
        return ByteBuffer.allocate(4 + data.length).order(ByteOrder.LITTLE_ENDIAN).putInt(OK).put(data).array();
    }

    static byte[] unknownTransaction() {
        return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(UNKNOWN_TRANSACTION).array();
    }

    static byte[] refused(int exception, int specific, String message) {
        byte[] text = message.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(12 + text.length)
            .order(ByteOrder.LITTLE_ENDIAN)
            .putInt(EXCEPTION)
            .putInt(exception)
            .putInt(specific)
            .put(text)
            .array();
    }

    private static String text(byte[] outcome, int from) {
        return new String(outcome, from, outcome.length - from, StandardCharsets.UTF_8);
    }
}
