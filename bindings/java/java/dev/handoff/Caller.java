package dev.handoff;

/** Who calls, as the kernel vouches for it. */
public final class Caller {
    private final int pid;
    private final int uid;
    private final int gid;
    private final boolean isOneway;

    Caller(int pid, int uid, int gid, boolean isOneway) {
        this.pid = pid;
        this.uid = uid;
        this.gid = gid;
        this.isOneway = isOneway;
    }

    /** Its process; 0 where that is not visible here. */
    public int getPid() {
        return pid;
    }

    /** Its user. */
    public int getUid() {
        return uid;
    }

    /** Its group. */
    public int getGid() {
        return gid;
    }

    /** Whether nobody waits for a reply. */
    public boolean isOneway() {
        return isOneway;
    }
}
