package sample.forty;

@Backing(type="byte")
enum Mode {
    SLOW = -1,
    FAST = 4,
}
