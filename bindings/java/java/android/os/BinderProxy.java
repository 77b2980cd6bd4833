package android.os;

import dev.handoff.Bridge;
import dev.handoff.DeadObjectException;
import dev.handoff.HandoffException;
import dev.handoff.ServiceException;
import dev.handoff.UnknownTransactionException;
import dev.handoff.WrongInterfaceException;
import java.util.HashMap;
import java.util.Map;

/** A reference to an object of another process, or of this one in another language. */
final class BinderProxy implements IBinder {
    private final long number;
    // The interface that the object was last found to have.
    private volatile String checked;
    private final Map<DeathRecipient, Long> recipients = new HashMap<>();

    BinderProxy(long number) {
        this.number = number;
    }

    long number() {
        return number;
    }

    @Override
    public String getInterfaceDescriptor() throws RemoteException {
        try {
            return Bridge.descriptor(number);
        } catch (HandoffException failed) {
            throw remote(failed);
        }
    }

    @Override
    public boolean pingBinder() {
        try {
            Bridge.descriptor(number);
            return true;
        } catch (HandoffException failed) {
            return false;
        }
    }

    @Override
    public boolean isBinderAlive() {
        return Bridge.alive(number);
    }

    @Override
    public IInterface queryLocalInterface(String descriptor) {
        return null;
    }

    @Override
    public boolean transact(int code, Parcel data, Parcel reply, int flags) throws RemoteException {
        if (code == INTERFACE_TRANSACTION && reply != null) {
            reply.writeString(getInterfaceDescriptor());
            reply.setDataPosition(0);
            return true;
        }
        try {
            // On a device the service compares the name in front of the data. Here it is not sent.
            String token = data.token();
            if (token != null && !token.equals(checked)) {
                Bridge.checkInterface(number, token);
                checked = token;
            }
            byte[] answer = Bridge.call(number, code, data.toBytes(0), (flags & FLAG_ONEWAY) != 0);
            if (reply != null) {
                reply.receive(answer);
            }
            return true;
        } catch (UnknownTransactionException unknown) {
            return false;
        } catch (WrongInterfaceException wrong) {
            throw new SecurityException(wrong.getMessage(), wrong);
        } catch (ServiceException refused) {
            if (reply != null) {
                reply.refuse(refused.getException(), refused.getSpecific(), refused.getMessage());
            }
            return true;
        } catch (HandoffException failed) {
            throw remote(failed);
        }
    }

    private static RemoteException remote(HandoffException failed) {
        RemoteException thrown = failed instanceof DeadObjectException
            ? new android.os.DeadObjectException(failed.getMessage())
            : new RemoteException(failed.getMessage());
        thrown.initCause(failed);
        return thrown;
    }

    @Override
    public void linkToDeath(DeathRecipient recipient, int flags) throws RemoteException {
        if (!isBinderAlive()) {
            throw new android.os.DeadObjectException("the process of the object has ended");
        }
        synchronized (recipients) {
            Long before = recipients.put(recipient, Bridge.watch(number, recipient::binderDied));
            if (before != null) {
                Bridge.release(before);
            }
        }
    }

    @Override
    public boolean unlinkToDeath(DeathRecipient recipient, int flags) {
        Long watch;
        synchronized (recipients) {
            watch = recipients.remove(recipient);
        }
        if (watch == null) {
            throw new java.util.NoSuchElementException("this recipient hears of no death here");
        }
        Bridge.release(watch);
        return isBinderAlive();
    }
}
