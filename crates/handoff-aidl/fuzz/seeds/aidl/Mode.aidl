package sample.everything;

@Backing(type="long")
enum Mode {
    SLOW = -1,
    FAST = 1 << 4,
    FASTER = FAST * 2,
    FAR = 1L << 40,
}
