import dev.handoff.Caller;
import dev.handoff.Connection;
import dev.handoff.Parcel;
import dev.handoff.RemoteObject;
import dev.handoff.ServiceException;
import dev.handoff.UnknownTransactionException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A service in Java and its client: {@code Greeter serve} and {@code Greeter greet NAME}. The names and numbers are
 * those of examples/src/bin/greeter_by_hand.rs, so that either side may be Rust.
 */
public final class Greeter {
    private static final int HELLO = 1;
    private static final int GREETED = 2;

    private final AtomicInteger greeted = new AtomicInteger();

    /** Several threads call it at once. */
    void serve(Caller caller, int code, Parcel request, Parcel reply) {
        switch (code) {
            case HELLO:
                String name = request.readString();
                if (name.isEmpty()) {
                    throw new ServiceException(ServiceException.ILLEGAL_ARGUMENT, "nobody has an empty name");
                }
                greeted.incrementAndGet();
                reply.writeString("Hello " + name + " (user " + caller.getUid() + ")");
                break;
            case GREETED:
                reply.writeInt(greeted.get());
                break;
            default:
                throw new UnknownTransactionException("a greeter has no transaction " + code);
        }
    }

    static void greet(RemoteObject greeter, String name) {
        Parcel request = new Parcel();
        request.writeString(name);
        System.out.println(greeter.call(HELLO, request, 5000).readString());
        System.out.println(greeter.call(GREETED, new Parcel()).readInt() + " greeted so far");
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = Connection.open()) {
            if (arguments.length == 2 && arguments[0].equals("greet")) {
                try (RemoteObject greeter = connection.find("sample.greeter", 5000)) {
                    greet(greeter, arguments[1]);
                }
            } else {
                connection.serve("sample.greeter", "sample.IGreeter", new Greeter()::serve);
                System.out.println("sample.greeter is there");
                while (System.in.read() >= 0) {
                    // Until the standard input ends.
                }
            }
        }
    }
}
