package sample.forty;

@Backing(type="long")
enum Range {
    NEAR,
    FAR = 1L << 40,
}
