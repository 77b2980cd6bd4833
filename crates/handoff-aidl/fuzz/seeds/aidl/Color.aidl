package sample.everything;

/** Colours that a pixel can have. */
@Backing(type="byte")
enum Color {
    RED,
    GREEN = 5,
    /** One more than green. */
    BLUE,
}
